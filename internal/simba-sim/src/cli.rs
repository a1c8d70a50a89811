//! The command: plain lines on standard output, an exit code that is not zero when something is wrong.

use std::{path::Path, process::ExitCode};

use crate::{
    corpus,
    explore::{Bounds, explore},
    oracle::Level,
    planted::{Bug, Catch, catch},
    report::{Run, Seeds, guarded, run},
    shrink::shrink,
    swarm::{Options, Regime},
    world::{Plan, Violation},
};

const USAGE: &str = "\
usage: simba-sim COMMAND

  run [--hours H] [--minutes M] [--seeds A..B] [--seed-base S] [--threads N]
      simulate; without arguments 10,000 hours. Ends with 1 at a violation, and, over 10,000 hours or more, if a
      branch or a point of the \"sometimes\" list was reached by no world.
  replay SEED [--trace] [--plant BUG] [--options 'options = { .. }']
      one world again; with --trace its whole transcript, otherwise the last 60 lines before a violation.
  planted [--only M01] [--seeds N] [--write]
      each planted bug, simulated until it is caught. --write keeps the worlds in the corpus.
  corpus
      every world that was ever red: green now, and red again with its planted bug.
  shrink SEED [--plant BUG] [--options 'options = { .. }']
      the same violation in a smaller world.
  explore [--ticks N] [--lease TICKS] [--deviations N] [--commands N] [--plant BUG]
      every short history of two real engines and one name.

Hours and minutes are simulated time.
";

/// The most failures that a run prints before it gives up.
const MOST_FAILURES: usize = 5;
const HOUR: u128 = 3_600_000_000_000;
/// A run this long must reach everything.
const NIGHTLY: u128 = 10_000 * HOUR;

/// Runs one command line, without the program's name.
#[must_use]
pub fn command(arguments: &[String]) -> ExitCode {
    let mut words = arguments.iter().map(String::as_str);
    let command = words.next().unwrap_or("run");
    let rest: Vec<&str> = words.collect();
    let result = match command {
        "run" => cmd_run(&rest),
        "replay" => cmd_replay(&rest),
        "planted" => cmd_planted(&rest),
        "corpus" => cmd_corpus(&rest),
        "shrink" => cmd_shrink(&rest),
        "explore" => cmd_explore(&rest),
        "help" | "--help" | "-h" => {
            say(USAGE.trim_end());
            Ok(true)
        }
        other => Err(format!("{other:?} is no command\n\n{USAGE}")),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

/// A line of output; a reader that has gone away ends the command.
fn say(line: &str) {
    use std::io::Write as _;
    if writeln!(std::io::stdout().lock(), "{line}").is_err() {
        std::process::exit(141);
    }
}

/// Flags with a value, and plain words.
struct Arguments<'a> {
    words: Vec<&'a str>,
    flags: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> Arguments<'a> {
    fn parse(rest: &[&'a str], valued: &[&str], plain: &[&str]) -> Result<Self, String> {
        let mut parsed = Self { words: Vec::new(), flags: Vec::new() };
        let mut rest = rest.iter().copied();
        while let Some(word) = rest.next() {
            if valued.contains(&word) {
                let value = rest.next().ok_or_else(|| format!("{word} needs a value"))?;
                parsed.flags.push((word, Some(value)));
            } else if plain.contains(&word) {
                parsed.flags.push((word, None));
            } else if word.starts_with('-') {
                return Err(format!("{word:?} is no flag here; see `simba-sim help`"));
            } else {
                parsed.words.push(word);
            }
        }
        Ok(parsed)
    }

    fn text(&self, flag: &str) -> Option<&'a str> {
        self.flags.iter().find(|(name, _)| *name == flag).and_then(|(_, value)| *value)
    }

    fn number(&self, flag: &str) -> Result<Option<u64>, String> {
        self.text(flag).map(|text| number(flag, text)).transpose()
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|(name, _)| *name == flag)
    }

    fn bug(&self) -> Result<Option<Bug>, String> {
        let Some(text) = self.text("--plant") else { return Ok(None) };
        match Bug::named(text).as_slice() {
            [bug] => Ok(Some(*bug)),
            [] => Err(format!("{text:?} is no planted bug; `simba-sim planted` lists them")),
            several => Err(format!("{text:?} is the beginning of {} planted bugs", several.len())),
        }
    }

    /// The world that is meant, by its options or by its seed.
    fn options(&self) -> Result<Options, String> {
        if let Some(line) = self.text("--options") {
            return Options::from_line(line);
        }
        match self.words.as_slice() {
            [seed] => Ok(Options::draw(number("a seed", seed)?)),
            _ => Err("one seed is needed, or --options with the line that was printed".into()),
        }
    }
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{what} must be a whole number, not {:?}", crate::cut(text, 40)))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPU time of this process so far, in seconds, as Linux counts it.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    // Linux reports in hundredths of a second.
    Some(f64::from(ticks(11)? + ticks(12)?) / 100.0)
}

