//! The fencing kit: does your resource refuse a stale owner?
//!
//! A resource accepts a write exactly if its token is at least the highest token that it has accepted; then it
//! records the token. Check, write and record are one atomic step.
//!
//! ```
//! use simba_backend::FencingToken;
//! use simba_tck::fencing::{FencedResource, Written};
//! use std::sync::Mutex;
//!
//! #[derive(Default)]
//! struct Ledger(Mutex<(u64, String)>);
//!
//! impl FencedResource for Ledger {
//!     fn write(&self, token: FencingToken, value: &str) -> Result<Written, String> {
//!         let mut state = self.0.lock().map_err(|e| e.to_string())?;
//!         if token.get() < state.0 {
//!             return Ok(Written::Refused);
//!         }
//!         *state = (token.get(), value.to_owned());
//!         Ok(Written::Accepted)
//!     }
//!     fn read(&self) -> Result<Option<String>, String> {
//!         let state = self.0.lock().map_err(|e| e.to_string())?;
//!         Ok((state.0 > 0).then(|| state.1.clone()))
//!     }
//! }
//!
//! let judged = simba_tck::fencing::judge(|| Box::new(Ledger::default()));
//! assert!(simba_tck::failed(&judged).is_empty());
//! ```

use std::{
    process::ExitCode,
    sync::{Arc, Barrier},
    thread,
};

use simba_backend::FencingToken;

use crate::{Judged, Verdict, conclude, ensure};

/// What a resource did with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The value is the new one.
    Accepted,
    /// A higher token has written before; nothing was changed.
    Refused,
}

/// A resource, or one connection to it. Called from several threads at once.
pub trait FencedResource: Send + Sync {
    /// Writes a value under a token.
    ///
    /// # Errors
    /// If the resource failed, which is neither of the two answers.
    fn write(&self, token: FencingToken, value: &str) -> Result<Written, String>;

    /// The present value; `None` before the first write.
    ///
    /// # Errors
    /// If the resource failed.
    fn read(&self) -> Result<Option<String>, String>;
}

type Resource = Arc<dyn FencedResource>;

struct Case {
    name: &'static str,
    body: fn(Resource) -> Verdict,
}

const CASES: &[Case] = &[
    Case { name: "the_first_write_is_accepted", body: the_first_write_is_accepted },
    Case { name: "a_higher_token_is_accepted", body: a_higher_token_is_accepted },
    Case { name: "an_equal_token_is_accepted", body: an_equal_token_is_accepted },
    Case {
        name: "an_equal_token_with_an_identical_value_is_accepted",
        body: an_equal_token_with_an_identical_value_is_accepted,
    },
    Case {
        name: "a_lower_token_is_refused_and_changes_nothing",
        body: a_lower_token_is_refused_and_changes_nothing,
    },
    Case {
        name: "a_refusal_does_not_lower_what_is_remembered",
        body: a_refusal_does_not_lower_what_is_remembered,
    },
    Case { name: "large_tokens_are_kept_apart", body: large_tokens_are_kept_apart },
    Case { name: "check_and_write_are_one_step", body: check_and_write_are_one_step },
    Case { name: "an_accepted_write_is_never_undone", body: an_accepted_write_is_never_undone },
];

/// The names of all cases, in their order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    CASES.iter().map(|case| case.name).collect()
}

/// Runs every case, as the `main` of a test with `harness = false`. Each case gets a fresh resource.
pub fn run(make: impl Fn() -> Box<dyn FencedResource> + Clone + Send + 'static) -> ExitCode {
    let trial = |case: &'static Case| {
        let make = make.clone();
        libtest_mimic::Trial::test(case.name, move || (case.body)(make().into()).map_err(Into::into))
    };
    conclude(CASES.iter().map(trial).collect())
}

/// Runs every case, and answers what each found.
pub fn judge(make: impl Fn() -> Box<dyn FencedResource>) -> Vec<Judged> {
    CASES.iter().map(|case| Judged { name: case.name, verdict: (case.body)(make().into()) }).collect()
}

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).unwrap_or(FencingToken::FIRST)
}

fn accepted(resource: &Resource, value: u64, text: &str) -> Verdict {
    let written = resource.write(token(value), text)?;
    ensure!(written == Written::Accepted, "token {value} was refused");
    let present = resource.read()?;
    ensure!(
        present.as_deref() == Some(text),
        "token {value} was accepted, and the value is {present:?}, not {text:?}"
    );
    Ok(())
}

fn refused(resource: &Resource, value: u64) -> Verdict {
    let before = resource.read()?;
    let written = resource.write(token(value), "stale")?;
    ensure!(written == Written::Refused, "token {value} was accepted after a higher one");
    let after = resource.read()?;
    ensure!(before == after, "token {value} was refused, and the value changed from {before:?} to {after:?}");
    Ok(())
}

fn the_first_write_is_accepted(resource: Resource) -> Verdict {
    ensure!(resource.read()?.is_none(), "a fresh resource has a value already");
    accepted(&resource, 7, "first")
}

