//! `simba __guard`: the process itself. One thread, one loop, no store.

use std::{
    ffi::OsString,
    io::{self, IoSliceMut, Read},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    process::{Pid, Signal, WaitStatus, kill_process, kill_process_group, set_child_subreaper},
};

use super::{
    tree::{descendants, kill_tree, reap, signal_tree},
    wire::{Ended, Order, Report, signal_from_name, signal_from_number},
};
use crate::{clock::boot_nanos as now, output, planted::Planted};

/// The longest sleep: a machine that wakes from suspend is noticed within it, since sleeping does not count suspend.
const LOOK: Duration = Duration::from_millis(200);

/// What the keeper passes on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// The first deadline, in nanoseconds of the boot-time clock.
    #[arg(long)]
    deadline: u64,
    /// From the polite signal to the deadline.
    #[arg(long)]
    kill_after_ms: u64,
    /// From the kill to the deadline.
    #[arg(long)]
    lead_ms: u64,
    /// The command's time limit.
    #[arg(long)]
    max_run_ms: Option<u64>,
    /// The polite signal.
    #[arg(long)]
    stop_signal: String,
    /// Only tell the command of a loss.
    #[arg(long)]
    notify: bool,
    /// The command shares the terminal's foreground group with the keeper.
    #[arg(long)]
    foreground: bool,
    /// The command.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn guard(args: &GuardArgs) -> ExitCode {
    match Guard::start(args).and_then(|mut guard| guard.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a guard nothing may run.
            kill_tree(None, |_, _| {});
            output::note(format!("the guard of the command failed: {error}"));
            ExitCode::from(crate::exit::INTERNAL)
        }
    }
}

const fn millis(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

/// Why the command is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Lost,
    TooLong,
    /// The command itself has ended, or the wrapper was asked to end: its own status is the answer.
    Own,
}

struct Guard {
    keeper: UnixStream,
    children: UnixStream,
    main: u32,
    group: Option<Pid>,
    status: Option<WaitStatus>,
    deadline: u64,
    kill_after: u64,
    lead: u64,
    too_long_at: u64,
    stop_signal: Signal,
    notify: bool,
    asked: bool,
    /// When the tree is killed for another reason than the deadline, and why.
    end_by: Option<(u64, Why)>,
}

