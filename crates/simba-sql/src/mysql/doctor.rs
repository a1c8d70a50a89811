//! What a person should know about the server: asked, not guessed.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use simba_backend::{Examination, Failure, Finding, Level, SchemaState, Survives, TokenPromise};

use super::{
    connection::{Deadline, Place, Tables},
    schema,
};

pub(crate) async fn find_schema(place: &Place, limit: Duration) -> Result<SchemaState, Failure> {
    let deadline = Deadline::after(limit);
    let there = "select count(*) from information_schema.tables \
                 where table_schema = database() and table_name = 'simba_meta'";
    let answers = place.run(there.to_owned(), Tables::Any, deadline.left()).await?;
    let count = answers.first().and_then(|rows| rows.first()).and_then(|row| row.get::<i64, _>(0));
    if count != Some(1) {
        return Ok(SchemaState::Missing);
    }
    let asked = "select value from simba_meta where name = 'schema'".to_owned();
    let answers = place.run(asked, Tables::Any, deadline.left()).await?;
    let found = answers.first().and_then(|rows| rows.first()).and_then(|row| row.get::<String, _>(0));
    Ok(match found {
        Some(version) if version == schema::VERSION.to_string() => SchemaState::Present,
        Some(version) => SchemaState::Other(version),
        // The mark that all is done comes last.
        None => SchemaState::Missing,
    })
}

pub(crate) async fn examine(place: &Place, limit: Duration) -> Examination {
    let shown = place.config.shown();
    let deadline = Deadline::after(limit);
    match find_schema(&Place::new(&place.config), deadline.left()).await {
        Ok(SchemaState::Present) => {}
        Ok(SchemaState::Missing | SchemaState::NotNeeded) => {
            let text = format!("{shown} reachable, but the tables of Simba are missing");
            return Examination::failed(text, "run `simba schema apply`");
        }
        Ok(SchemaState::Other(found)) => {
            let text = format!("{shown} reachable, with tables of version {found}");
            return Examination::failed(text, format!("this program needs version {}", schema::VERSION));
        }
        Err(failure) => return Examination::failed(failure.message, ""),
    }
    let mut times = Vec::new();
    for _ in 0..9 {
        let start = deadline.left();
        if let Err(failure) = place.run("do 1".to_owned(), Tables::Need, deadline.left()).await {
            return Examination::failed(failure.message, "");
        }
        times.push(start.saturating_sub(deadline.left()));
    }
    times.sort_unstable();
    let mut findings = vec![
        Finding::ok(format!("{shown} reachable, {:.2} ms median of 9", times[4].as_secs_f64() * 1e3)),
        Finding::ok(format!("tables of version {}", schema::VERSION)),
        Finding::ok("sysdate() goes on during a statement"),
        Finding::ok("transactions are read committed, as each connection sets them"),
    ];
    match facts(place, deadline.left()).await {
        Ok(facts) => {
            findings.extend(judge(&facts, place.config.tls));
            Examination { findings, tokens: Some(promise(&facts)) }
        }
        Err(failure) => {
            let text = format!("the server's settings cannot be read: {}", failure.message);
            findings.push(Finding::new(Level::Note, text, "see the message"));
            Examination { findings, tokens: Some(promise(&Facts::default())) }
        }
    }
}

/// What the server says of itself.
#[derive(Debug, Default)]
struct Facts(BTreeMap<String, String>);

impl Facts {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> i64 {
        self.get(name).parse().unwrap_or(0)
    }
}

/// Settings by their names, some of which one of the two servers does not have; and what is worked out beside them.
const ASK: &str = "\
show global variables where variable_name in ('version', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', \
    'read_only', 'super_read_only', 'innodb_doublewrite', 'rpl_semi_sync_master_enabled', \
    'rpl_semi_sync_source_enabled', 'binlog_format'); \
select 'clock_us', cast(unix_timestamp(sysdate(6)) * 1000000 as signed) \
union all select 'leases', count(*) from simba_lease \
union all select 'sessions', count(*) from simba_session where expires_us > unix_timestamp(sysdate(6)) * 1000000 \
union all select 'over', count(*) from simba_session where expires_us <= unix_timestamp(sysdate(6)) * 1000000";

