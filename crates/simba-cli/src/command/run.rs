//! `simba run NAME -- COMMAND`: take the lease, run once, release.

use std::{process::ExitCode, time::Duration};

use simba::{Election, Event, Held, LeaseName, Simba, Term, TermEvent, Terms};

use crate::{
    args::{RunArgs, Wait},
    duration::show,
    exit::{BUSY, Exit, USAGE},
    keeper::{self, Outcome, Signals},
    output,
    settings::Settings,
    store,
};

pub(crate) fn run(settings: &Settings, args: &RunArgs) -> Result<ExitCode, Exit> {
    let plan = keeper::Plan::new(settings, &args.command)?;
    store::block_on(async {
        let mut signals = plan.signals()?;
        keeper::jitter(args.command.jitter, &mut signals).await?;
        let client = tokio::select! {
            biased;
            signal = signals.ending() => return Err(keeper::ended_by(signal)),
            client = store::client(settings) => client?,
        };
        let result = take_and_run(&client, settings, args, &plan, &mut signals).await;
        client.close().await;
        result
    })
}

async fn take_and_run(
    client: &Simba,
    settings: &Settings,
    args: &RunArgs,
    plan: &keeper::Plan,
    signals: &mut Signals,
) -> Result<ExitCode, Exit> {
    let mut events = client.events();
    let election = client.election(args.name.as_str())?.start()?;
    let mut terms = election.terms();
    let term = {
        let taking = take(&args.name, args.wait, &mut terms, &mut events);
        tokio::select! {
            biased;
            signal = signals.ending() => Err(keeper::ended_by(signal)),
            taken = taking => taken,
        }
    };
    let term = match term {
        Ok(term) => term,
        Err(exit) => {
            election.stop().await;
            return busy(args, exit);
        }
    };
    let outcome = keeper::keep(client, settings, plan, &term, signals).await;
    release(&election, &term).await;
    report(outcome?, &term)
}

/// The lease is given back once nothing of the command is left.
async fn release(election: &Election, term: &Term) {
    let lost = !term.is_valid();
    election.stop().await;
    if lost {
        output::hint(format!("the lease {:?} had ended before it could be released", term.name().as_str()));
    }
}

fn report(outcome: Outcome, term: &Term) -> Result<ExitCode, Exit> {
    match outcome {
        Outcome::Exited(code) => Ok(ExitCode::from(code)),
        Outcome::TooLong => {
            Err(Exit::new(crate::exit::TIMED_OUT, "the command ran longer than --max-run, and was ended"))
        }
        Outcome::Lost => {
            let reason = term.end_reason().map_or_else(String::new, |reason| format!(" ({reason})"));
            let text =
                format!("the lease {:?} was lost{reason}; the command was ended", term.name().as_str());
            Err(Exit::new(crate::exit::LOST, text))
        }
        Outcome::GuardDied => Err(Exit::new(
            crate::exit::LOST,
            "the guard of the command was killed; the command and everything it had started were ended",
        )),
    }
}

/// Waits for the term. Without `--wait` the first refusal is the answer.
async fn take(
    name: &LeaseName,
    wait: Option<Wait>,
    terms: &mut Terms,
    events: &mut simba::Events,
) -> Result<Term, Exit> {
    let limit = match wait {
        Some(Wait::AtMost(limit)) => limit,
        // Far enough: what cannot be counted is waited for.
        Some(Wait::Forever) | None => Duration::from_secs(365 * 24 * 3600),
    };
    let mut timeout = std::pin::pin!(tokio::time::sleep(limit));
    let mut last = Held::default();
    let mut told = false;
    loop {
        tokio::select! {
            biased;
            event = terms.next() => match event {
                Some(TermEvent::Elected(term)) => return Ok(term),
                Some(_) => {}
                None => return Err(Exit::new(crate::exit::INTERNAL, "the client has ended; this is a bug of simba")),
            },
            event = events.next() => match event {
                Some(Event::Refused { held, .. }) => {
                    last = held;
                    if wait.is_none() {
                        return Err(Exit::new(BUSY, refusal(name, &last)));
                    }
                    if !told {
                        told = true;
                        output::hint(format!("waiting for {:?} ({})", name.as_str(), holder(&last)));
                    }
                }
                Some(Event::AttemptFailed { failure, .. }) if wait.is_none() => return Err(Exit::from(&failure)),
                Some(_) | None => {}
            },
            () = &mut timeout => {
                let text = format!("gave up after {}: {:?} is {}", show(limit), name.as_str(), holder(&last));
                return Err(Exit::new(BUSY, text));
            }
        }
    }
}

fn holder(held: &Held) -> String {
    let who =
        held.holder.as_ref().map_or_else(|| "held elsewhere".to_owned(), |owner| format!("held by {owner}"));
    let token = held.token.map_or_else(String::new, |token| format!(", token {token}"));
    let left = held
        .remaining
        .map_or_else(String::new, |left| format!(", free in at most {} if it dies", show(left)));
    format!("{who}{token}{left}")
}

fn refusal(name: &LeaseName, held: &Held) -> String {
    format!(
        "busy: {:?} is {}\nnot waiting; use --wait 30s to wait, --busy-ok to treat this as success",
        name.as_str(),
        holder(held)
    )
}

fn busy(args: &RunArgs, exit: Exit) -> Result<ExitCode, Exit> {
    if exit.code != BUSY {
        return Err(exit);
    }
    if args.busy_ok {
        output::hint(exit.message);
        return Ok(ExitCode::SUCCESS);
    }
    match args.busy_exit_code {
        Some(code) => Err(Exit { code, ..exit }),
        None => Err(exit),
    }
}

/// What is to be run: a command, or a line for the shell.
pub(crate) fn command_line(args: &crate::args::CommandArgs) -> Result<Vec<std::ffi::OsString>, Exit> {
    match (&args.shell, args.command.is_empty()) {
        (Some(line), true) => Ok(vec!["/bin/sh".into(), "-c".into(), line.into()]),
        (None, false) => Ok(args.command.clone()),
        _ => Err(Exit::new(
            USAGE,
            "there is no command to run; write it behind --, as in: simba run NAME -- COMMAND ARG",
        )),
    }
}
