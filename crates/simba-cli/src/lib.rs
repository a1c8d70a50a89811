//! The command `simba`: run work on exactly one of several machines at a time.
//!
//! It uses the public API of the library alone. What is here is the command line, the settings, the guard process
//! that ends a command in time whatever happens to this one, and the demo.
//!
//! | module | what |
//! |---|---|
//! | `args` | the command line, and its help |
//! | `settings` | where each setting comes from |
//! | `command` | one file a verb |
//! | `guard` | the process that holds the deadline |
//! | [`history`] | the checker of what nodes did; the demo and the tests use the same |

mod args;
mod clock;
mod command;
mod duration;
mod exit;
mod guard;
pub mod history;
mod keeper;
mod notify;
mod output;
mod planted;
mod settings;
mod store;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, ConfigCommand};
use exit::{Exit, USAGE};
use settings::Settings;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    output::set_volume(cli.global.quiet, cli.global.verbose);
    match dispatch(cli) {
        Ok(code) => code,
        Err(exit) => exit.report(),
    }
}

/// Help and version are data; everything else that the parser says is wrong usage.
fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe is no error.
    drop(error.print());
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

fn dispatch(cli: Cli) -> Result<ExitCode, Exit> {
    match &cli.command {
        Command::Demo(args) => return command::demo::demo(args, cli.global.format()),
        Command::Guard(args) => return Ok(guard::guard(args)),
        Command::Exec(args) => return Ok(guard::exec(args)),
        _ => {}
    }
    let settings = Settings::load(&cli.global)?;
    let format = cli.global.format();
    match cli.command {
        Command::Status(args) => command::status::status(&settings, &args, format),
        Command::Who(args) => command::who::who(&settings, &args, format),
        Command::ForceRelease(args) => command::incident::force_release(&settings, &args, format),
        Command::Evict(args) => command::incident::evict(&settings, &args, format),
        Command::Watch(args) => command::watch::watch(&settings, &args, format),
        Command::Schema(what) => command::schema::schema(&settings, &what),
        Command::Config(ConfigCommand::Show) => command::config::show(&settings, format),
        Command::Doctor(args) => command::doctor::doctor(&settings, &args, format),
        Command::Node(args) => command::node::node(&settings, args),
        Command::Run(args) => command::run::run(&settings, &args),
        Command::Lead(args) => command::lead::lead(&settings, &args),
        // Dealt with above: they have no settings.
        Command::Demo(_) | Command::Guard(_) | Command::Exec(_) => Ok(ExitCode::SUCCESS),
    }
}
