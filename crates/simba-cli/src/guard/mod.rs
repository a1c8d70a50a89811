//! The guard: a process that holds the deadline and ends a command before it, whatever happens to the keeper.
//!
//! # The problem
//! `simba run` renews a lease and runs a command. If the process that renews is frozen, hangs or is killed, the
//! command goes on, and somebody else gets the lease.
//!
//! # Wrong answers
//! * *The keeper ends the command when a renewal fails.* A frozen keeper does nothing.
//! * *The parent-death signal.* It comes when the keeper is killed, not when it is frozen, and not to grandchildren.
//! * *A timer in the command.* Commands are anything.
//!
//! # The idea
//! ```text
//! keeper --deadline--> guard --starts--> command --> its children
//! ```
//! The **keeper** holds the session. The **guard** is one thread with no runtime and no store. It starts the
//! command, is the subreaper of everything that comes from it, and is told the local deadline, an instant of the
//! boot-time clock, after each renewal. With no news it acts by the last deadline: the polite signal at
//! `deadline - kill-after`, the kill of the whole tree a lead before the deadline.
//!
//! | event | what happens |
//! |---|---|
//! | no renewal succeeds | polite signal, then kill, before the deadline |
//! | keeper frozen | the same: the guard has the last deadline |
//! | keeper killed | the control socket closes: the tree is killed at once |
//! | guard killed | the command has the parent-death signal; the keeper, a subreaper too, inherits and kills the rest |
//! | command exits | what it left running is ended politely, then killed; only then is the lease released |
//!
//! The whole tree is found through `/proc` by parentage, since a process that left its group or its session is
//! still a descendant of its subreaper. It is stopped before it is killed, so that nothing forks away meanwhile.
//!
//! No `fork` and no unsafe code: the keeper starts its own program again as `__guard`, which starts it again as
//! `__exec`, which sets the parent-death signal and becomes the command. The control socket is the guard's
//! standard input; the command's own standard input travels through the socket.
//!
//! # Limits
//! A process that is frozen is killed all the same, but one in an uninterruptible wait in the kernel dies only when
//! that ends. A machine that is suspended suspends the command too; on waking it runs for the fraction of a second
//! until the guard looks at the clock. Should keeper and guard be killed in the same instant, the command dies with
//! them, and a grandchild that has made itself a daemon lives on. What a command told other machines to do is not undone.

mod exec;
mod handle;
mod process;
mod tree;
mod wire;

pub(crate) use exec::{ExecArgs, exec};
pub(crate) use handle::{Event, Guard, Spec, Stdin};
pub(crate) use process::{GuardArgs, guard};
pub(crate) use wire::{Ended, signal_from_name};
