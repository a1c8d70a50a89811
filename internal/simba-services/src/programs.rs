//! Where the programs are, and how they come here.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A program, and the system's package that holds it.
const PROGRAMS: [(&str, &str); 6] = [
    ("postgres", "postgresql"),
    ("pgbouncer", "pgbouncer"),
    ("mariadbd", "mariadb-server"),
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("redis-sentinel", "redis-sentinel"),
];

/// The path of a program, also where a user's path does not lead.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut postgres: Vec<PathBuf> = versions.filter_map(|v| Some(v.ok()?.path().join("bin"))).collect();
    postgres.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = postgres.into_iter().rev().chain(std::env::split_paths(&path));
    let more = ["/usr/sbin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    places.chain(more).map(|place| place.join(name)).find(|path| path.is_file())
}

/// The path of a program as text.
///
/// # Panics
/// If it is not installed.
pub(crate) fn program(name: &str) -> String {
    let Some(path) = find(name) else {
        panic!("{name} is not installed; run `cargo xtask services install`, or install {}", package(name))
    };
    path.display().to_string()
}

fn package(name: &str) -> &'static str {
    PROGRAMS.iter().find(|(program, _)| *program == name).map_or("its package", |(_, package)| package)
}

/// The packages whose programs are not here.
#[must_use]
pub fn missing() -> Vec<&'static str> {
    PROGRAMS.iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package).collect()
}

/// Installs what is missing from the system's packages, where this user may. Services are not started by it: the tests
/// start their own.
///
/// # Errors
/// What is missing still, and why.
pub fn install() -> Result<(), String> {
    let wanted = missing();
    if wanted.is_empty() {
        return Ok(());
    }
    let list = wanted.join(" ");
    if !rustix::process::geteuid().is_root() || !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!("install {list}; only root on Debian can do it from here"));
    }
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        // The packages' own servers are not wanted.
        command.env("RUNLEVEL", "1").stdin(Stdio::null()).stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !apt(&["update", "-q"]) {
        return Err(format!("apt-get update failed; {list} are missing"));
    }
    let mut args = vec!["install", "-y", "-q", "--no-install-recommends"];
    args.extend(&wanted);
    if apt(&args) { Ok(()) } else { Err(format!("apt-get could not install {list}")) }
}