fn cmd_run(rest: &[&str]) -> Result<bool, String> {
    let valued = ["--hours", "--minutes", "--seeds", "--seed-base", "--threads"];
    let arguments = Arguments::parse(rest, &valued, &[])?;
    let base = arguments.number("--seed-base")?.unwrap_or(1);
    let hours = arguments.number("--hours")?.map(|h| u128::from(h) * HOUR);
    let minutes = arguments.number("--minutes")?.map(|m| u128::from(m) * HOUR / 60);
    let wanted = match (hours, minutes) {
        (None, None) => NIGHTLY,
        (h, m) => h.unwrap_or(0) + m.unwrap_or(0),
    };
    let seeds = match arguments.text("--seeds") {
        None => Seeds::Until(base, wanted),
        Some(range) => {
            let (from, to) = range.split_once("..").ok_or("--seeds takes a range like 1..100")?;
            Seeds::Range(number("a seed", from)?, number("a seed", to)?)
        }
    };
    let threads =
        arguments.number("--threads")?.and_then(|n| usize::try_from(n).ok()).unwrap_or_else(threads);
    let total = run(seeds, threads, MOST_FAILURES);
    for (options, violation) in &total.failures {
        print_failure(options, None, violation);
    }
    Ok(print_run(&total))
}

fn print_run(total: &Run) -> bool {
    say(total.counters().trim_end());
    for (regime, worlds) in Regime::ALL.iter().zip(total.regimes) {
        say(&format!("worlds {worlds:>10} {regime:?}"));
    }
    let unreached = total.unreached();
    for name in &unreached {
        say(&format!("never reached: {name}"));
    }
    let incomplete = total.simulated >= NIGHTLY && !unreached.is_empty();
    let speed = cpu_seconds().filter(|s| *s > 0.0).map_or_else(
        || "unknown speed".into(),
        |seconds| format!("{:.0} simulated hours per CPU minute", total.hours() / seconds * 60.0),
    );
    let (worlds, events, violations) = (total.worlds, total.events, total.failures.len());
    say(&format!("{worlds} worlds, {:.0} simulated hours, {events} events, {speed}", total.hours()));
    say(&format!("{violations} violations, {} of the \"sometimes\" list never reached", unreached.len()));
    violations == 0 && !incomplete
}

fn print_failure(options: &Options, bug: Option<Bug>, violation: &Violation) {
    let plan = Plan { trace: true, bug, ..Plan::of(options.clone()) };
    let transcript = guarded(&plan).transcript;
    for line in transcript.iter().skip(transcript.len().saturating_sub(60)) {
        say(line);
    }
    say(&format!("VIOLATION of {} in seed {}: {}", violation.rule, options.seed, violation.text));
    say(&options.to_line());
    say(&format!("again: cargo xtask sim replay {} --trace", options.seed));
}

fn cmd_replay(rest: &[&str]) -> Result<bool, String> {
    let arguments = Arguments::parse(rest, &["--plant", "--options"], &["--trace"])?;
    let (options, bug) = (arguments.options()?, arguments.bug()?);
    let plan = Plan { trace: true, bug, ..Plan::of(options.clone()) };
    let outcome = guarded(&plan);
    let all = arguments.has("--trace");
    let skip = if all { 0 } else { outcome.transcript.len().saturating_sub(60) };
    if all || outcome.violation.is_some() {
        for line in outcome.transcript.iter().skip(skip) {
            say(line);
        }
    }
    say(&options.to_line());
    match &outcome.violation {
        Some(violation) => say(&format!("VIOLATION of {}: {}", violation.rule, violation.text)),
        None => say("no violation"),
    }
    Ok(outcome.violation.is_none())
}

