//! The keeper: holds the term while a guard runs a command under it.

use std::{ffi::OsString, io::IsTerminal, time::Duration};

use rustix::process::Signal;
use simba::{Event as ClientEvent, Simba, Term, Timing};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::{CommandArgs, OnLoss},
    command::run::command_line,
    exit::{CONFIG, Exit, INTERNAL, USAGE},
    guard::{Ended, Event, Guard, Spec, Stdin, signal_from_name},
    settings::Settings,
};

/// What every run of the command has in common.
pub(crate) struct Plan {
    command: Vec<OsString>,
    kill_after: Duration,
    lead: Duration,
    max_run: Option<Duration>,
    stop_signal: String,
    notify: bool,
    keep_url: bool,
    stdin: Stdin,
    foreground: bool,
}

impl Plan {
    pub(crate) fn new(settings: &Settings, args: &CommandArgs) -> Result<Self, Exit> {
        let command = command_line(args)?;
        signal_from_name(&args.stop_signal).map_err(|text| Exit::new(USAGE, text))?;
        let timing = &settings.timing;
        let kill_after = args.kill_after.unwrap_or_else(|| (timing.lease() / 5).min(Duration::from_secs(10)));
        let lead = lead(timing);
        check_kill_after(timing, kill_after, lead)?;
        let terminal = std::io::stdin().is_terminal();
        let pass = (terminal || args.pass_stdin) && !args.no_stdin;
        Ok(Self {
            command,
            kill_after,
            lead,
            max_run: args.max_run,
            stop_signal: args.stop_signal.clone(),
            notify: args.on_loss == OnLoss::Notify,
            keep_url: args.keep_url,
            stdin: if pass { Stdin::Pass } else { Stdin::Null },
            // On a terminal the command stays in the foreground group, so that it can read, and Ctrl-C reaches it.
            foreground: terminal,
        })
    }

    /// The signals that are passed on to the command. Ctrl-Z on a terminal stops the keeper like the command, as a
    /// shell expects; the guard then acts by the last deadline.
    pub(crate) fn signals(&self) -> Result<Signals, Exit> {
        Signals::new(!self.foreground)
    }

    fn spec(&self, settings: &Settings, client: &Simba, term: &Term, deadline: u64) -> Spec {
        let session = client.snapshot().session.id.map_or_else(String::new, |id| id.to_string());
        let url = if self.keep_url { Some(settings.url.clone()) } else { None };
        let namespace = settings.namespace.as_ref().map_or_else(String::new, ToString::to_string);
        Spec {
            command: self.command.clone(),
            env: vec![
                ("SIMBA_LEASE", Some(term.name().to_string())),
                ("SIMBA_TOKEN", Some(term.token().to_string())),
                ("SIMBA_NODE", Some(client.node().to_string())),
                ("SIMBA_NAMESPACE", Some(namespace)),
                ("SIMBA_SESSION", Some(session)),
                ("SIMBA_URL", url),
                (crate::notify::SOCKET, None),
            ],
            deadline,
            kill_after: self.kill_after,
            lead: self.lead,
            max_run: self.max_run,
            stop_signal: self.stop_signal.clone(),
            notify: self.notify,
            foreground: self.foreground,
            stdin: self.stdin,
        }
    }
}

/// How long before the deadline the kill comes: time for the kill itself and for a busy machine to get to it.
fn lead(timing: &Timing) -> Duration {
    (timing.lease() / 20).clamp(Duration::from_millis(50), Duration::from_millis(250))
}

/// The polite signal must fall after the next renewal is due, or every command would be ended at once; and before
/// the kill.
fn check_kill_after(timing: &Timing, kill_after: Duration, lead: Duration) -> Result<(), Exit> {
    let validity = simba::local_validity(timing.lease(), timing);
    let most = validity.saturating_sub(timing.renew());
    if kill_after < lead || kill_after >= most {
        let text = format!(
            "cannot use --kill-after {kill_after:?} with lease time {:?} and renew interval {:?}: the polite signal must \
             come after the next renewal is due and before the kill, so use from {lead:?} to below {most:?}",
            timing.lease(),
            timing.renew()
        );
        return Err(Exit::new(CONFIG, text));
    }
    Ok(())
}

/// How a run of the command ended. Nothing of it is left in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// By itself, with this code: its own, or 128 and the signal that ended it.
    Exited(u8),
    /// It ran longer than it may.
    TooLong,
    /// The lease was lost, and it was ended.
    Lost,
    /// The guard was killed, and it was ended.
    GuardDied,
}