async fn facts(place: &Place, limit: Duration) -> Result<Facts, Failure> {
    let answers = place.run(ASK.to_owned(), Tables::Need, limit).await?;
    let pairs = answers.iter().flatten().filter_map(|row| {
        let (name, value): (Option<String>, Option<String>) = (row.get(0)?, row.get(1)?);
        Some((name?, value?))
    });
    Ok(Facts(pairs.collect()))
}

fn judge(facts: &Facts, tls: bool) -> Vec<Finding> {
    let mut findings = vec![Finding::ok(format!("server version {}", facts.get("version")))];
    let read_only = ["read_only", "super_read_only"].iter().any(|name| facts.get(name) == "ON");
    findings.push(if read_only {
        Finding::fail("it takes no writes: a replica, or read-only", "name the primary")
    } else {
        Finding::ok("it takes writes")
    });
    findings.push(Finding::ok(format!(
        "{} live sessions, {} that are over, {} lease names",
        facts.get("sessions"),
        facts.get("over"),
        facts.get("leases")
    )));
    if facts.get("log_bin") == "ON" && facts.get("binlog_format") == "STATEMENT" {
        let text = "the binary log is by statements: transactions that are read committed cannot write";
        findings.push(Finding::fail(text, "set binlog_format to ROW or MIXED"));
    }
    findings.push(clock(facts.number("clock_us")));
    findings.push(Finding::new(Level::Note, "releases are found by polling: this store tells nobody", ""));
    if !tls {
        let advice = "write ?ssl-mode=verify_identity";
        findings.push(Finding::new(Level::Note, "the connection is not encrypted", advice));
    }
    findings.push(Finding::new(
        Level::Note,
        "leases are measured by the server's wall clock: a step of it moves every expiry",
        "let the clock be slewed, not stepped",
    ));
    findings
}

/// The server's clock beside this host's. It decides nothing, but a large offset is the mark of a clock that steps.
fn clock(server_us: i64) -> Finding {
    #[expect(clippy::disallowed_methods, reason = "it is shown to a person, and decides nothing")]
    let here = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
    let millis = (i128::from(server_us) - i128::try_from(here).unwrap_or(0)) / 1_000;
    let text = format!("the server's clock is {millis} ms off this host's");
    if millis.abs() > 1_000 {
        let advice = "look at the time service of both; a correction by a step moves leases";
        return Finding::new(Level::Warn, text, advice);
    }
    Finding::ok(text)
}

/// How much the tokens are worth.
fn promise(facts: &Facts) -> TokenPromise {
    let flushed = facts.get("innodb_flush_log_at_trx_commit") == "1";
    let logged = facts.get("log_bin") != "ON" || facts.get("sync_binlog") == "1";
    if !(flushed && logged) {
        return TokenPromise {
            survives: Survives::WhileItRuns,
            reason: "a commit is answered before it is on the disk, or nobody could tell".into(),
            advice: "set innodb_flush_log_at_trx_commit = 1 and sync_binlog = 1".into(),
        };
    }
    TokenPromise {
        survives: Survives::Crash,
        reason: "every token is on the server's disk before it is answered; a failover may lose the last of them, also \
                 with semi-synchronous replication, which gives up waiting after a time"
            .into(),
        advice: "for more use PostgreSQL with a synchronous standby".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promise_follows_the_settings() {
        let facts = |pairs: &[(&str, &str)]| {
            Facts(pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect())
        };
        let flushed = ("innodb_flush_log_at_trx_commit", "1");
        assert_eq!(promise(&facts(&[flushed])).survives, Survives::Crash);
        assert_eq!(promise(&facts(&[flushed, ("log_bin", "ON")])).survives, Survives::WhileItRuns);
        let synced = [flushed, ("log_bin", "ON"), ("sync_binlog", "1")];
        assert_eq!(promise(&facts(&synced)).survives, Survives::Crash);
        assert_eq!(promise(&Facts::default()).survives, Survives::WhileItRuns);
    }
}