fn cmd_planted(rest: &[&str]) -> Result<bool, String> {
    let arguments = Arguments::parse(rest, &["--only", "--seeds"], &["--write"])?;
    let most = arguments.number("--seeds")?.unwrap_or(3_000);
    let bugs = Bug::named(arguments.text("--only").unwrap_or(""));
    if bugs.is_empty() {
        return Err("no planted bug has a name that begins so".into());
    }
    // Panics are how the engine's own assertions speak; each is caught and counted.
    std::panic::set_hook(Box::new(|_| {}));
    let caught = catch_all(&bugs, most);
    let mut missed = 0;
    for (bug, full, visible) in &caught {
        let alone = visible.as_ref().map_or_else(
            || "not seen by the safety oracles alone".into(),
            |catch| format!("by the safety oracles alone {} after {}", catch.violation.rule, catch.seeds),
        );
        match full {
            Some(catch) => {
                let (rule, seeds) = (catch.violation.rule, catch.seeds);
                say(&format!("caught {:<32} by {rule:<5} after {seeds:>4} seeds; {alone}", bug.name()));
                if arguments.has("--write") {
                    corpus::keep(*bug, catch)?;
                }
            }
            None => {
                missed += 1;
                say(&format!("MISSED {:<32} in {most} seeds", bug.name()));
            }
        }
    }
    say(&format!("{} planted bugs, {missed} missed", caught.len()));
    Ok(missed == 0)
}

type Caught = (Bug, Option<Catch>, Option<Catch>);

/// Catches on every core; the result is in the order of the bugs.
fn catch_all(bugs: &[Bug], most: u64) -> Vec<Caught> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut caught: Vec<(usize, Caught)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads())
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    loop {
                        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(&bug) = bugs.get(at) else { return mine };
                        let full = catch(bug, 1, most, Level::Full);
                        let visible = catch(bug, 1, most.min(300), Level::Visible);
                        mine.push((at, (bug, full, visible)));
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    caught.sort_by_key(|(at, _)| *at);
    caught.into_iter().map(|(_, caught)| caught).collect()
}

fn cmd_corpus(rest: &[&str]) -> Result<bool, String> {
    Arguments::parse(rest, &[], &[])?;
    std::panic::set_hook(Box::new(|_| {}));
    let entries = corpus::load(Path::new(corpus::FOLDER))?;
    let mut wrong = 0;
    for entry in &entries {
        match entry.check() {
            Ok(()) => say(&format!("ok     {}", entry.file)),
            Err(text) => {
                wrong += 1;
                say(&format!("FAILED {}: {text}", entry.file));
            }
        }
    }
    say(&format!("{} worlds of the corpus, {wrong} failed", entries.len()));
    Ok(wrong == 0 && !entries.is_empty())
}

fn cmd_shrink(rest: &[&str]) -> Result<bool, String> {
    let arguments = Arguments::parse(rest, &["--plant", "--options"], &[])?;
    let (options, bug) = (arguments.options()?, arguments.bug()?);
    std::panic::set_hook(Box::new(|_| {}));
    let Some((small, violation, runs)) = shrink(&options, bug) else {
        say("no violation, so there is nothing to shrink");
        return Ok(false);
    };
    print_failure(&small, bug, &violation);
    say(&format!("{runs} worlds were simulated"));
    Ok(true)
}

fn cmd_explore(rest: &[&str]) -> Result<bool, String> {
    let arguments =
        Arguments::parse(rest, &["--ticks", "--lease", "--deviations", "--commands", "--plant"], &[])?;
    let plain = Bounds::default();
    let bounds = Bounds {
        ticks: arguments.number("--ticks")?.unwrap_or(plain.ticks),
        lease: arguments.number("--lease")?.and_then(|n| u32::try_from(n).ok()).unwrap_or(plain.lease),
        deviations: arguments.number("--deviations")?.unwrap_or(plain.deviations),
        commands: arguments.number("--commands")?.unwrap_or(plain.commands),
        ..plain
    };
    let explored = explore(bounds, arguments.bug()?);
    if let Some((text, path)) = &explored.violation {
        for step in path {
            say(step);
        }
        say(&format!("VIOLATION: {text}"));
    }
    say(&format!("{} states, {} steps, depth {}", explored.states, explored.steps, explored.depth));
    Ok(explored.violation.is_none())
}
