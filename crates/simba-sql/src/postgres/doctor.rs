//! What a person should know about the server: asked, not guessed.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use simba_backend::{Examination, Failure, Finding, Level, SchemaState, Survives, TokenPromise};
use tokio_postgres::Client;

use super::{
    connection::{Deadline, Dialer, Place, version},
    failure::before,
    schema,
};

pub(crate) async fn find_schema(dialer: &Dialer, limit: Duration) -> Result<SchemaState, Failure> {
    let deadline = Deadline::after(limit);
    let link = dialer.dial(deadline).await?.driven(drop);
    let asked = tokio::time::timeout(deadline.left(), version(&link.client)).await;
    let found = asked.map_err(|_| super::failure::timed_out(&dialer.config, simba_backend::Effect::None))?;
    Ok(match found.map_err(|error| before(&dialer.config, &error))? {
        None => SchemaState::Missing,
        Some(schema::VERSION) => SchemaState::Present,
        Some(other) => SchemaState::Other(other.to_string()),
    })
}

pub(crate) async fn examine(place: &Place, limit: Duration) -> Examination {
    let config = &place.dialer.config;
    let deadline = Deadline::after(limit);
    match find_schema(&place.dialer, deadline.left()).await {
        Ok(SchemaState::Present) => {}
        Ok(SchemaState::Missing | SchemaState::NotNeeded) => {
            let text = format!("{} reachable, but the tables of Simba are missing", config.shown());
            return Examination::failed(text, "run `simba schema apply`, or look at the user's search_path");
        }
        Ok(SchemaState::Other(found)) => {
            let text = format!("{} reachable, with tables of version {found}", config.shown());
            return Examination::failed(text, format!("this program needs version {}", schema::VERSION));
        }
        Err(failure) => return Examination::failed(failure.message, ""),
    }
    let mut times = Vec::new();
    for _ in 0..9 {
        let start = deadline.left();
        let call = place
            .call(false, deadline.left(), |client| async move { client.batch_execute("select 1").await });
        if let Err(failure) = call.await {
            return Examination::failed(failure.message, "");
        }
        times.push(start.saturating_sub(deadline.left()));
    }
    times.sort_unstable();
    let mut findings = vec![
        Finding::ok(format!(
            "{} reachable, {:.2} ms median of 9",
            config.shown(),
            times[4].as_secs_f64() * 1e3
        )),
        Finding::ok(format!("tables of version {}", schema::VERSION)),
    ];
    let asked = place.call(false, deadline.left(), |client| async move { facts(&client).await }).await;
    match asked {
        Ok(facts) => {
            findings.extend(judge(&facts, config.broadcast, place.dialer.pooled(), config.tls()));
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

    fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == value
    }
}

/// Settings by their names, and what is worked out beside them. The rights are those that the calls use.
const ASK: &str = "\
select name, setting from pg_settings where name in ('server_version', 'server_version_num', 'synchronous_commit', \
    'synchronous_standby_names', 'fsync', 'full_page_writes', 'statement_timeout', 'lock_timeout') \
union all select 'isolation', current_setting('transaction_isolation') \
union all select 'standby', pg_is_in_recovery()::text \
union all select 'read_only', current_setting('transaction_read_only') \
union all select 'clock_us', simba_now()::text \
union all select 'replicas', (select count(*)::text from pg_stat_replication) \
union all select 'sync_replicas', \
    (select count(*)::text from pg_stat_replication where sync_state in ('sync', 'quorum')) \
union all select 'leases', (select count(*)::text from simba_lease) \
union all select 'sessions', (select count(*)::text from simba_session where expires_us > simba_now()) \
union all select 'over', (select count(*)::text from simba_session where expires_us <= simba_now()) \
union all select 'rights', (has_table_privilege('simba_session', 'select, insert, update, delete') \
    and has_table_privilege('simba_session', 'insert') and has_table_privilege('simba_session', 'update') \
    and has_table_privilege('simba_session', 'delete') and has_table_privilege('simba_lease', 'select') \
    and has_table_privilege('simba_lease', 'insert') and has_table_privilege('simba_lease', 'update'))::text \
union all select 'triggers', (select count(*)::text from pg_trigger \
    where tgrelid = to_regclass('simba_lease') and not tgisinternal and tgenabled in ('O', 'A'))";

async fn facts(client: &Client) -> Result<Facts, tokio_postgres::Error> {
    let rows = client.query_typed(ASK, &[]).await?;
    let pairs = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    pairs.collect::<Result<_, tokio_postgres::Error>>().map(Facts)
}

fn judge(facts: &Facts, broadcast: bool, pooled: bool, tls: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let number = |name: &str| facts.get(name).parse::<i64>().unwrap_or(0);
    findings.push(if number("server_version_num") < 140_000 {
        Finding::fail(format!("server version {}", facts.get("server_version")), "use PostgreSQL 14 or later")
    } else {
        Finding::ok(format!("server version {}", facts.get("server_version")))
    });
    findings.push(if facts.is("standby", "true") || facts.is("read_only", "on") {
        Finding::fail(
            "it takes no writes: a standby, or a read-only database",
            "name the primary, or all hosts",
        )
    } else {
        Finding::ok("it is the primary, and takes writes")
    });
    findings.push(if facts.is("rights", "true") {
        Finding::ok("the user has the rights that leases need")
    } else {
        Finding::fail("the user lacks rights on the tables", "run what `simba schema grants` prints")
    });
    findings.push(if facts.is("isolation", "read committed") {
        Finding::ok("transactions are read committed")
    } else {
        Finding::fail(
            format!("transactions are {}", facts.get("isolation")),
            "run: alter role .. set default_transaction_isolation = 'read committed'",
        )
    });
    findings.push(if number("triggers") >= 3 {
        Finding::ok("the triggers that count changes of leases are on")
    } else {
        let text =
            "triggers of simba_lease are missing or off: an owner is not told that its lease was taken away";
        Finding::fail(text, "run: alter table simba_lease enable trigger all")
    });
    findings.push(Finding::ok(format!(
        "{} live sessions, {} that are over, {} lease names",
        facts.get("sessions"),
        facts.get("over"),
        facts.get("leases")
    )));
    findings.push(clock(number("clock_us")));
    for limit in ["statement_timeout", "lock_timeout"] {
        let millis = number(limit);
        if (1..1_000).contains(&millis) {
            let text = format!("the user's {limit} is {millis} ms: calls end early, and terms are lost");
            findings.push(Finding::new(
                Level::Warn,
                text,
                format!("raise {limit} for this user, or set it to 0"),
            ));
        }
    }
    findings.push(match (broadcast, pooled) {
        (true, true) => Finding::new(
            Level::Warn,
            "there is a pooler: releases are told, but nobody can listen",
            "write ?broadcast=off in the URL",
        ),
        (true, false) => Finding::ok("releases are told to those who wait"),
        (false, _) => Finding::new(Level::Note, "releases are found by polling (broadcast=off)", ""),
    });
    if !tls {
        findings.push(Finding::new(
            Level::Note,
            "the connection is not encrypted",
            "write ?sslmode=verify-full",
        ));
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
    let offset = i128::from(server_us) - i128::try_from(here).unwrap_or(0);
    let millis = offset / 1_000;
    if millis.abs() > 1_000 {
        let text = format!("the server's clock is {millis} ms off this host's");
        return Finding::new(
            Level::Warn,
            text,
            "look at the time service of both; a correction by a step moves leases",
        );
    }
    Finding::ok(format!("the server's clock is {millis} ms off this host's"))
}

/// How much the tokens are worth.
fn promise(facts: &Facts) -> TokenPromise {
    if facts.is("fsync", "off") || facts.is("full_page_writes", "off") {
        return TokenPromise {
            survives: Survives::WhileItRuns,
            reason: "the server does not wait for its disk (fsync or full_page_writes is off)".into(),
            advice: "set fsync on and full_page_writes on".into(),
        };
    }
    let waits = matches!(facts.get("synchronous_commit"), "on" | "remote_apply" | "remote_write" | "off");
    if waits && !facts.get("synchronous_standby_names").is_empty() && !facts.is("sync_replicas", "0") {
        return TokenPromise {
            survives: Survives::Failover,
            reason: "every token is on a synchronous standby before it is answered".into(),
            advice: String::new(),
        };
    }
    if facts.get("fsync").is_empty() {
        return TokenPromise {
            survives: Survives::WhileItRuns,
            reason: "the server's settings could not be read".into(),
            advice: "let this user read pg_settings".into(),
        };
    }
    TokenPromise {
        survives: Survives::Crash,
        reason: "every token is on the server's disk before it is answered; a failover to an asynchronous standby may \
                 lose the last of them"
            .into(),
        advice: "set synchronous_standby_names to survive a failover".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> Facts {
        Facts(pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn the_promise_follows_the_settings() {
        let on = [("fsync", "on"), ("full_page_writes", "on"), ("synchronous_commit", "on")];
        assert_eq!(promise(&facts(&on)).survives, Survives::Crash);
        let with = |more: &[(&'static str, &'static str)]| facts(&[&on[..], more].concat());
        let standby = [("synchronous_standby_names", "*"), ("sync_replicas", "1")];
        assert_eq!(promise(&with(&standby)).survives, Survives::Failover);
        let absent = [("synchronous_standby_names", "*"), ("sync_replicas", "0")];
        assert_eq!(promise(&with(&absent)).survives, Survives::Crash);
        let local = [standby[0], standby[1], ("synchronous_commit", "local")];
        assert_eq!(promise(&with(&local)).survives, Survives::Crash);
        assert_eq!(promise(&with(&[("fsync", "off")])).survives, Survives::WhileItRuns);
        assert_eq!(promise(&Facts::default()).survives, Survives::WhileItRuns);
    }
}
