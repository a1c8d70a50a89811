//! `simba watch`: what happens to leases, seen from the store.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use serde::Serialize;
use simba::LeaseRecord;

use crate::{
    args::WatchArgs,
    exit::{Exit, USAGE},
    output::{self, Format},
    settings::Settings,
    store,
};

/// A change between two looks. What begins and ends between them is not seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Change {
    v: u8,
    event: &'static str,
    lease: String,
    token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
}

pub(crate) fn watch(settings: &Settings, args: &WatchArgs, format: Format) -> Result<ExitCode, Exit> {
    if args.every < Duration::from_millis(10) {
        return Err(Exit::new(USAGE, "--every must be at least 10ms; each look reads the whole list"));
    }
    let inspector = store::inspector(settings)?;
    store::block_on(async {
        let mut tick = tokio::time::interval(args.every);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop_signal()?);
        let mut before = BTreeMap::new();
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return Ok(ExitCode::SUCCESS),
                _ = tick.tick() => {}
            }
            let now = held(&inspector.leases(&args.prefix).await?);
            for change in changes(&before, &now) {
                if !print(&change, format) {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            before = now;
        }
    })
}

/// Ready when this process is asked to end.
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()>, Exit> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

type Holders = BTreeMap<String, (u64, String, u32)>;

fn held(records: &[LeaseRecord]) -> Holders {
    let one = |record: &LeaseRecord| {
        let held = record.held.as_ref()?;
        Some((record.name.to_string(), (record.token.get(), held.owner.node.to_string(), held.owner.pid)))
    };
    records.iter().filter_map(one).collect()
}

fn changes(before: &Holders, now: &Holders) -> Vec<Change> {
    let change = |event, lease: &str, (token, node, pid): &(u64, String, u32)| Change {
        v: 1,
        event,
        lease: lease.to_owned(),
        token: token.to_string(),
        node: Some(node.clone()),
        pid: Some(*pid),
    };
    let ended = before.iter().filter(|(name, holder)| now.get(*name).is_none_or(|n| n.0 != holder.0));
    let begun = now.iter().filter(|(name, holder)| before.get(*name).is_none_or(|b| b.0 != holder.0));
    let ended = ended.map(|(name, holder)| change("released", name, holder));
    ended.chain(begun.map(|(name, holder)| change("held", name, holder))).collect()
}

fn print(change: &Change, format: Format) -> bool {
    match format {
        Format::Json => output::json(change),
        Format::Text => {
            let owner =
                format!("{} (pid {})", change.node.as_deref().unwrap_or("-"), change.pid.unwrap_or(0));
            let what = if change.event == "held" { "held by" } else { "released by" };
            output::line(format!("{}: {what} {owner}, token {}", change.lease, change.token))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_takeover_is_an_end_and_a_beginning() {
        let holder = |token: u64, node: &str| (token, node.to_owned(), 7);
        let before = Holders::from([("a".into(), holder(1, "x")), ("b".into(), holder(4, "x"))]);
        let now = Holders::from([("a".into(), holder(2, "y")), ("b".into(), holder(4, "x"))]);
        let seen: Vec<_> = changes(&before, &now).into_iter().map(|c| (c.event, c.lease, c.token)).collect();
        assert_eq!(seen, [("released", "a".into(), "1".into()), ("held", "a".into(), "2".into())]);
        assert_eq!(changes(&now, &now), []);
    }
}
