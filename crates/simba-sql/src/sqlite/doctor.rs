//! What a person should know about the store: measured, not guessed.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use rusqlite::{Connection, OpenFlags};
use simba_backend::{Examination, Failure, Finding, Level, SchemaState, Survives, TokenPromise};

use super::{
    clock::StoreClock,
    config::SqliteConfig,
    connection::{Create, Durability, Link, check_file, wake_path},
    failure::before,
    schema,
    worker::{Limit, wait_clock},
};

pub(crate) fn find_schema(config: &SqliteConfig) -> Result<SchemaState, Failure> {
    if !config.path().exists() {
        return Ok(SchemaState::Missing);
    }
    check_file(config.path(), false)?;
    let conn = Connection::open_with_flags(config.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|error| before(config.path(), &error))?;
    schema::find(&conn).map_err(|error| before(config.path(), &error))
}

pub(crate) fn examine(
    config: &SqliteConfig,
    clock: &StoreClock,
    link: &mut Link,
    limit: Limit,
) -> Examination {
    let mut findings = Vec::new();
    match round_trips(link, limit) {
        Ok(median) => findings.push(Finding::new(
            Level::Ok,
            format!("store reachable, {:.2} ms median of 9 write transactions", median.as_secs_f64() * 1e3),
            "",
        )),
        Err(failure) => {
            return Examination::failed(failure.message, "");
        }
    }
    match find_schema(config) {
        Ok(SchemaState::Present) => {
            findings.push(Finding::new(Level::Ok, format!("tables of version {}", schema::VERSION), ""));
        }
        Ok(SchemaState::Missing | SchemaState::NotNeeded) => {
            findings.push(Finding::fail("no tables of Simba", "run `simba schema apply`"))
        }
        Ok(SchemaState::Other(version)) => {
            let advice = format!("this program needs version {}", schema::VERSION);
            findings.push(Finding::fail(format!("tables of version {version}"), advice));
        }
        Err(failure) => findings.push(Finding::fail(failure.message, "")),
    }
    findings.extend(counts(clock, link, limit));
    findings.push(wake_finding(config));
    findings.push(space(config));
    findings.extend(log_size(config));
    findings.extend(rights(config));
    findings.push(clock_finding(clock));
    let host = "this host only: SQLite leases are not for network file systems or several machines";
    findings.push(Finding::new(Level::Note, host, ""));
    Examination { findings, tokens: Some(promise(config)) }
}

fn round_trips(link: &mut Link, limit: Limit) -> Result<Duration, Failure> {
    let mut times = Vec::new();
    for _ in 0..9 {
        let start = wait_clock();
        link.write(Create::No, Durability::Synced, limit, |tx| {
            tx.execute("update simba_meta set value = value where key = 'schema'", [])
        })?;
        times.push(Duration::from_nanos(wait_clock().saturating_sub(start)));
    }
    times.sort_unstable();
    Ok(times[4])
}

fn counts(clock: &StoreClock, link: &mut Link, limit: Limit) -> Vec<Finding> {
    let now = i64::try_from(clock.now()).unwrap_or(i64::MAX);
    let domain = clock.domain().to_owned();
    let counted = link.read(limit, |conn| {
        let one = |sql: &str| conn.query_row(sql, rusqlite::params![domain, now], |row| row.get::<_, i64>(0));
        let live = one("select count(*) from simba_session where clock = ?1 and expires_ns > ?2")?;
        let over = one("select count(*) from simba_session where clock <> ?1 or expires_ns <= ?2")?;
        let leases = conn.query_row("select count(*) from simba_lease", [], |row| row.get::<_, i64>(0))?;
        let check: String = conn.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
        Ok((live, over, leases, check))
    });
    match counted {
        Ok((live, over, leases, check)) => {
            let text = format!("{live} live sessions, {over} that are over, {leases} lease names");
            let whole = if check == "ok" {
                Finding::new(Level::Ok, "the file is whole", "")
            } else {
                Finding::fail(format!("the file is damaged: {check}"), "restore a copy, or use a new file")
            };
            vec![Finding::new(Level::Ok, text, ""), whole]
        }
        Err(failure) => vec![Finding::fail(failure.message, "")],
    }
}

