//! Steps: each is run, timed, and its own closing lines are counted.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, ExitCode, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// Prints a line. Whoever read it may have gone, which is no fault of a check.
macro_rules! say {
    ($($text:tt)*) => {
        drop(writeln!(std::io::stdout(), $($text)*))
    };
}

/// A call of the cargo that runs this.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// What was run, and what came of it.
#[derive(Default)]
pub(crate) struct Report {
    steps: Vec<Step>,
    left_out: Vec<String>,
}

struct Step {
    name: &'static str,
    ok: bool,
    took: Duration,
    counted: Counted,
}

/// Tests as their runners counted them, in their own closing lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counted {
    /// Takes a line in, if it is a runner's closing line: `test result: ok. 3 passed; 0 failed; 0 ignored; ..`.
    pub(crate) fn take(&mut self, line: &str) {
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else { return };
        let number = |word: &str| {
            rest.split(['.', ';'])
                .map(str::trim)
                .find_map(|part| part.strip_suffix(word)?.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        self.passed += number("passed");
        self.failed += number("failed");
        self.ignored += number("ignored");
    }
}

#[expect(clippy::disallowed_methods, reason = "tells how long a step took, and nothing depends on it")]
fn clock() -> Instant {
    Instant::now()
}

impl Report {
    /// Runs a command, showing what it prints.
    pub(crate) fn run(&mut self, name: &'static str, mut command: Command) {
        say!("\n==== {name}");
        let start = clock();
        let counted = Arc::new(Mutex::new(Counted::default()));
        let ok = match command.stdout(Stdio::piped()).spawn() {
            Ok(mut child) => {
                let reader = child.stdout.take().map(|out| {
                    let counted = Arc::clone(&counted);
                    thread::spawn(move || show(BufReader::new(out), &counted))
                });
                let status = child.wait();
                if let Some(reader) = reader
                    && reader.join().is_err()
                {
                    say!("xtask: the output of {name} could not be read to its end");
                }
                status.is_ok_and(|status| status.success())
            }
            Err(error) => {
                say!("xtask: {name} cannot be started: {error}");
                false
            }
        };
        let counted = *counted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.steps.push(Step { name, ok, took: start.elapsed(), counted });
    }

    /// Runs a check of this program.
    pub(crate) fn check(&mut self, name: &'static str, check: impl FnOnce() -> Vec<String>) {
        say!("\n==== {name}");
        let start = clock();
        let faults = check();
        faults.iter().for_each(|fault| say!("{fault}"));
        let ok = faults.is_empty();
        self.steps.push(Step { name, ok, took: start.elapsed(), counted: Counted::default() });
    }

    /// Names what is not run, and why.
    pub(crate) fn leave_out(&mut self, what: String) {
        self.left_out.push(what);
    }

    /// Prints the summary. A step counts as one, besides the tests that it ran.
    pub(crate) fn close(self) -> ExitCode {
        say!("\n==== summary");
        let (mut passed, mut failed) = (0, 0);
        for Step { name, ok, took, counted } in &self.steps {
            let word = if *ok { "ok" } else { "FAILED" };
            let tests = counted.passed + counted.failed;
            let tests = if tests == 0 { String::new() } else { format!("  {tests} tests") };
            say!("{word:6}  {name:14} {:6.1}s{tests}", took.as_secs_f64());
            if counted.ignored > 0 {
                say!("        {} tests of it are marked as ignored, which none may be", counted.ignored);
            }
            let whole = *ok && counted.failed == 0 && counted.ignored == 0;
            passed += counted.passed + u64::from(whole);
            failed += counted.failed + u64::from(!whole);
        }
        for what in &self.left_out {
            say!("not run: {what}");
        }
        say!("{passed} passed, {failed} failed");
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn show(reader: impl BufRead, counted: &Mutex<Counted>) {
    for line in reader.lines().map_while(Result::ok) {
        counted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take(&line);
        say!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_counted() {
        let mut counted = Counted::default();
        counted.take(
            "test result: ok. 88 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.06s",
        );
        counted.take("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured");
        counted.take("test sessions::a ... ok");
        assert_eq!(counted, Counted { passed: 91, failed: 2, ignored: 1 });
    }
}
