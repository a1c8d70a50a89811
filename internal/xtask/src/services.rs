//! `cargo xtask services`: servers of every store, to try things on by hand. Tests start their own.
//!
//! `up` starts a process that holds them and returns when they are ready; `down` ends that process. The servers end with
//! it, however it ends, and nothing else is touched.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use simba_services::{Certificates, Cluster, MariaDb, PgBouncer, Postgres, Redis, Sentinels, install};

/// Where the holder tells what it holds.
const STATE: &str = "target/services.json";

pub(crate) fn services(what: &str) -> ExitCode {
    let done = match what {
        "install" => install(),
        "up" => install().and_then(|()| up()),
        "down" => down(),
        "hold" => hold(),
        _ => Err("write `cargo xtask services up`, `down` or `install`".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("xtask: {text}");
            ExitCode::FAILURE
        }
    }
}

fn state() -> Option<Value> {
    serde_json::from_slice(&fs::read(STATE).ok()?).ok()
}

/// The process that holds the servers, if it runs: its own command line tells it from another one of that number.
fn holder() -> Option<i64> {
    let pid = state()?["pid"].as_i64()?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    words.windows(2).any(|pair| pair == [b"services".as_slice(), b"hold"]).then_some(pid)
}

fn up() -> Result<(), String> {
    if holder().is_none() {
        drop(fs::remove_file(STATE));
        let me = std::env::current_exe().map_err(|error| error.to_string())?;
        // In a session of its own, so that no key pressed here reaches it.
        let mut child = Command::new("setsid")
            .arg(me)
            .args(["services", "hold"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("setsid cannot be started: {error}"))?;
        while !Path::new(STATE).exists() {
            if let Ok(Some(status)) = child.try_wait()
                && !status.success()
            {
                return Err(format!("the servers did not start: {status}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    let state = state().ok_or("the state of the services cannot be read")?;
    let mut out = std::io::stdout();
    for (name, url) in state["urls"].as_object().into_iter().flatten() {
        writeln!(out, "{name:12} {}", url.as_str().unwrap_or_default()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn down() -> Result<(), String> {
    let Some(pid) = holder() else { return Err("no services are up".into()) };
    let ended = Command::new("kill").arg(pid.to_string()).status();
    ended.map_err(|error| format!("kill cannot be started: {error}"))?;
    while holder().is_some() {
        thread::sleep(Duration::from_millis(50));
    }
    for folder in state().iter().flat_map(|state| state["folders"].as_array().cloned().unwrap_or_default()) {
        if let Some(folder) = folder.as_str() {
            fs::remove_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
        }
    }
    fs::remove_file(STATE).map_err(|error| error.to_string())
}

/// Starts everything and stays.
fn hold() -> Result<(), String> {
    fs::create_dir_all("target").map_err(|error| format!("target: {error}"))?;
    // Every folder of the servers lies in this one, which `down` removes.
    let root =
        tempfile::Builder::new().prefix("simba-services.").tempdir().map_err(|e| e.to_string())?.keep();
    open_to_all(&root)?;
    let _overridden = tempfile::env::override_temp_dir(&root);
    let postgres = Postgres::start();
    postgres.create_database("simba");
    let pooler = PgBouncer::start(&postgres);
    let mariadb = MariaDb::start();
    mariadb.create_database("simba");
    let redis = Redis::start_durable();
    let certificates = Certificates::new();
    let tls = Redis::start_with_tls(&certificates);
    let sentinels = Sentinels::start();
    let cluster = Cluster::start();
    let urls = json!({
        "postgres": postgres.url("simba"),
        "pgbouncer": pooler.url("simba"),
        "mariadb": mariadb.url("simba"),
        "redis": redis.url(),
        "redis-tls": tls.url(),
        "sentinel": sentinels.url(),
        "cluster": cluster.url(),
    });
    let state = json!({ "pid": std::process::id(), "folders": [root], "urls": urls });
    // Whole or not at all: `up` waits for the file.
    let draft = format!("{STATE}.new");
    fs::write(&draft, state.to_string()).map_err(|error| error.to_string())?;
    fs::rename(&draft, STATE).map_err(|error| error.to_string())?;
    loop {
        thread::park();
    }
}

fn open_to_all(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())
}
