//! The verbs in ordinary use.

use std::{fs, process::Stdio};

use rustix::process::Signal;

use crate::stage::{Stage, now_ns, until};

/// Two shells: the second is told who holds the lease, and the next run has the next token.
#[test]
fn run_takes_holds_and_releases() {
    let stage = Stage::new();
    let first = stage.spawn(&["run", "job", "--", "sh", "-c", "echo token $SIMBA_TOKEN; sleep 1.5"]);
    until("the lease to be held", || (stage.run(&["who", "job"]).code == Some(0)).then_some(()));

    let busy = stage.run(&["run", "job", "--", "true"]);
    assert_eq!(busy.code, Some(75), "{busy:?}");
    let pid = first.pid();
    assert!(busy.err.contains(&format!("(pid {pid})")), "names the holder: {busy:?}");
    assert!(busy.err.contains("token 1") && busy.err.contains("free in at most"), "{busy:?}");
    assert!(busy.err.contains("--wait"), "says what to do: {busy:?}");
    assert_eq!(stage.run(&["run", "job", "--busy-ok", "--", "true"]).code, Some(0));
    assert_eq!(stage.run(&["run", "job", "--busy-exit-code", "9", "--", "true"]).code, Some(9));

    let status = stage.run(&["status", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&status.out).expect("JSON");
    assert_eq!(json["leases"][0]["token"], "1", "a token is text: {}", status.out);
    assert_eq!(json["leases"][0]["owner"]["pid"], pid);
    assert_eq!(stage.run(&["who", "job", "--field", "token"]).out, "1\n");

    // Waiting: it gets the lease when the first is done, with the next token.
    let second =
        stage.run(&["run", "job", "--wait", "20s", "--", "sh", "-c", "echo token $SIMBA_TOKEN; exit 7"]);
    assert_eq!((second.code, second.out.as_str()), (Some(7), "token 2\n"), "{second:?}");
    let first = first.wait();
    assert_eq!((first.code, first.out.as_str()), (Some(0), "token 1\n"), "{first:?}");
    assert_eq!(stage.run(&["who", "job"]).code, Some(1), "free");
}

/// A wait has its limit, and says who held the lease.
#[test]
fn a_wait_has_its_limit() {
    let stage = Stage::new();
    let holder = stage.spawn(&["run", "job", "--", "sleep", "20"]);
    until("the lease to be held", || (stage.run(&["who", "job"]).code == Some(0)).then_some(()));
    let waited = stage.run(&["run", "job", "--wait=300ms", "--", "true"]);
    assert_eq!(waited.code, Some(75));
    assert!(waited.err.contains("gave up after 300ms"), "{waited:?}");
    // One that waits ends at once when it is told to, and leaves nothing behind.
    let waiting = stage.spawn(&["run", "job", "--wait", "--", "true"]);
    let mut waiting = waiting;
    until("the wait to begin", || (stage.run(&["who", "job"]).code == Some(0)).then_some(()));
    waiting.signal(Signal::TERM);
    until("the waiting one to end", || waiting.has_ended().then_some(()));
    assert_eq!(waiting.wait().code, Some(143));
    drop(holder);
}

/// A command's own exit code, and 126 and 127 as shells say them.
#[test]
fn exit_codes_pass_through() {
    let stage = Stage::new();
    let code = |args: &[&str]| stage.run(&[&["run", "job", "--"], args].concat()).code;
    assert_eq!(code(&["true"]), Some(0));
    assert_eq!(code(&["sh", "-c", "exit 42"]), Some(42));
    assert_eq!(code(&["sh", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(code(&["no-such-command"]), Some(127));
    fs::write(stage.path("plain"), "not a program").expect("a file");
    assert_eq!(code(&["./plain"]), Some(126));
    assert_eq!(stage.run(&["run", "job", "-c", "exit 3"]).code, Some(3));
    assert_eq!(stage.run(&["run", "job", "--max-run", "200ms", "--", "sleep", "20"]).code, Some(124));
}

/// The command sees its term, and not the store's URL unless it is to.
#[test]
fn the_command_sees_its_term() {
    let stage = Stage::new();
    let shown = stage.run(&["run", "job", "--node", "web-2", "--namespace", "prod", "--", "env"]);
    for line in ["SIMBA_LEASE=job", "SIMBA_TOKEN=1", "SIMBA_NODE=web-2", "SIMBA_NAMESPACE=prod"] {
        assert!(shown.out.lines().any(|l| l == line), "{line} in {}", shown.out);
    }
    assert!(!shown.out.contains("SIMBA_URL="), "{}", shown.out);
    let shown = stage.run(&["run", "job", "--keep-url", "--", "env"]);
    assert!(shown.out.contains("SIMBA_URL=sqlite:"), "{}", shown.out);
    // Another namespace is another lease.
    let holder = stage.spawn(&["run", "job", "--", "sleep", "20"]);
    until("the lease to be held", || (stage.run(&["who", "job"]).code == Some(0)).then_some(()));
    assert_eq!(stage.run(&["run", "job", "--namespace", "prod", "--", "true"]).code, Some(0));
    drop(holder);
}

/// Arguments reach the command byte for byte; standard input only when it is passed.
#[test]
fn arguments_and_input_arrive_as_they_were() {
    use std::{ffi::OsStr, io::Write, os::unix::ffi::OsStrExt};
    let stage = Stage::new();
    let mut command =
        stage.simba(&["run", "job", "--", "printf", "[%s]", "", "a b", "line\nbreak", "--", "-x"]);
    command.arg(OsStr::from_bytes(b"\xff\xfe"));
    let out = command.output().expect("it runs").stdout;
    assert_eq!(out, b"[][a b][line\nbreak][--][-x][\xff\xfe]");

    let mut child = stage
        .simba(&["run", "job", "--pass-stdin", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"through").expect("it reads");
    assert_eq!(child.wait_with_output().expect("it ends").stdout, b"through");
    let mut child = stage
        .simba(&["run", "job", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"not this").expect("the pipe takes it, whoever reads");
    assert_eq!(child.wait_with_output().expect("it ends").stdout, b"");
}

/// Two stand by; the one that leads is stopped, and the other leads at once.
#[test]
fn lead_hands_over_on_a_clean_stop() {
    let stage = Stage::new();
    let log = stage.path("log");
    let line = format!("echo $SIMBA_TOKEN >> {}; exec sleep 60", log.display());
    let leaders = [(); 2].map(|()| stage.spawn(&["lead", "job", "--lease", "3s", "-c", &line]));
    let tokens = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    until("a first leader", || (tokens() == 1).then_some(()));
    let held: u32 = {
        let who = stage.run(&["who", "job", "-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(&who.out).expect("JSON");
        u32::try_from(json["owner"]["pid"].as_u64().expect("a pid")).expect("a pid")
    };
    let start = now_ns();
    let [one, other] = leaders;
    let (leader, heir) = if one.pid() == held { (one, other) } else { (other, one) };
    leader.signal(Signal::TERM);
    until("the next leader", || (tokens() == 2).then_some(()));
    assert!(now_ns() - start < 2_000_000_000, "well before the lease would have run out");
    assert_eq!(leader.wait().code, Some(143), "the command's own end by the signal");
    heir.signal(Signal::TERM);
    assert_eq!(heir.wait().code, Some(143));
    assert_eq!(fs::read_to_string(&log).expect("a log"), "1\n2\n");
    assert_eq!(stage.run(&["who", "job"]).code, Some(1), "released");
}

/// A command that ends by itself: contend again after a renew interval, run again, or quit.
#[test]
fn lead_goes_on_as_it_was_told() {
    let stage = Stage::new();
    let quit = stage.run(&["lead", "job", "--on-exit", "quit", "--", "sh", "-c", "exit 5"]);
    assert_eq!(quit.code, Some(5));
    let log = stage.path("log");
    let line = format!("echo $SIMBA_TOKEN >> {}", log.display());
    let again = stage.spawn(&["lead", "job", "--lease", "1500ms", "--kill-after", "300ms", "-c", &line]);
    let runs = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    until("three runs", || (runs() >= 3).then_some(()));
    again.signal(Signal::TERM);
    again.wait();
    let tokens = fs::read_to_string(&log).expect("a log");
    assert!(tokens.starts_with("2\n3\n4\n"), "each run is a term of its own: {tokens:?}");
}

/// What happens is printed a line each, and the end of the reader is no error.
#[test]
fn watch_prints_what_happens() {
    use std::io::{BufRead, BufReader};
    let stage = Stage::new();
    assert_eq!(stage.run(&["schema", "apply", "--yes"]).code, Some(0));
    let mut watch = stage
        .simba(&["watch", "--every", "20ms", "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let holder = stage.spawn(&["run", "job", "--", "sleep", "1"]);
    let mut next = || -> serde_json::Value {
        serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON")
    };
    let held = next();
    assert_eq!(
        (held["event"].as_str(), held["lease"].as_str(), held["token"].as_str()),
        (Some("held"), Some("job"), Some("1"))
    );
    assert_eq!(held["pid"], holder.pid());
    assert_eq!(next()["event"], "released");
    holder.wait();
    crate::stage::send(watch.id(), Signal::TERM);
    assert_eq!(watch.wait().expect("it ends").code(), Some(0));
}

/// The tables by hand: missing, made, there; and what they look like.
#[test]
fn the_schema_by_hand() {
    let stage = Stage::new();
    assert!(stage.run(&["schema", "print"]).out.contains("create table simba_lease"));
    assert_eq!(stage.run(&["schema", "apply"]).code, Some(64), "there is no terminal to ask on");
    assert_eq!(stage.run(&["schema", "apply", "--yes"]).code, Some(0));
    assert_eq!(stage.run(&["schema", "apply", "--yes"]).code, Some(0));
    let checked = stage.run(&["schema", "check"]);
    assert_eq!((checked.code, checked.out.as_str()), (Some(0), "present, version 1\n"));
    let doctor = stage.run(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(doctor.out.contains("store reachable") && doctor.out.contains("this host only"), "{doctor:?}");
}

/// Every setting tells where it comes from; the stronger source wins.
#[test]
fn config_show_tells_where_each_value_comes_from() {
    let stage = Stage::new();
    fs::write(
        stage.path("simba.toml"),
        "node = \"web-9\"\n[session]\nlease_duration = \"30s\"\nmargin = \"80ms\"\n",
    )
    .expect("a file");
    let mut command = stage.simba(&["config", "show", "--lease", "20s"]);
    command.env("SIMBA_SESSION__MARGIN", "90ms");
    let shown = String::from_utf8(command.output().expect("it runs").stdout).expect("text");
    let has = |parts: &[&str]| shown.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(&["node", "web-9", "simba.toml:1"]), "{shown}");
    assert!(has(&["session.lease_duration", "20s", "--lease"]), "{shown}");
    assert!(has(&["session.margin", "90ms", "SIMBA_SESSION__MARGIN"]), "{shown}");
    assert!(has(&["session.renew_interval", "6.666", "default"]), "{shown}");
    assert!(has(&["url", "SIMBA_URL"]), "{shown}");
}

/// Without a URL: a file in the user's state folder, and one line that says so.
#[test]
fn without_a_url_the_state_folder_is_used() {
    let stage = Stage::new();
    // Looking makes nothing.
    let looked = stage.simba_without_url(&["status"]).output().expect("it runs");
    assert_eq!(looked.status.code(), Some(0));
    assert!(!stage.path(".local").exists());
    let out = stage.simba_without_url(&["run", "job", "--", "true"]).output().expect("it runs");
    assert_eq!(out.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&out.stderr).contains("this host only"));
    assert!(stage.path(".local/state/simba/simba.db").exists());
    let none = stage.simba_without_url(&["status", "--url", "sqlite:none.db"]).output().expect("it runs");
    assert_eq!(none.status.code(), Some(69), "a store that was named must be there");
}

/// A service manager is told: ready as a standby, then leading. The command does not see its socket.
#[test]
fn lead_tells_the_service_manager() {
    use std::os::unix::net::UnixDatagram;
    let stage = Stage::new();
    let socket = UnixDatagram::bind(stage.path("notify")).expect("a socket");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a timeout");
    let seen = stage.path("env");
    let line = format!("env > {0}.part; mv {0}.part {0}; exec sleep 60", seen.display());
    let mut command = stage.simba(&["lead", "job", "-c", &line]);
    command.env("NOTIFY_SOCKET", stage.path("notify")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let hear = || {
        let mut bytes = [0; 200];
        let length = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!(hear(), "READY=1\nSTATUS=standing by");
    assert_eq!(hear(), "STATUS=leading, token 1");
    let env = until("the command to run", || fs::read_to_string(&seen).ok());
    crate::stage::send(child.id(), Signal::TERM);
    drop(child.wait());
    assert!(env.contains("SIMBA_LEASE=job") && !env.contains("NOTIFY_SOCKET"), "{env}");
}

/// `--verbose` tells what happens to the session and the lease, on standard error.
#[test]
fn verbose_tells_what_happens() {
    let stage = Stage::new();
    let ran = stage.run(&["run", "job", "-v", "--", "true"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""));
    assert!(ran.err.contains("SessionOpened") && ran.err.contains("Elected"), "{ran:?}");
}
