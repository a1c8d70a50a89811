//! The keeper's side.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::{Signal, set_child_subreaper},
};
use tokio::sync::mpsc;

use super::{
    tree::kill_tree,
    wire::{Ended, Order, Report},
};

/// What is to be run, and how it is to be ended.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) command: Vec<OsString>,
    pub(crate) env: Vec<(&'static str, Option<String>)>,
    /// The local deadline now, in nanoseconds of the boot-time clock.
    pub(crate) deadline: u64,
    pub(crate) kill_after: Duration,
    /// The kill comes this long before the deadline.
    pub(crate) lead: Duration,
    pub(crate) max_run: Option<Duration>,
    pub(crate) stop_signal: String,
    pub(crate) notify: bool,
    /// The command stays in this process's group, the foreground group of the terminal.
    pub(crate) foreground: bool,
    pub(crate) stdin: Stdin,
}

/// The command's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stdin {
    /// This process's.
    Pass,
    /// Nothing.
    Null,
}

/// What the guard tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The command runs.
    Started(u32),
    /// The polite signal was sent, for lack of a renewal.
    Asked,
    /// The command has ended, and nothing of it is left.
    Ended(Ended),
    /// The guard is gone without a word; call [`Guard::sweep`].
    GuardDied,
}

/// A guard under way. Dropping it closes the control socket, on which the guard kills everything.
#[derive(Debug)]
pub(crate) struct Guard {
    control: UnixStream,
    process: Child,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Guard {
    /// Starts the guard, and with it the command. Must be called on the main thread: the parent-death signal
    /// follows the thread that starts a process.
    pub(crate) fn spawn(spec: &Spec) -> io::Result<Self> {
        // Should the guard be killed, its children become ours.
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let (control, theirs) = UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("__guard")
            .args(["--deadline", &spec.deadline.to_string()])
            .args(["--kill-after-ms", &spec.kill_after.as_millis().to_string()])
            .args(["--lead-ms", &spec.lead.as_millis().to_string()])
            .args(["--stop-signal", &spec.stop_signal]);
        if let Some(limit) = spec.max_run {
            command.args(["--max-run-ms", &limit.as_millis().to_string()]);
        }
        if spec.notify {
            command.arg("--notify");
        }
        if spec.foreground {
            command.arg("--foreground");
        } else {
            // A signal to this process's group is this process's to pass on.
            command.process_group(0);
        }
        command.arg("--").args(&spec.command).stdin(Stdio::from(OwnedFd::from(theirs)));
        for (name, value) in &spec.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let process = command.spawn()?;
        drop(command);
        send_stdin(&control, spec.stdin)?;
        let (sender, events) = mpsc::unbounded_channel();
        let mut reports = control.try_clone()?;
        thread::Builder::new().name("simba-guard-reports".to_owned()).spawn(move || {
            loop {
                let event = match Report::read(&mut reports) {
                    Ok(Report::Started(pid)) => Event::Started(pid),
                    Ok(Report::Asked) => Event::Asked,
                    Ok(Report::Ended(ended)) => Event::Ended(ended),
                    Err(_) => Event::GuardDied,
                };
                let last = matches!(event, Event::Ended(_) | Event::GuardDied);
                if sender.send(event).is_err() || last {
                    return;
                }
            }
        })?;
        Ok(Self { control, process, events })
    }

    /// The next event. After `Ended` or `GuardDied` there is none.
    ///
    /// # Cancel safety
    /// No event is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Event {
        self.events.recv().await.unwrap_or(Event::GuardDied)
    }

    /// The deadline has moved on.
    pub(crate) fn deadline(&mut self, at: u64) {
        self.order(Order::Deadline(at));
    }

    /// Passes a signal to the command.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.order(Order::Signal(signal.as_raw()));
    }

    /// The wrapper was asked to end: whatever is left at `at` is killed.
    pub(crate) fn end_by(&mut self, at: u64) {
        self.order(Order::EndBy(at));
    }

    /// Kills everything now.
    pub(crate) fn kill(&mut self) {
        self.order(Order::Kill);
    }

    /// A guard that is gone cannot be told; that it is gone comes as an event.
    fn order(&mut self, order: Order) {
        drop(order.write(&mut self.control));
    }

    /// Takes the guard's own status, once it has said its last word.
    pub(crate) fn finish(mut self) {
        drop(self.process.wait());
    }

    /// The guard was killed: kills what it has left behind, which is ours now.
    pub(crate) fn sweep(self) {
        let Self { control, mut process, .. } = self;
        drop(control);
        // It is dead already, or talks nonsense and must not go on.
        drop(process.kill());
        drop(process.wait());
        kill_tree(None, |_, _| {});
    }
}

fn send_stdin(control: &UnixStream, stdin: Stdin) -> io::Result<()> {
    let fd = match stdin {
        Stdin::Pass => io::stdin().as_fd().try_clone_to_owned()?,
        Stdin::Null => OwnedFd::from(File::open("/dev/null")?),
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    if !message.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("a descriptor does not fit into a message"));
    }
    sendmsg(control, &[IoSlice::new(b"!")], &mut message, SendFlags::NOSIGNAL)?;
    Ok(())
}
