//! I7, I8, I18, I21 and L5: the session and its deadline against the recomputation.

use simba_core::{Engine, SessionEnd, SessionStatus, Snapshot};

use super::Broken;
use crate::ledger::Ledger;

pub(crate) fn check(ledger: &Ledger, engine: &Engine, view: &Snapshot) -> Result<(), Broken> {
    ends(ledger)?;
    let (due, seen) = (&ledger.due, &ledger.seen);
    if due.opened != seen.opened {
        return Err(("I18", format!("sessions opened: {:?}, must be {:?}", seen.opened, due.opened)));
    }
    if due.shortened != seen.shortened {
        return Err(("I21", format!("shortened leases told: {}, must be {}", seen.shortened, due.shortened)));
    }
    if due.regressed != seen.regressed {
        return Err((
            "I51",
            format!("tokens told to have gone back: {}, must be {}", seen.regressed, due.regressed),
        ));
    }
    match &ledger.session {
        Some(session) => {
            let status = if session.suspended { SessionStatus::Suspended } else { SessionStatus::Live };
            if view.session.status != status || view.session.id != Some(session.id) {
                return Err((
                    "I18",
                    format!("the session is {:?}, must be {status:?} {}", view.session, session.id),
                ));
            }
            let found = view.session.deadline.map(|d| d.as_nanos());
            if found != Some(session.deadline) {
                return Err(("I7", format!("the deadline is {found:?}, must be {}", session.deadline)));
            }
            let period = view.session.period.map(crate::nanos);
            if period != Some(session.period) || view.session.granted != Some(session.granted) {
                return Err(("I21", format!("the period is {period:?}, must be {}", session.period)));
            }
        }
        None => {
            let status = if ledger.is_past_close() { SessionStatus::Closed } else { SessionStatus::Opening };
            if view.session.status != status {
                return Err(("I18", format!("the session is {:?}, must be {status:?}", view.session)));
            }
        }
    }
    let planned = engine.next_wakeup().map(simba_core::Instant::as_nanos);
    if let Some(by) = ledger.wake_by()
        && planned.is_none_or(|at| at > by)
    {
        return Err(("L5", format!("the next wake-up is {planned:?}, something is due at {by}")));
    }
    Ok(())
}

fn ends(ledger: &Ledger) -> Result<(), Broken> {
    let (due, seen) = (&ledger.due.over, &ledger.seen.over);
    if due == seen {
        return Ok(());
    }
    let passed = due.iter().any(|(_, reason)| *reason == SessionEnd::DeadlinePassed);
    let rule = if passed && seen.is_empty() { "I8" } else { "I18" };
    Err((rule, format!("sessions ended: {seen:?}, must be {due:?}")))
}