fn a_higher_token_is_accepted(resource: Resource) -> Verdict {
    accepted(&resource, 7, "seven")?;
    accepted(&resource, 8, "eight")?;
    accepted(&resource, 1_000, "thousand")
}

fn an_equal_token_is_accepted(resource: Resource) -> Verdict {
    accepted(&resource, 7, "one")?;
    accepted(&resource, 7, "two")
}

/// A retry after a lost answer: some databases count a row that did not change as not matched.
fn an_equal_token_with_an_identical_value_is_accepted(resource: Resource) -> Verdict {
    accepted(&resource, 7, "same")?;
    accepted(&resource, 7, "same")
}

fn a_lower_token_is_refused_and_changes_nothing(resource: Resource) -> Verdict {
    accepted(&resource, 8, "eight")?;
    refused(&resource, 7)?;
    refused(&resource, 1)
}

fn a_refusal_does_not_lower_what_is_remembered(resource: Resource) -> Verdict {
    accepted(&resource, 9, "nine")?;
    refused(&resource, 3)?;
    refused(&resource, 5)?;
    refused(&resource, 8)?;
    accepted(&resource, 9, "nine again")
}

/// Above 2^53 a floating point number rounds, and near 2^63 a signed column ends.
fn large_tokens_are_kept_apart(resource: Resource) -> Verdict {
    let mut last = 0;
    for value in [(1u64 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 62) + 1, (1 << 63) - 2, (1 << 63) - 1] {
        accepted(&resource, value, &value.to_string())?;
        if last > 0 {
            refused(&resource, last)?;
        }
        last = value;
    }
    Ok(())
}

/// Eight writers at once, each with its own token, many rounds: the highest must win, whatever the order. A resource
/// that reads the highest token first and writes after lets a lower one land last.
fn check_and_write_are_one_step(resource: Resource) -> Verdict {
    const WRITERS: u64 = 8;
    const ROUNDS: u64 = 200;
    for round in 0..ROUNDS {
        let barrier = Arc::new(Barrier::new(usize::try_from(WRITERS).unwrap_or(8)));
        let writers: Vec<_> = (1..=WRITERS)
            .map(|n| {
                let (resource, barrier) = (Arc::clone(&resource), Arc::clone(&barrier));
                thread::spawn(move || {
                    let value = round * WRITERS + n;
                    barrier.wait();
                    resource.write(token(value), &value.to_string())
                })
            })
            .collect();
        let mut highest_accepted = false;
        for (n, writer) in writers.into_iter().enumerate() {
            let written = writer.join().map_err(|_| "a writer panicked".to_owned())??;
            if n as u64 + 1 == WRITERS {
                highest_accepted = written == Written::Accepted;
            }
        }
        ensure!(highest_accepted, "round {round}: the highest token was refused");
        let (present, expected) = (resource.read()?, ((round + 1) * WRITERS).to_string());
        ensure!(
            present.as_deref() == Some(expected.as_str()),
            "round {round}: a lower token landed after a higher one: the value is {present:?}, not {expected:?}"
        );
    }
    Ok(())
}

/// Eight writers that go on, their rising tokens between each other's. Each value is its token, so that every look
/// tells whose write it sees: none may be of a lower token than one that was accepted before.
fn an_accepted_write_is_never_undone(resource: Resource) -> Verdict {
    const WRITERS: u64 = 8;
    const TURNS: u64 = 200;
    let barrier = Arc::new(Barrier::new(usize::try_from(WRITERS).unwrap_or(8)));
    let writers: Vec<_> = (1..=WRITERS)
        .map(|n| {
            let (resource, barrier) = (Arc::clone(&resource), Arc::clone(&barrier));
            thread::spawn(move || {
                barrier.wait();
                (0..TURNS).try_fold(0, |seen, turn| write_and_look(&resource, turn * WRITERS + n, seen))
            })
        })
        .collect();
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked".to_owned())??;
    }
    let highest = TURNS * WRITERS;
    let present = number(&resource)?;
    ensure!(present == highest, "all are done, and the value is that of token {present}, not of {highest}");
    refused(&resource, highest - 1)
}

fn write_and_look(resource: &Resource, mine: u64, seen: u64) -> Result<u64, String> {
    let written = resource.write(token(mine), &mine.to_string())?;
    let after = number(resource)?;
    match written {
        Written::Accepted => {
            ensure!(after >= mine, "token {mine} was accepted, and then the value is that of token {after}");
        }
        Written::Refused => {
            ensure!(
                after > mine,
                "token {mine} was refused, and the value is that of the lower token {after}"
            );
        }
    }
    ensure!(after >= seen, "the value went back from that of token {seen} to that of token {after}");
    Ok(after)
}

fn number(resource: &Resource) -> Result<u64, String> {
    let text = resource.read()?.unwrap_or_default();
    text.parse().map_err(|_| format!("the value is {text:?}, which nobody has written"))
}
