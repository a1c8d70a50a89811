//! What a file may hold.

use super::Source;

/// Lines at most; longer files are cut where they have a joint.
const MOST_LINES: usize = 800;
/// Files that may be longer, each with its reason.
const LONG: &[(&str, &str)] = &[];
/// Characters of a line at most.
const MOST_COLUMNS: usize = 160;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["common", "utils", "util", "helpers", "helper", "manager", "misc"];

/// Words that no tracked file holds: where, what, the replacement. Split, so that this file does not hold them.
const BANNED: &[(&str, &[&str], &str)] = &[
    ("", &["todo", "!("], "finish it, or leave it out"),
    ("", &["unimplemented", "!("], "finish it, or leave it out"),
    ("", &["dbg", "!("], "take it out"),
    ("", &["#[ign", "ore"], "a test runs, or is not there"),
    ("", &["/work", "/main"], "a path of one machine is of no use on another"),
    ("", &["crates", ".io/"], "name the package, not where it comes from"),
    ("crates/simba-core/", &["thread::", "sleep"], "move the time by hand"),
    ("crates/simba-core/", &["tokio", "::"], "the engine has no runtime"),
    ("crates/simba-core/src/", &["std", "::time"], "use core::time; the engine reads no clock"),
    ("crates/simba-backend/src/", &["tokio", "::"], "the contract has no runtime"),
];

/// The only files that read a clock of the operating system.
const CLOCKS: &[&str] = &[
    "crates/simba/src/clock.rs",
    "crates/simba-sql/src/sqlite/clock.rs",
    "crates/simba-sql/src/sqlite/worker.rs",
    "crates/simba-cli/src/clock.rs",
    // The limits of calls to a server, on the runtime's clock; and the server's own beside this host's, for a person.
    "crates/simba-sql/src/postgres/connection.rs",
    "crates/simba-sql/src/postgres/doctor.rs",
    "crates/simba-sql/src/mysql/connection.rs",
    "crates/simba-sql/src/mysql/doctor.rs",
    "crates/simba-redis/src/connection.rs",
    // Bounds on how long a call to a real server takes.
    "crates/simba-tck/src/rig.rs",
    "internal/simba-bench/src/clock.rs",
];

pub(crate) fn check(source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    let path = source.path.as_str();
    let mut fault = |text: String| faults.push(format!("{path}: {text}"));
    let stem = path.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
    if source.is_rust() && EMPTY_NAMES.contains(&stem) {
        fault(format!("the name {stem:?} says nothing about what is inside; name it by its content"));
    }
    if !source.text.is_empty() && !source.text.ends_with('\n') {
        fault("the last line does not end".into());
    }
    let code = source.is_rust() || path.ends_with(".toml") || path.ends_with(".sql");
    if code && source.text.contains('\t') {
        fault("a tab; use spaces".into());
    }
    for (within, parts, instead) in BANNED {
        let word = parts.concat();
        let own = path.starts_with("internal/xtask/src/tidy/") || path == "Cargo.lock";
        if path.starts_with(within) && !own && source.text.contains(&word) {
            fault(format!("holds {word:?}: {instead}"));
        }
    }
    if source.is_rust() {
        rust(source, &mut fault);
    }
    faults
}

fn rust(source: &Source, fault: &mut impl FnMut(String)) {
    let lines = source.text.lines().count();
    let excused = LONG.iter().any(|(path, _)| *path == source.path);
    if lines > MOST_LINES && !excused {
        fault(format!("{lines} lines; cut it where it has a joint, into files of about 500"));
    }
    for (n, line) in source.text.lines().enumerate() {
        // A row of a table cannot be broken.
        let table = line.trim_start().starts_with("//! |");
        if !table && line.chars().count() > MOST_COLUMNS {
            fault(format!("line {} has {} characters; {MOST_COLUMNS} at most", n + 1, line.chars().count()));
        }
    }
    let reads_clock =
        ["clock_gettime(", "Instant::now()", "SystemTime::now()"].iter().any(|c| source.text.contains(c));
    let test = source.path.contains("/tests/");
    let own = source.path.starts_with("internal/xtask/");
    if reads_clock && !test && !own && !CLOCKS.contains(&source.path.as_str()) {
        fault("reads a clock; only the clock modules do, take the instant from one of them".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> String {
        check(&Source { path: path.into(), text: text.into() }).join("; ")
    }

    #[test]
    fn each_check_can_fail() {
        assert_eq!(faults("crates/a/src/lease.rs", "//! Good.\n"), "");
        assert!(faults("crates/a/src/utils.rs", "//! x\n").contains("says nothing"));
        assert!(faults("a.rs", "//! x").contains("does not end"));
        assert!(faults("a.rs", "\tx\n").contains("tab"));
        for (within, parts, _) in BANNED {
            assert!(faults(&format!("{within}a.rs"), &format!("{}\n", parts.concat())).contains("holds"));
        }
        assert!(faults("a.rs", &"x\n".repeat(MOST_LINES + 1)).contains("lines; cut it"));
        assert!(faults("a.rs", &format!("{}\n", "x".repeat(MOST_COLUMNS + 1))).contains("characters"));
        assert!(faults("crates/a/src/b.rs", "let now = clock_gettime(id);\n").contains("reads a clock"));
    }
}
