//! Tidy: the rules of this repository that no compiler checks. Each check has a test that shows that it can fail.

mod crates;
mod rules;
mod text;

use std::{fs, process::Command};

/// A file as tidy looks at it.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Every fault found, each with the file and what to do.
pub(crate) fn run() -> Vec<String> {
    let sources = match tracked() {
        Ok(sources) => sources,
        Err(error) => return vec![error],
    };
    let mut faults = crates::check();
    faults.extend(sources.iter().flat_map(text::check));
    faults.extend(rules::check(&sources));
    faults
}

/// The files that git tracks, and those that it would.
fn tracked() -> Result<Vec<Source>, String> {
    let listed =
        Command::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]).output();
    let listed = listed.map_err(|error| format!("git cannot be run: {error}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr)));
    }
    let paths = String::from_utf8_lossy(&listed.stdout).into_owned();
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| Source { path: path.to_owned(), text });
    Ok(paths.lines().filter_map(read).collect())
}