fn wake_finding(config: &SqliteConfig) -> Finding {
    use rustix::fs::inotify;
    match inotify::init(inotify::CreateFlags::CLOEXEC) {
        Ok(_) => Finding::new(
            Level::Ok,
            format!(
                "releases wake waiting processes at once, through {}",
                wake_path(config.path()).display()
            ),
            "",
        ),
        Err(error) => Finding::new(
            Level::Warn,
            format!("releases cannot be watched for ({error}): a waiting process finds them by polling"),
            "raise fs.inotify.max_user_instances",
        ),
    }
}

/// The log is taken over into the file now and then, unless somebody reads an old moment of it all the time.
fn log_size(config: &SqliteConfig) -> Option<Finding> {
    const LARGE: u64 = 64 << 20;
    let mut log = config.path().as_os_str().to_owned();
    log.push("-wal");
    let size = fs::metadata(&log).ok()?.len();
    let text = format!("the write-ahead log has grown to {} MiB", size >> 20);
    let advice = "look for a process that keeps a read transaction open on the file, and end it";
    (size >= LARGE).then(|| Finding::new(Level::Warn, text, advice))
}

fn rights(config: &SqliteConfig) -> Option<Finding> {
    let mode = fs::metadata(config.path()).ok()?.permissions().mode();
    let text = "every user of this host may write the file, and so end or take any lease";
    let advice = format!("chmod o-w {}", config.path().display());
    (mode & 0o002 != 0).then(|| Finding::new(Level::Warn, text, advice))
}

fn clock_finding(clock: &StoreClock) -> Finding {
    let text = format!(
        "leases are measured by this host's boot-time clock, the same for every process; a reboot ends all sessions \
         (boot {})",
        clock.domain()
    );
    Finding::new(Level::Ok, text, "")
}

/// How much the tokens are worth.
fn promise(config: &SqliteConfig) -> TokenPromise {
    let magic = rustix::fs::statfs(config.path()).map_or(0, |stat| stat.f_type.cast_unsigned());
    match loses_tokens(magic) {
        Some(when) => TokenPromise {
            survives: Survives::WhileItRuns,
            reason: format!(
                "they survive a crash of any process, but {when}: then they begin anew, and a resource that has seen \
                 higher ones refuses every owner"
            ),
            advice: "put the file on a disk that stays".into(),
        },
        None => TokenPromise {
            survives: Survives::Crash,
            reason: "a transaction that hands out a token is synced to the disk before it is answered".into(),
            advice: "for more than one host use a store on a server".into(),
        },
    }
}

/// When a file system forgets what was written, by its magic number.
fn loses_tokens(magic: u64) -> Option<&'static str> {
    match magic & 0xffff_ffff {
        0x0102_1994 | 0x8584_58f6 => Some("the file lies in memory and is gone after a reboot"),
        0x794c_7630 => Some("the file lies in the layer of a container and may be gone with it"),
        _ => None,
    }
}

fn space(config: &SqliteConfig) -> Finding {
    match rustix::fs::statvfs(config.path()) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize) >> 20;
            let text = format!("{free} MiB free on the file's disk");
            if free < 64 {
                Finding::new(Level::Warn, text, "make room: on a full disk no lease can be taken or renewed")
            } else {
                Finding::new(Level::Ok, text, "")
            }
        }
        Err(error) => Finding::new(Level::Note, format!("the free space cannot be read ({error})"), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_that_forget_are_known_by_their_numbers() {
        assert!(loses_tokens(0x0102_1994).is_some_and(|when| when.contains("memory")), "tmpfs");
        assert!(loses_tokens(0x794c_7630).is_some_and(|when| when.contains("container")), "overlay");
        assert_eq!(loses_tokens(0xef53), None, "ext4");
    }
}
