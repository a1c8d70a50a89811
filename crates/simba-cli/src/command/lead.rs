//! `simba lead NAME -- COMMAND`: stand by for ever; run the command while leading.

use std::{process::ExitCode, time::Duration};

use simba::{Election, Simba, Term, TermEvent};

use crate::{
    args::{LeadArgs, OnExit},
    exit::{Exit, INTERNAL},
    keeper::{self, Outcome, Signals},
    notify::notify,
    output,
    settings::Settings,
    store,
};

/// Between two runs under one term, so that a command that ends at once does not spin.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn lead(settings: &Settings, args: &LeadArgs) -> Result<ExitCode, Exit> {
    let plan = keeper::Plan::new(settings, &args.command)?;
    store::block_on(async {
        let mut signals = plan.signals()?;
        keeper::jitter(args.command.jitter, &mut signals).await?;
        let client = store::client(settings).await?;
        let result = stand_by(&client, settings, args, &plan, &mut signals).await;
        client.close().await;
        result
    })
}

async fn stand_by(
    client: &Simba,
    settings: &Settings,
    args: &LeadArgs,
    plan: &keeper::Plan,
    signals: &mut Signals,
) -> Result<ExitCode, Exit> {
    let election = client.election(args.name.as_str())?.start()?;
    let mut terms = election.terms();
    output::hint(format!("standing by for {:?}", args.name.as_str()));
    notify("READY=1\nSTATUS=standing by");
    loop {
        let event = tokio::select! {
            biased;
            signal = signals.ending() => {
                election.stop().await;
                return Ok(ExitCode::from(keeper::ended_by(signal).code));
            }
            event = terms.next() => event,
        };
        match event {
            Some(TermEvent::Elected(term)) => {
                output::hint(format!("leading {:?} with token {}", args.name.as_str(), term.token()));
                notify(&format!("STATUS=leading, token {}", term.token()));
                if let Some(code) = run_term(client, settings, args, plan, signals, &election, &term).await? {
                    return Ok(ExitCode::from(code));
                }
            }
            Some(TermEvent::Revoked { reason, .. }) => {
                output::hint(format!("not leading {:?} any more ({reason})", args.name.as_str()));
                notify("STATUS=standing by");
            }
            Some(_) => {}
            None => {
                return Err(Exit::new(
                    INTERNAL,
                    "the client has ended; this is a bug of simba, please report it",
                ));
            }
        }
    }
}

/// One term. Answers the code to end with, if this is the end.
async fn run_term(
    client: &Simba,
    settings: &Settings,
    args: &LeadArgs,
    plan: &keeper::Plan,
    signals: &mut Signals,
    election: &Election,
    term: &Term,
) -> Result<Option<u8>, Exit> {
    loop {
        let outcome = keeper::keep(client, settings, plan, term, signals).await?;
        if signals.was_asked_to_end() {
            election.stop().await;
            return Ok(Some(match outcome {
                Outcome::Exited(code) => code,
                Outcome::TooLong => crate::exit::TIMED_OUT,
                Outcome::Lost | Outcome::GuardDied => crate::exit::LOST,
            }));
        }
        let code = match outcome {
            Outcome::Exited(code) => code,
            Outcome::TooLong => crate::exit::TIMED_OUT,
            // The term is over, or must be: whoever watches the command is gone.
            Outcome::Lost => return Ok(None),
            Outcome::GuardDied => {
                election.step_down(client.timing().renew()).await;
                return Ok(None);
            }
        };
        output::hint(format!("the command ended with code {code}"));
        match args.on_exit {
            OnExit::Quit => {
                election.stop().await;
                return Ok(Some(code));
            }
            OnExit::Contend => {
                election.step_down(client.timing().renew()).await;
                return Ok(None);
            }
            OnExit::Restart => {
                tokio::select! {
                    biased;
                    signal = signals.ending() => {
                        election.stop().await;
                        return Ok(Some(keeper::ended_by(signal).code));
                    }
                    _ = term.revoked() => return Ok(None),
                    () = tokio::time::sleep(RESTART_PAUSE) => {}
                }
            }
        }
    }
}
