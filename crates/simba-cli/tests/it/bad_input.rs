//! Bad input: a clear error, the right exit code, nothing lost, no panic.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::stage::{Ran, Stage};

fn refused(ran: &Ran, code: i32, part: &str) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert!(ran.err.contains(part), "{part:?} in {ran:?}");
    assert!(!ran.err.contains("panicked") && !ran.err.contains("RUST_BACKTRACE"), "{ran:?}");
}

#[test]
fn names() {
    let stage = Stage::new();
    let long = "x".repeat(129);
    for name in ["", ".", "..", "a/b", "é", "a\nb", " a", "a b", &long] {
        for verb in [&["run", name, "--", "true"][..], &["lead", name, "--", "true"], &["who", name]] {
            refused(&stage.run(verb), 64, "use 1 to 128 characters");
        }
    }
    assert_eq!(stage.run(&["run", &"x".repeat(128), "--", "true"]).code, Some(0));
    refused(&stage.run(&["run", "job", "--namespace", "a/b", "--", "true"]), 64, "cannot be a namespace");
    refused(&stage.run(&["run", "job", "--node", "a'; drop", "--", "true"]), 64, "cannot be a node label");
}

#[test]
fn durations_and_timing() {
    let stage = Stage::new();
    let run = |flags: &[&str]| stage.run(&[&["run", "job"], flags, &["--", "true"]].concat());
    for (text, part) in [
        ("0s", "from 1ms to 365 days"),
        ("=-3s", "it is negative"),
        ("1us", "from 1ms to 365 days"),
        ("5", "the unit is missing"),
        ("99999999999999999999s", "longer than can be counted"),
        ("400d", "is not a duration"),
        ("10000h", "from 1ms to 365 days"),
        ("NaN", "is not a duration"),
        ("", "it is empty"),
    ] {
        let flag = if let Some(value) = text.strip_prefix('=') {
            format!("--lease={value}")
        } else {
            format!("--lease={text}")
        };
        refused(&run(&[&flag]), 64, part);
    }
    for drift in ["0.5", "NaN", "-0.1", "1", "inf", "0,1"] {
        refused(&run(&[&format!("--drift={drift}")]), 64, "from 0 to below 0.5");
    }
    refused(&run(&["--lease", "5s", "--renew", "4s"]), 78, "2 x 4s > 5s");
    refused(&run(&["--lease", "1s", "--margin", "700ms"]), 78, "must be longer than a renew interval");
    refused(&run(&["--lease", "2s", "--kill-after", "1900ms"]), 78, "--kill-after");
    refused(&run(&["--wait", "5"]), 64, "the unit is missing");
    refused(&run(&["--max-run", "x"]), 64, "is not a duration");
    refused(&run(&["--stop-signal", "SEGV"]), 64, "use one of");
    refused(&stage.run(&["run", "job"]), 64, "no command to run");
    refused(&stage.run(&["watch", "--every", "1ms"]), 64, "at least 10ms");
}

#[test]
fn urls() {
    let stage = Stage::new();
    for url in [
        "cassandra://app:s3cret@db/app",
        "postgres://app:s3cret@db:99999/app",
        "redis://app:s3cret@cache/one/two",
        "nonsense",
        "",
        "http://x",
        "sqlite:",
        "sqlite::memory:",
        "sqlite:a?mode=ro",
    ] {
        let ran = stage.run(&["run", "job", "--url", url, "--", "true"]);
        assert_eq!(ran.code, Some(64), "{url}: {ran:?}");
        assert!(!ran.err.contains("s3cret"), "a password is never shown: {ran:?}");
    }
    let ran = stage.run(&["run", "job", "--url", "mongo://x", "--", "true"]);
    refused(&ran, 64, "\"mongo\" is not a kind of store");
    let file = stage.path("url");
    fs::write(&file, "sqlite:other.db\n").expect("a file");
    let mut command = stage.simba_without_url(&["run", "job", "--url-file", "url", "--", "true"]);
    assert_eq!(command.output().expect("it runs").status.code(), Some(0));
    assert!(stage.path("other.db").exists());
    refused(&stage.run(&["run", "job", "--url-file", "missing", "--", "true"]), 64, "cannot be read");
    let both = stage.run(&["run", "job", "--url", "sqlite:a.db", "--url-file", "url", "--", "true"]);
    refused(&both, 64, "two stores are named");
}

