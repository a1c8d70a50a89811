//! The kit against a right resource and against wrong ones: each mistake is caught by the case that is named for it.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use simba_backend::FencingToken;
use simba_tck::{
    failed,
    fencing::{FencedResource, Written, judge, names},
};

/// The resource, and the mistake in it.
struct Resource {
    mistake: Mistake,
    state: Mutex<(u64, Option<String>)>,
    highest: AtomicU64,
}

#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    None,
    EqualRefused,
    ReadThenWrite,
    ThroughFloat,
    LowerAccepted,
    HighestFalls,
    IdenticalRefused,
    WritesThenRefuses,
    FirstRefused,
    AsText,
    In32Bits,
}

impl FencedResource for Resource {
    fn write(&self, token: FencingToken, value: &str) -> Result<Written, String> {
        let token = token.get();
        if self.mistake == Mistake::ReadThenWrite {
            if token < self.highest.load(Ordering::SeqCst) {
                return Ok(Written::Refused);
            }
            thread::yield_now();
            self.highest.store(token, Ordering::SeqCst);
            *self.state.lock().map_err(|e| e.to_string())? = (token, Some(value.to_owned()));
            return Ok(Written::Accepted);
        }
        let mut state = self.state.lock().map_err(|e| e.to_string())?;
        let stale = match self.mistake {
            Mistake::EqualRefused => token <= state.0,
            Mistake::ThroughFloat => (token as f64) < (state.0 as f64),
            Mistake::LowerAccepted => false,
            Mistake::IdenticalRefused => token < state.0 || state.1.as_deref() == Some(value),
            Mistake::FirstRefused => state.1.is_none() && state.0 == 0,
            Mistake::AsText => token.to_string() < state.0.to_string(),
            Mistake::In32Bits => token % (1 << 32) < state.0 % (1 << 32),
            _ => token < state.0,
        };
        if stale {
            if self.mistake == Mistake::HighestFalls {
                state.0 = token;
            }
            if self.mistake == Mistake::WritesThenRefuses {
                state.1 = Some(value.to_owned());
            }
            if self.mistake == Mistake::FirstRefused {
                state.0 = 1;
            }
            return Ok(Written::Refused);
        }
        *state = (token, Some(value.to_owned()));
        Ok(Written::Accepted)
    }

    fn read(&self) -> Result<Option<String>, String> {
        Ok(self.state.lock().map_err(|e| e.to_string())?.1.clone())
    }
}

fn faults(mistake: Mistake) -> Vec<&'static str> {
    failed(&judge(|| Box::new(Resource { mistake, state: Mutex::default(), highest: AtomicU64::new(0) })))
}

#[test]
fn a_right_resource_passes() {
    assert_eq!(faults(Mistake::None), [] as [&str; 0]);
}

#[test]
fn each_mistake_is_caught_by_its_case() {
    let table = [
        (Mistake::FirstRefused, "the_first_write_is_accepted"),
        (Mistake::AsText, "a_higher_token_is_accepted"),
        (Mistake::EqualRefused, "an_equal_token_is_accepted"),
        (Mistake::IdenticalRefused, "an_equal_token_with_an_identical_value_is_accepted"),
        (Mistake::LowerAccepted, "a_lower_token_is_refused_and_changes_nothing"),
        (Mistake::WritesThenRefuses, "a_lower_token_is_refused_and_changes_nothing"),
        (Mistake::HighestFalls, "a_refusal_does_not_lower_what_is_remembered"),
        (Mistake::ThroughFloat, "large_tokens_are_kept_apart"),
        (Mistake::In32Bits, "large_tokens_are_kept_apart"),
        (Mistake::ReadThenWrite, "check_and_write_are_one_step"),
        (Mistake::ReadThenWrite, "an_accepted_write_is_never_undone"),
    ];
    for name in names() {
        assert!(table.iter().any(|(_, case)| *case == name), "no mistake in the table is for {name}");
    }
    for (mistake, case) in table {
        let found = faults(mistake);
        assert!(found.contains(&case), "{case} is not among {found:?}");
    }
}