/// Runs the command under the term until it has ended.
pub(crate) async fn keep(
    client: &Simba,
    settings: &Settings,
    plan: &Plan,
    term: &Term,
    signals: &mut Signals,
) -> Result<Outcome, Exit> {
    let mut events = client.events();
    let Some(deadline) = term.deadline() else { return Ok(Outcome::Lost) };
    let mut guard =
        Guard::spawn(&plan.spec(settings, client, term, deadline.as_nanos())).map_err(|error| {
            Exit::new(INTERNAL, format!("the guard of the command cannot be started: {error}"))
        })?;
    let mut lost = false;
    let mut revoked = term.revoked();
    loop {
        tokio::select! {
            biased;
            event = guard.next() => match event {
                Event::Started(_) | Event::Asked => {}
                Event::Ended(ended) => {
                    guard.finish();
                    return Ok(outcome(ended, lost));
                }
                Event::GuardDied => {
                    guard.sweep();
                    return Ok(Outcome::GuardDied);
                }
            },
            _ = &mut revoked, if !lost => {
                // The store may have given the lease away already.
                lost = true;
                if !plan.notify {
                    guard.kill();
                }
            }
            Some(event) = events.next() => {
                if matches!(event, ClientEvent::Renewed { .. } | ClientEvent::Lagged(_))
                    && let Some(deadline) = term.deadline()
                {
                    guard.deadline(deadline.as_nanos());
                }
            }
            (number, ends, from_terminal) = signals.next() => {
                // What the terminal sends has reached a command in its foreground group already.
                if !(from_terminal && plan.foreground) {
                    guard.signal(number);
                }
                if ends {
                    signals.count_ending();
                    if signals.endings > 1 {
                        guard.end_by(0);
                    } else if let Some(deadline) = term.deadline() {
                        guard.end_by(deadline.as_nanos());
                    }
                }
            }
        }
    }
}

fn outcome(ended: Ended, lost: bool) -> Outcome {
    match ended {
        Ended::Lost => Outcome::Lost,
        Ended::TooLong => Outcome::TooLong,
        _ if lost => Outcome::Lost,
        Ended::Code(code) => Outcome::Exited(code),
        Ended::Signal(signal) => Outcome::Exited(128u8.saturating_add(signal)),
        Ended::NotStarted => Outcome::Exited(126),
    }
}

/// Waits a random part of `most`.
pub(crate) async fn jitter(most: Option<Duration>, signals: &mut Signals) -> Result<(), Exit> {
    let Some(most) = most else { return Ok(()) };
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Exit::new(INTERNAL, format!("no random bytes: {error}")))?;
    let part = u64::from_le_bytes(bytes) as f64 / u64::MAX as f64;
    tokio::select! {
        biased;
        signal = signals.ending() => Err(ended_by(signal)),
        () = tokio::time::sleep(most.mul_f64(part)) => Ok(()),
    }
}

/// Ended by a signal before the command was started: 128 and its number, as a shell says it.
pub(crate) fn ended_by(signal: Signal) -> Exit {
    let code = 128u8.saturating_add(u8::try_from(signal.as_raw()).unwrap_or(0));
    Exit::new(code, "")
}

/// The signals that this process passes on.
pub(crate) struct Signals {
    streams: Vec<(Signal, bool, tokio::signal::unix::Signal)>,
    endings: u32,
}

impl Signals {
    fn new(with_stop: bool) -> Result<Self, Exit> {
        let list = [
            (Signal::TERM, true),
            (Signal::INT, true),
            (Signal::HUP, true),
            (Signal::QUIT, true),
            (Signal::USR1, false),
            (Signal::USR2, false),
            (Signal::WINCH, false),
            (Signal::CONT, false),
            (Signal::TSTP, false),
        ];
        let mut streams = Vec::new();
        for (number, ends) in list.into_iter().filter(|(number, _)| with_stop || *number != Signal::TSTP) {
            streams.push((number, ends, signal(SignalKind::from_raw(number.as_raw()))?));
        }
        Ok(Self { streams, endings: 0 })
    }

    /// The next signal; whether it asks to end; and whether it may come from the terminal.
    async fn next(&mut self) -> (Signal, bool, bool) {
        let streams = &mut self.streams;
        std::future::poll_fn(|cx| {
            for (number, ends, stream) in streams.iter_mut() {
                if stream.poll_recv(cx).is_ready() {
                    let keyboard = matches!(*number, Signal::INT | Signal::QUIT | Signal::WINCH);
                    return std::task::Poll::Ready((*number, *ends, keyboard));
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// Waits for one that asks to end.
    pub(crate) async fn ending(&mut self) -> Signal {
        loop {
            let (number, ends, _) = self.next().await;
            if ends {
                self.endings += 1;
                return number;
            }
        }
    }

    const fn count_ending(&mut self) {
        self.endings += 1;
    }

    pub(crate) const fn was_asked_to_end(&self) -> bool {
        self.endings > 0
    }
}