#[test]
fn settings_from_files() {
    let stage = Stage::new();
    fs::write(stage.path("simba.toml"), "nodee = \"x\"\n[session]\nlease_duration = \"5\"\n")
        .expect("a file");
    let ran = stage.run(&["config", "show"]);
    refused(&ran, 64, "simba.toml:1: \"nodee\" is not a setting; did you mean \"node\"?");
    refused(&ran, 64, "simba.toml:3: \"5\" is not a duration");
    fs::write(stage.path("simba.toml"), "node = \n").expect("a file");
    refused(&stage.run(&["config", "show"]), 64, "is not valid TOML");
    refused(&stage.run(&["config", "show", "--config", "missing.toml"]), 64, "missing.toml cannot be read");
}

/// A file that cannot be a store is left exactly as it is.
#[test]
fn files_that_cannot_be_a_store() {
    let stage = Stage::new();
    let run = |path: &str| stage.run(&["run", "job", "--url", &format!("sqlite:{path}"), "--", "true"]);
    fs::create_dir(stage.path("folder")).expect("a folder");
    refused(&run("folder"), 69, "is a directory");
    refused(&run("no/such/folder/x.db"), 69, "does not exist; make it first");

    let garbage = b"this is no database, and it is somebody's work\n".repeat(200);
    fs::write(stage.path("garbage.db"), &garbage).expect("a file");
    refused(&run("garbage.db"), 69, "is not an SQLite database");
    assert_eq!(fs::read(stage.path("garbage.db")).expect("a file"), garbage, "byte for byte");

    // A real database, cut in the middle of its pages.
    assert_eq!(run("good.db").code, Some(0));
    let whole = fs::read(stage.path("good.db")).expect("a file");
    let mut broken = whole.clone();
    broken[100..].fill(0xa5);
    fs::write(stage.path("broken.db"), &broken).expect("a file");
    refused(&run("broken.db"), 69, "broken.db");
    assert_eq!(fs::read(stage.path("broken.db")).expect("a file"), broken, "byte for byte");
    fs::write(stage.path("empty.db"), b"").expect("a file");
    assert_eq!(run("empty.db").code, Some(0), "an empty file is a new database");
}

/// Rights, as a user that has to keep to them.
#[test]
fn files_without_rights() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["run", "job", "--", "true"]).code, Some(0));
    if rustix::process::geteuid().is_root() {
        // Root may write everything; as another user the same is refused.
        let program = stage.path("simba-copy");
        fs::copy(env!("CARGO_BIN_EXE_simba"), &program).expect("a copy");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("rights");
        fs::set_permissions(stage.folder(), fs::Permissions::from_mode(0o755)).expect("rights");
        let url = format!("sqlite:{}", stage.path("simba.db").display());
        let out = std::process::Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args(["run", "job", "--url", &url, "--", "true"])
            .env("HOME", "/nonexistent")
            .output()
            .expect("setpriv is part of util-linux");
        let err = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(77), "{err}");
        assert!(err.contains("right"), "{err}");
    } else {
        fs::set_permissions(stage.path("simba.db"), fs::Permissions::from_mode(0o444)).expect("rights");
        refused(&stage.run(&["run", "job", "--", "true"]), 77, "right");
        fs::set_permissions(stage.path("simba.db"), fs::Permissions::from_mode(0o000)).expect("rights");
        refused(&stage.run(&["run", "job", "--", "true"]), 77, "right");
    }
}

/// Wrong usage has one code, help and version have none.
#[test]
fn usage() {
    let stage = Stage::new();
    for args in [&["nonsense"][..], &["run"], &["run", "job", "--no-such-flag"], &[], &["who"]] {
        assert_eq!(stage.run(args).code, Some(64), "{args:?}");
    }
    for args in [&["--help"][..], &["--version"], &["run", "--help"]] {
        let ran = stage.run(args);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{args:?}");
        assert!(!ran.out.contains("__guard"), "what is not for people is not shown");
    }
}
