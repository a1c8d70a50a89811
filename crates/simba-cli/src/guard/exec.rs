//! `simba __exec`: becomes the command. It exists so that the parent-death signal can be set without a `fork` of
//! our own: the setting outlives the `exec`.

use std::{
    ffi::OsString,
    io::ErrorKind,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::output;

/// What the guard passes.
#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    /// The guard: whoever is the parent now must be it.
    #[arg(long)]
    guard: u32,
    /// The command.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn exec(args: &ExecArgs) -> ExitCode {
    let Some((program, rest)) = args.command.split_first() else { return ExitCode::from(127) };
    let set = set_parent_process_death_signal(Some(Signal::KILL));
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if set.is_err() || parent != Some(args.guard) {
        // The guard died in between: nobody would end the command in time.
        output::note("the guard of the command has ended; the command is not started");
        return ExitCode::from(126);
    }
    let error = Command::new(program).args(rest).exec();
    output::note(format!("{} cannot be run: {error}", program.display()));
    ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
}
