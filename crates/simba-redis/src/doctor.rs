//! What a person should know about the server: asked, not guessed.

use std::{collections::BTreeMap, time::Duration};

use redis::{RedisError, aio::MultiplexedConnection};
use simba_backend::{Examination, Finding, Level, Survives, TokenPromise};

use crate::{
    config::{RedisConfig, Tokens, Topology},
    connection::{Deadline, Place},
};

pub(crate) async fn examine(config: &RedisConfig, place: &Place, limit: Duration) -> Examination {
    let deadline = Deadline::after(limit);
    let mut times = Vec::new();
    for _ in 0..9 {
        let before = deadline.left();
        let pinged = place.call(deadline.left(), |mut connection| async move {
            redis::cmd("PING").query_async::<String>(&mut connection).await
        });
        if let Err(failure) = pinged.await {
            return Examination::failed(failure.message, "");
        }
        times.push(before.saturating_sub(deadline.left()));
    }
    times.sort_unstable();
    let median = times[times.len() / 2];
    let mut findings = vec![Finding::ok(format!(
        "{} reachable, {:.2} ms median of 9",
        config.shown(),
        median.as_secs_f64() * 1e3
    ))];
    let info = place.call(deadline.left(), facts).await;
    let facts = match info {
        Ok(facts) => facts,
        Err(failure) => {
            findings.push(Finding::new(
                Level::Note,
                format!("the server's settings cannot be read: {}", failure.message),
                "give the user the rights info and config|get, or read this page's list by hand",
            ));
            return Examination { findings, tokens: Some(promise(config, &Facts::default())) };
        }
    };
    findings.extend(judge(config, &facts));
    Examination { findings, tokens: Some(promise(config, &facts)) }
}

/// What the server says of itself.
#[derive(Debug, Default)]
struct Facts(BTreeMap<String, String>);

impl Facts {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.get(name).parse().unwrap_or(0)
    }
}

async fn facts(mut connection: MultiplexedConnection) -> Result<Facts, RedisError> {
    let text: String = redis::cmd("INFO").query_async(&mut connection).await?;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut facts: BTreeMap<String, String> =
        pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    for setting in ["maxmemory-policy", "appendonly", "appendfsync", "min-replicas-to-write", "save"] {
        // A managed server may not tell; what is not told counts as the lesser.
        let told =
            redis::cmd("CONFIG").arg("GET").arg(setting).query_async::<Vec<String>>(&mut connection).await;
        if let Ok(pair) = told
            && let [name, value] = pair.as_slice()
        {
            facts.insert(name.clone(), value.clone());
        }
    }
    Ok(Facts(facts))
}

fn judge(config: &RedisConfig, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (version, policy) = (facts.get("redis_version"), facts.get("maxmemory-policy"));
    let major: u32 = version.split('.').next().and_then(|part| part.parse().ok()).unwrap_or(0);
    findings.push(if major < 5 {
        Finding::fail(
            format!("server version {version}"),
            "use Redis 5 or later: scripts may read the time there and write",
        )
    } else {
        Finding::ok(format!("server version {version}"))
    });
    findings.push(match facts.get("role") {
        "master" => Finding::ok(format!("it is a master with {} replicas", facts.number("connected_slaves"))),
        role => Finding::fail(format!("its role is {role}"), "name the master, or use redis+sentinel:"),
    });
    findings.push(if policy == "noeviction" || policy.is_empty() {
        Finding::ok("records are never evicted (maxmemory-policy noeviction)")
    } else {
        let text = format!(
            "a full memory evicts records (maxmemory-policy {policy}): a lease may be handed out twice"
        );
        Finding::new(Level::Warn, text, "set maxmemory-policy noeviction, or use a server of its own")
    });
    findings.push(match (facts.get("appendonly"), facts.get("appendfsync")) {
        ("yes", "always") => Finding::ok("every write is synced to the disk before it is answered"),
        ("yes", sync) => Finding::new(
            Level::Note,
            format!(
                "writes are synced to the disk later (appendfsync {sync}): a crash loses the last of them"
            ),
            "set appendfsync always, or use tokens=clock",
        ),
        _ => Finding::new(
            Level::Warn,
            "nothing, or only a snapshot, is kept on the disk: after a restart tokens may begin anew",
            "set appendonly yes, or use tokens=clock",
        ),
    });
    if facts.number("connected_slaves") > 0 && facts.number("min-replicas-to-write") == 0 {
        let text = "a master that is cut off from its replicas goes on taking writes, which a failover loses";
        let advice = "set min-replicas-to-write 1 and min-replicas-max-lag below the lease time";
        findings.push(Finding::new(Level::Note, text, advice));
    }
    findings.push(match &config.topology {
        Topology::Alone => {
            Finding::new(Level::Note, "one server: while it is away nobody gets or renews a lease", "")
        }
        Topology::Sentinel(_) => Finding::ok("the master is found through the Sentinels"),
        Topology::Cluster => Finding::ok(format!("all keys lie in the slot of {}", config.prefix())),
    });
    let told = if config.broadcast {
        "releases are told to those who wait"
    } else {
        "releases are found by polling"
    };
    findings.push(Finding::ok(told));
    findings.push(Finding::new(
        Level::Note,
        "leases are measured by the server's wall clock: a step of it moves every expiry",
        "let the clock be slewed, not stepped",
    ));
    findings
}

fn promise(config: &RedisConfig, facts: &Facts) -> TokenPromise {
    if config.tokens == Tokens::Clock {
        return TokenPromise {
            survives: Survives::Failover,
            reason: "tokens follow the server's clock, and so rise also where writes were lost".into(),
            advice: "keep the clocks of the servers together: one that is behind by more than a term lasts undoes it".into(),
        };
    }
    if facts.get("appendonly") == "yes" && facts.get("appendfsync") == "always" {
        return TokenPromise {
            survives: Survives::Crash,
            reason: "every token is on the disk before it is answered; a failover may lose the last of them"
                .into(),
            advice: "use tokens=clock to survive a failover".into(),
        };
    }
    TokenPromise {
        survives: Survives::WhileItRuns,
        reason: "the last writes are lost in a crash or a failover, and tokens are given a second time"
            .into(),
        advice: "use tokens=clock, or appendonly yes with appendfsync always".into(),
    }
}
