//! I25 to I27, I31, I32, I36, I38, I39, I43, L6, L10: what a turn must bring for elections, and that it brings
//! nothing else.

use simba_core::{ElectionView, Engine, RevokeReason, Role, Snapshot};

use super::Broken;
use crate::ledger::{Ledger, State};

pub(crate) fn check(
    ledger: &mut Ledger,
    engine: &Engine,
    view: &Snapshot,
    carried: usize,
) -> Result<(), Broken> {
    let (due, seen) = (&mut ledger.due, &mut ledger.seen);
    if due.adopted != seen.adopted {
        due.adopted.sort_unstable();
        seen.adopted.sort_unstable();
        if due.adopted != seen.adopted {
            return Err(("I25", format!("adopted: {:?}, must be {:?}", seen.adopted, due.adopted)));
        }
    }
    if due.ended != seen.ended {
        due.ended.sort_unstable();
        seen.ended.sort_unstable();
        if due.ended != seen.ended {
            let taken =
                due.ended.iter().chain(&seen.ended).any(|(_, reason)| *reason == RevokeReason::TakenOver);
            let rule = if taken { "I31" } else { "I30" };
            return Err((rule, format!("ended: {:?}, must be {:?}", seen.ended, due.ended)));
        }
    }
    releases(ledger)?;
    let (due, seen) = (&mut ledger.due, &mut ledger.seen);
    due.revoked.sort_unstable();
    seen.revoked.sort_unstable();
    if due.revoked != seen.revoked {
        return Err(("I40", format!("revoked: {:?}, must be {:?}", seen.revoked, due.revoked)));
    }
    due.closed.sort_unstable();
    seen.closed.sort_unstable();
    if due.closed != seen.closed {
        return Err(("I17", format!("sessions closed: {:?}, must be {:?}", seen.closed, due.closed)));
    }
    due.finished.sort_unstable();
    seen.finished.sort_unstable();
    if due.finished != seen.finished {
        let missing = due.finished.iter().any(|t| !seen.finished.contains(t));
        let rule = if missing { "L6" } else { "I43" };
        return Err((rule, format!("finished: {:?}, must be {:?}", seen.finished, due.finished)));
    }
    if ledger.is_close_missing() {
        return Err(("L6", "the session of a closed client is not closed".into()));
    }
    if engine.calls_in_flight() != carried {
        return Err((
            "I57",
            format!("{} calls in the engine, {carried} under way", engine.calls_in_flight()),
        ));
    }
    elections(ledger, view)
}

fn releases(ledger: &mut Ledger) -> Result<(), Broken> {
    let (due, seen) = (&mut ledger.due, &mut ledger.seen);
    if due.released == seen.released {
        return Ok(());
    }
    due.released.sort_unstable();
    due.released.dedup();
    seen.released.sort_unstable();
    seen.released.dedup();
    if due.released == seen.released {
        return Ok(());
    }
    let text = format!("released: {:?}, must be {:?}", seen.released, due.released);
    let early = seen.released.iter().find(|r| !due.released.contains(r));
    let rule = match early.and_then(|(_, name, _)| ledger.elections.get(*name)?.as_ref()) {
        Some(election) if matches!(election.state, State::Handover(_)) => "I36",
        _ => "I27",
    };
    Err((rule, text))
}

fn elections(ledger: &Ledger, view: &Snapshot) -> Result<(), Broken> {
    let started = ledger.elections.iter().flatten().count();
    if view.elections.len() != started {
        return Err((
            "I57",
            format!("{} elections in the engine, {started} are started", view.elections.len()),
        ));
    }
    for found in &view.elections {
        let name = ledger.index(&found.name);
        let Some(election) = ledger.elections.get(name).and_then(Option::as_ref) else {
            return Err(("I43", format!("{found:?} is not started")));
        };
        role(found, &election.state)?;
        if let State::Idle { try_by: Some(by) } = election.state
            && ledger.session.is_some()
            && ledger.now >= by
        {
            return Err(("L10", format!("{:?} should have tried at {by}, it is {}", found.name, ledger.now)));
        }
    }
    Ok(())
}

fn role(found: &ElectionView, state: &State) -> Result<(), Broken> {
    let role = match state {
        State::Idle { .. } | State::Attempt(_) | State::Won(_) => Role::Candidate,
        State::Held(_) => Role::Leader,
        State::Handover(_) => Role::HandingOver,
        State::Drain { .. } | State::Cool { .. } => Role::CoolingDown,
    };
    if found.role != role || found.token != state.owned() {
        return Err(("I25", format!("{found:?} must be {role:?} with {:?}", state.owned())));
    }
    Ok(())
}