impl Guard {
    fn start(args: &GuardArgs) -> io::Result<Self> {
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let keeper = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let stdin = receive_stdin(&keeper)?;
        let (children, signalled) = UnixStream::pair()?;
        children.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, signalled)?;
        // A signal that the terminal sends to the whole foreground group is for the command; this process stays.
        for signal in [
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGQUIT,
            signal_hook::consts::SIGHUP,
            signal_hook::consts::SIGTERM,
        ] {
            signal_hook::flag::register(signal, std::sync::Arc::default())?;
        }
        let started = now();
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("__exec")
            .arg("--guard")
            .arg(std::process::id().to_string())
            .arg("--")
            .args(&args.command);
        command.stdin(Stdio::from(stdin));
        if !args.foreground {
            command.process_group(0);
        }
        let child = command.spawn()?;
        let main = child.id();
        let pid = i32::try_from(main).ok().and_then(Pid::from_raw);
        let mut guard = Self {
            keeper,
            children,
            main,
            group: pid.filter(|_| !args.foreground),
            status: None,
            deadline: args.deadline,
            kill_after: millis(args.kill_after_ms),
            lead: millis(args.lead_ms),
            too_long_at: args.max_run_ms.map_or(u64::MAX, |ms| started.saturating_add(millis(ms))),
            stop_signal: signal_from_name(&args.stop_signal).map_err(io::Error::other)?,
            notify: args.notify,
            asked: false,
            end_by: None,
        };
        guard.report(Report::Started(main));
        Ok(guard)
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            self.take_statuses();
            if let Some(ended) = self.act() {
                self.report(Report::Ended(ended));
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Does what the clock says. Answers how the command ended, once nothing of it is left.
    fn act(&mut self) -> Option<Ended> {
        let now = now();
        if Planted::DeadlineForgotten.is_in() {
            self.deadline = if self.deadline == 0 { 0 } else { u64::MAX };
        }
        if self.status.is_some() {
            if descendants(std::process::id()).is_empty() {
                return Some(self.verdict());
            }
            if self.end_by.is_none() {
                // What the command left running is ended politely, and then not.
                signal_tree(std::process::id(), self.stop_signal);
                self.end_by = Some((now.saturating_add(self.kill_after), Why::Own));
            }
        }
        if now >= self.too_long_at {
            self.too_long_at = u64::MAX;
            self.signal(self.stop_signal);
            self.end_by = Some((now.saturating_add(self.kill_after), Why::TooLong));
        }
        if !self.asked && now >= self.deadline.saturating_sub(self.kill_after) {
            self.asked = true;
            self.signal(if self.notify { Signal::USR1 } else { self.stop_signal });
            self.report(Report::Asked);
        }
        if !self.notify && now >= self.deadline.saturating_sub(self.lead) {
            return Some(self.kill(Why::Lost));
        }
        match self.end_by {
            Some((at, why)) if now >= at => Some(self.kill(why)),
            Some(_) | None => None,
        }
    }

    fn verdict(&self) -> Ended {
        if let Some((_, Why::TooLong)) = self.end_by {
            return Ended::TooLong;
        }
        if self.asked && !self.notify {
            return Ended::Lost;
        }
        let Some(status) = self.status else { return Ended::NotStarted };
        if let Some(code) = status.exit_status() {
            return Ended::Code(u8::try_from(code & 0xff).unwrap_or(u8::MAX));
        }
        let signal = status.terminating_signal().unwrap_or(9);
        Ended::Signal(u8::try_from(signal).unwrap_or(9))
    }

    fn kill(&mut self, why: Why) -> Ended {
        let (main, mut status) = (self.main, self.status);
        if Planted::GroupOnly.is_in() {
            self.signal(Signal::KILL);
            return Ended::Lost;
        }
        kill_tree(None, |pid, ended| {
            if pid == main {
                status = Some(ended);
            }
        });
        self.status = status;
        match why {
            Why::Lost => Ended::Lost,
            Why::TooLong => Ended::TooLong,
            Why::Own => self.verdict(),
        }
    }

    fn signal(&self, signal: Signal) {
        let sent = match self.group {
            Some(group) => kill_process_group(group, signal),
            None => match i32::try_from(self.main).ok().and_then(Pid::from_raw) {
                Some(pid) => kill_process(pid, signal),
                None => Ok(()),
            },
        };
        debug_assert!(matches!(sent, Ok(()) | Err(Errno::SRCH | Errno::PERM)), "{sent:?}");
    }

    fn take_statuses(&mut self) {
        let (main, mut status) = (self.main, self.status);
        reap(&mut |pid, ended| {
            if pid == main {
                status = Some(ended);
            }
        });
        self.status = status;
    }

    /// A keeper that is gone cannot be told; that it is gone is seen by the next read.
    fn report(&mut self, report: Report) {
        drop(report.write(&mut self.keeper));
    }

    /// Waits for the next instant, the keeper, or a child.
    fn wait(&mut self) -> io::Result<()> {
        let polite = if self.asked { u64::MAX } else { self.deadline.saturating_sub(self.kill_after) };
        let kill = if self.notify { u64::MAX } else { self.deadline.saturating_sub(self.lead) };
        let other = self.end_by.map_or(u64::MAX, |(at, _)| at);
        let next = polite.min(kill).min(other).min(self.too_long_at);
        let nanos = next.saturating_sub(now()).min(u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(nanos).unwrap_or(0) };
        let mut fds = [
            PollFd::from_borrowed_fd(self.keeper.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.children.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (keeper, child) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if child {
            let mut bytes = [0; 64];
            // Emptied, so that the next poll waits; how often it was written does not matter.
            drop(self.children.read(&mut bytes));
        }
        if keeper {
            self.obey();
        }
        Ok(())
    }

    fn obey(&mut self) {
        match Order::read(&mut self.keeper) {
            Ok(Order::Deadline(at)) if !self.asked => self.deadline = self.deadline.max(at),
            // The polite signal has gone out; the command believes that it is over, and so it is.
            Ok(Order::Deadline(_)) => {}
            Ok(Order::Signal(number)) => {
                if let Some(signal) = signal_from_number(number) {
                    self.signal(signal);
                }
            }
            Ok(Order::EndBy(at)) => {
                let at = at.saturating_sub(self.lead);
                self.end_by = Some((self.end_by.map_or(at, |(before, _)| before.min(at)), Why::Own));
            }
            Ok(Order::Kill) => self.deadline = 0,
            // The keeper is gone, or talks nonsense: nobody renews any more.
            Err(_) if Planted::KeeperOutlived.is_in() => {}
            Err(_) => {
                self.notify = false;
                self.deadline = 0;
            }
        }
    }
}

/// The command's standard input, which comes as a descriptor with the first byte.
fn receive_stdin(keeper: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(keeper, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message
            && let Some(fd) = fds.next()
        {
            return Ok(fd);
        }
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the keeper ended before it had said what to run"))
}
