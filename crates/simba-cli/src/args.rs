//! The command line. The texts here are the command's documentation.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use simba::{FencingToken, LeaseName, SessionId};

use crate::{duration, output::Format};

/// Run work on exactly one of several machines at a time.
///
/// A lease is taken on a store that all of them share; whoever holds it may work, gets a fencing token, and is
/// stopped before the lease could be given to anybody else.
#[derive(Debug, Parser)]
#[command(name = "simba", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Global {
    /// The store: sqlite:PATH, postgres://.., mysql://.. or redis://... Also SIMBA_URL.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file whose first line is the store's URL. Also SIMBA_URL_FILE.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) url_file: Option<String>,
    /// Read this configuration file, and no other.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Keep names apart from those of other namespaces in the same store.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// What this node is called, for people. The host's name by default.
    #[arg(long, global = true, value_name = "LABEL")]
    pub(crate) node: Option<String>,
    /// How long the store keeps the lease of a node that it does not hear from. [default: 15s]
    #[arg(long, global = true, value_name = "DURATION")]
    pub(crate) lease: Option<String>,
    /// How often the lease is renewed. [default: a third of the lease]
    #[arg(long, global = true, value_name = "DURATION")]
    pub(crate) renew: Option<String>,
    /// The bound of the clock rate difference to the store, from 0 to below 0.5. [default: 0.01]
    #[arg(long, global = true, value_name = "FRACTION")]
    pub(crate) drift: Option<String>,
    /// What is taken off every deadline besides. [default: 50ms]
    #[arg(long, global = true, value_name = "DURATION")]
    pub(crate) margin: Option<String>,
    /// How long to try to reach the store. [default: 5s]
    #[arg(long, global = true, value_name = "DURATION")]
    pub(crate) connect_timeout: Option<String>,
    /// Text for people, or JSON for programs.
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
    /// JSON output; the same as --output json.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print nothing but errors and data.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print what happens to the session and the lease.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

impl Global {
    /// The form of output that was asked for.
    #[must_use]
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take a lease, run a command once, release the lease.
    ///
    /// Ends with the command's own exit code; with 75 if the lease is held elsewhere; with 79 if it was lost while
    /// the command ran, which is then ended before anybody else can hold the lease.
    Run(RunArgs),
    /// Stand by for ever: run a command while leading, end it on loss, contend again.
    Lead(LeadArgs),
    /// List leases.
    Status(StatusArgs),
    /// Show one lease. Exit code 0 if it is held, 1 if it is free.
    Who(WhoArgs),
    /// Free a lease that somebody else holds, in an incident.
    ///
    /// The token says which term is meant, so that a newer one is never hit; `simba who NAME --field token` prints it.
    /// The record's token is raised. The owner is told at its next keep-alive; until then only the token keeps it apart
    /// from the next one.
    ForceRelease(ForceReleaseArgs),
    /// End somebody else's session, in an incident: all its leases are free at once.
    Evict(EvictArgs),
    /// Print what happens to leases, a line each, until stopped.
    Watch(WatchArgs),
    /// The store's tables.
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// The settings in effect.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Measure the store, and look for what weakens its promises. Exit code 69 if leases do not work there.
    Doctor(DoctorArgs),
    /// Three nodes, one lease: a leader is elected, frozen, replaced, and its late write refused.
    Demo(DemoArgs),
    /// A node of the demo and of the tests.
    #[command(name = "__node", hide = true)]
    Node(NodeArgs),
    /// The process that ends a command in time.
    #[command(name = "__guard", hide = true)]
    Guard(crate::guard::GuardArgs),
    /// Becomes the command.
    #[command(name = "__exec", hide = true)]
    Exec(crate::guard::ExecArgs),
}

