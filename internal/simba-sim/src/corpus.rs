//! The worlds that were ever red, as files: what a failure has taught is not forgotten.

use std::path::Path;

use crate::{
    planted::{Bug, Catch},
    report::guarded,
    swarm::Options,
    world::Plan,
};

/// Where the files are.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

/// One world.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file's name.
    pub file: String,
    /// The planted bug with which it is red; without one it was a real fault, and must be green now.
    pub bug: Option<Bug>,
    /// The invariant that it broke.
    pub rule: String,
    /// The world.
    pub options: Options,
}

/// Reads every file of a folder, in the order of their names.
///
/// # Errors
/// What cannot be read, and where.
pub fn load(folder: &Path) -> Result<Vec<Entry>, String> {
    let files = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = files.filter_map(Result::ok).map(|file| file.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Entry, String> {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
    let mut entry = Entry { file: file.clone(), bug: None, rule: String::new(), options: Options::default() };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once('=').ok_or_else(|| format!("{file}: no value in {line:?}"))?;
        let value = value.trim().trim_matches('"');
        match key.trim() {
            "options" => {
                entry.options = Options::from_line(line).map_err(|error| format!("{file}: {error}"))?
            }
            "rule" => entry.rule = value.into(),
            "planted" => {
                let bug = Bug::all().into_iter().find(|bug| bug.name() == value);
                entry.bug = Some(bug.ok_or_else(|| format!("{file}: {value:?} is no planted bug"))?);
            }
            "commit" | "reason" => {}
            other => {
                return Err(format!(
                    "{file}: {other:?} is unknown; use planted, rule, commit, reason, options"
                ));
            }
        }
    }
    if entry.rule.is_empty() || entry.options == Options::default() {
        return Err(format!("{file}: rule and options are needed"));
    }
    Ok(entry)
}

impl Entry {
    /// Simulates the world: red with its planted bug, green without.
    ///
    /// # Errors
    /// What came out instead.
    pub fn check(&self) -> Result<(), String> {
        let plan = Plan::of(self.options.clone());
        if let Some(violation) = guarded(&plan).violation {
            return Err(format!("breaks {}: {}", violation.rule, violation.text));
        }
        let Some(bug) = self.bug else { return Ok(()) };
        match guarded(&Plan { bug: Some(bug), ..plan }).violation {
            Some(_) => Ok(()),
            None => Err(format!("{} is not caught here any more", bug.name())),
        }
    }
}

/// Writes the world in which a planted bug was caught.
pub(crate) fn keep(bug: Bug, catch: &Catch) -> Result<(), String> {
    let name = bug.name();
    let path = Path::new(FOLDER).join(format!("{}.toml", name.to_lowercase()));
    let text = format!(
        "planted = \"{name}\"\nrule = \"{}\"\nreason = \"the first seed that catches it\"\n{}\n",
        catch.violation.rule,
        catch.options.to_line()
    );
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}