/// What is run, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct CommandArgs {
    /// Time between the polite signal and the kill when the lease is lost. [default: a fifth of the lease, at most 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,
    /// The polite signal, instead of TERM.
    #[arg(long, value_name = "SIGNAL", default_value = "TERM")]
    pub(crate) stop_signal: String,
    /// End the command after this time, with exit code 124.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_run: Option<Duration>,
    /// On loss of the lease: kill the command, or only send it USR1 (unsafe: the command may go on).
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) on_loss: OnLoss,
    /// A line for the shell, instead of a command.
    #[arg(short = 'c', value_name = "LINE", conflicts_with = "command")]
    pub(crate) shell: Option<String>,
    /// Let the command see SIMBA_URL.
    #[arg(long)]
    pub(crate) keep_url: bool,
    /// Pass standard input on although it is not a terminal.
    #[arg(long, conflicts_with = "no_stdin")]
    pub(crate) pass_stdin: bool,
    /// Pass no standard input on although it is a terminal.
    #[arg(long)]
    pub(crate) no_stdin: bool,
    /// Wait a random part of this before the first attempt.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) jitter: Option<Duration>,
    /// The command and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What loss does to the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLoss {
    /// It is ended before the deadline.
    #[default]
    Kill,
    /// It is told.
    Notify,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The lease.
    pub(crate) name: LeaseName,
    /// Wait for the lease: for ever, or at most this long.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "forever", value_parser = parse_wait)]
    pub(crate) wait: Option<Wait>,
    /// The exit code for "held elsewhere", instead of 75.
    #[arg(long, value_name = "CODE")]
    pub(crate) busy_exit_code: Option<u8>,
    /// Treat "held elsewhere" as success.
    #[arg(long, conflicts_with = "busy_exit_code")]
    pub(crate) busy_ok: bool,
    #[command(flatten)]
    pub(crate) command: CommandArgs,
}

/// How long to wait for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For ever.
    Forever,
    /// At most this long.
    AtMost(Duration),
}

fn parse_wait(text: &str) -> Result<Wait, String> {
    if text == "forever" { Ok(Wait::Forever) } else { duration::parse(text).map(Wait::AtMost) }
}

#[derive(Debug, Args)]
pub(crate) struct LeadArgs {
    /// The lease.
    pub(crate) name: LeaseName,
    /// When the command ends by itself: step down and contend again, run it again at once, or quit.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) on_exit: OnExit,
    #[command(flatten)]
    pub(crate) command: CommandArgs,
}

/// What follows when the command ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnExit {
    /// Step down for a renew interval, then contend again.
    #[default]
    Contend,
    /// Run it again under the same term, after a second.
    Restart,
    /// Release the lease, and end with the command's exit code.
    Quit,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Only names that begin with this.
    #[arg(value_name = "PREFIX", default_value = "")]
    pub(crate) prefix: String,
    /// Show free leases too.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WhoArgs {
    /// The lease.
    pub(crate) name: LeaseName,
    /// Print just this.
    #[arg(long, value_enum, value_name = "FIELD")]
    pub(crate) field: Option<Field>,
}

#[derive(Debug, Args)]
pub(crate) struct ForceReleaseArgs {
    /// The lease.
    pub(crate) name: LeaseName,
    /// The token of the term that is to end.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: FencingToken,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EvictArgs {
    /// The session, as `simba who NAME` prints it.
    pub(crate) session: SessionId,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// One fact about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Field {
    /// The node and its process.
    Owner,
    /// The fencing token.
    Token,
    /// The node.
    Node,
    /// The milliseconds until the lease is free if its owner dies now.
    Remaining,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Only names that begin with this.
    #[arg(value_name = "PREFIX", default_value = "")]
    pub(crate) prefix: String,
    /// How often to look.
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = duration::parse)]
    pub(crate) every: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Print the statements that make the tables.
    Print,
    /// Print the statements that give a user the rights that leases need, and no more.
    Grants,
    /// Make the tables, if they are missing.
    Apply {
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Look whether the tables are there, and of which version. Exit code 1 if they are not.
    Check,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting, its value, and where it comes from.
    Show,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Exit code 1 if there are warnings.
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The lease time of the demo.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse)]
    pub(crate) lease_time: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// The lease.
    pub(crate) name: LeaseName,
    /// The database of the fenced ledger.
    #[arg(long)]
    pub(crate) ledger: Option<PathBuf>,
}
