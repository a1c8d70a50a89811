//! The checker of what nodes did: the same for the demo and for the tests.
//!
//! Every process of a host reads the same boot-time clock, so the records of several processes can be laid beside
//! each other. A term's *certain* interval runs from the record of its beginning to the start of the last read that
//! found it valid: validity never comes back, so the term was valid all that time, however the process was paused.
//! Two certain intervals of one lease that overlap are two owners, without a doubt.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What a node records, a line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Boot-time clock, in nanoseconds.
    pub at_ns: u64,
    /// The process.
    pub pid: u32,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened in a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// Its session is live.
    Ready,
    /// Its attempt was refused: somebody else leads.
    Candidate,
    /// A term began.
    Elected {
        /// Its token.
        token: u64,
    },
    /// A read, begun at `at_ns`, found the term valid.
    Valid {
        /// Its token.
        token: u64,
    },
    /// The first read after a gap found the term invalid.
    Invalid {
        /// Its token.
        token: u64,
        /// How long ago its deadline had passed, as known before the gap.
        late_ms: u64,
    },
    /// The listener was told of the end.
    Revoked {
        /// Its token.
        token: u64,
        /// Why.
        reason: String,
    },
    /// The fenced resource took a write.
    Wrote {
        /// The token that it carried.
        token: u64,
        /// The batch that was written.
        batch: u64,
    },
    /// The fenced resource refused a write.
    Rejected {
        /// The token that it carried.
        token: u64,
        /// The highest that the resource has seen.
        highest: u64,
    },
    /// The node has stopped cleanly.
    Stopped,
    /// The node was killed; recorded by whoever did it.
    Killed,
    /// The node was asked to stop cleanly; recorded by whoever did it.
    AskedToStop,
}

/// What the checker found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How many terms there were.
    pub terms: usize,
    /// The tokens, in the order in which their terms began.
    pub tokens: Vec<u64>,
    /// Writes with a stale token that the resource refused.
    pub stale_writes_refused: usize,
    /// Writes that the resource took.
    pub writes: usize,
    /// For each clean stop of a leader, the milliseconds until the next term began.
    pub handover_ms: Vec<u64>,
    /// Everything that must not be.
    pub faults: Vec<String>,
}

impl Verdict {
    /// Whether nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }
}

struct TermSpan {
    pid: u32,
    from: u64,
    valid_until: u64,
    ended: Option<u64>,
    reason: Option<String>,
}

/// Judges the records of one lease, in any order.
#[must_use]
pub fn judge(records: &[Record]) -> Verdict {
    let mut records = records.to_vec();
    records.sort_by_key(|record| record.at_ns);
    let mut verdict = Verdict::default();
    let terms = spans(&records, &mut verdict);
    check_overlap(&terms, &mut verdict);
    check_writes(&records, &mut verdict);
    let killed: BTreeSet<u32> = records.iter().filter(|r| r.what == What::Killed).map(|r| r.pid).collect();
    for (token, term) in &terms {
        if term.ended.is_none() && !killed.contains(&term.pid) {
            verdict.faults.push(format!("token {token} was elected and never revoked"));
        }
    }
    verdict.handover_ms = handovers(&terms);
    verdict
}

fn spans(records: &[Record], verdict: &mut Verdict) -> BTreeMap<u64, TermSpan> {
    let mut terms: BTreeMap<u64, TermSpan> = BTreeMap::new();
    for record in records {
        match &record.what {
            What::Elected { token } => {
                if verdict.tokens.last().is_some_and(|last| last >= token) {
                    verdict
                        .faults
                        .push(format!("token {token} came after token {:?}", verdict.tokens.last()));
                }
                verdict.tokens.push(*token);
                let (pid, at) = (record.pid, record.at_ns);
                let span = TermSpan { pid, from: at, valid_until: at, ended: None, reason: None };
                if terms.insert(*token, span).is_some() {
                    verdict.faults.push(format!("token {token} was given out twice"));
                }
            }
            What::Valid { token } => match terms.get_mut(token) {
                Some(term) if term.pid == record.pid && term.ended.is_none() => {
                    term.valid_until = record.at_ns
                }
                Some(_) => {
                    verdict.faults.push(format!("token {token} read valid after its end or elsewhere"))
                }
                None => verdict.faults.push(format!("token {token} read valid before it was elected")),
            },
            What::Revoked { token, reason } => match terms.get_mut(token) {
                Some(term) if term.pid == record.pid && term.ended.is_none() => {
                    term.ended = Some(record.at_ns);
                    term.reason = Some(reason.clone());
                }
                Some(_) => verdict.faults.push(format!("token {token} was revoked twice or elsewhere")),
                None => verdict.faults.push(format!("token {token} was revoked before it was elected")),
            },
            What::Ready
            | What::Candidate
            | What::Invalid { .. }
            | What::Wrote { .. }
            | What::Rejected { .. } => {}
            What::Stopped | What::Killed | What::AskedToStop => {}
        }
    }
    verdict.terms = terms.len();
    terms
}

fn check_overlap(terms: &BTreeMap<u64, TermSpan>, verdict: &mut Verdict) {
    let mut spans: Vec<_> = terms.iter().collect();
    spans.sort_by_key(|(_, term)| term.from);
    for pair in spans.windows(2) {
        let ((one, first), (other, second)) = (pair[0], pair[1]);
        if second.from <= first.valid_until {
            let micros = (first.valid_until - second.from) / 1_000;
            verdict.faults.push(format!("tokens {one} and {other} were valid together for {micros} us"));
        }
    }
}

fn check_writes(records: &[Record], verdict: &mut Verdict) {
    let mut highest = 0;
    for record in records {
        match record.what {
            What::Wrote { token, .. } => {
                verdict.writes += 1;
                if token < highest {
                    verdict.faults.push(format!("the resource took token {token} after token {highest}"));
                }
                highest = highest.max(token);
            }
            What::Rejected { token, highest } => {
                if token < highest {
                    verdict.stale_writes_refused += 1;
                } else {
                    verdict.faults.push(format!(
                        "the resource refused token {token} although {highest} was its highest"
                    ));
                }
            }
            _ => {}
        }
    }
}

/// From the end of each term that was stopped to the beginning of the next.
fn handovers(terms: &BTreeMap<u64, TermSpan>) -> Vec<u64> {
    let mut spans: Vec<_> = terms.values().collect();
    spans.sort_by_key(|term| term.from);
    let stopped = |term: &TermSpan| term.reason.as_deref() == Some("stopped");
    spans
        .windows(2)
        .filter(|pair| stopped(pair[0]))
        .filter_map(|pair| Some(pair[1].from.saturating_sub(pair[0].ended?) / 1_000_000))
        .collect()
}

/// The middle value; `None` for nothing.
#[must_use]
pub fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64, pid: u32, what: What) -> Record {
        Record { at_ns: ms * 1_000_000, pid, what }
    }

    fn elected(token: u64) -> What {
        What::Elected { token }
    }

    fn valid(token: u64) -> What {
        What::Valid { token }
    }

    fn revoked(token: u64, reason: &str) -> What {
        What::Revoked { token, reason: reason.into() }
    }

    fn good() -> Vec<Record> {
        vec![
            at(0, 1, elected(1)),
            at(10, 1, valid(1)),
            at(20, 1, What::Wrote { token: 1, batch: 1 }),
            at(100, 2, elected(2)),
            at(110, 2, What::Wrote { token: 2, batch: 2 }),
            at(120, 1, What::Rejected { token: 1, highest: 2 }),
            at(121, 1, revoked(1, "deadline_passed")),
            at(200, 2, revoked(2, "stopped")),
            at(204, 3, elected(3)),
            at(300, 3, What::Killed),
        ]
    }

    #[test]
    fn a_clean_history_is_clean() {
        let verdict = judge(&good());
        assert_eq!(verdict.faults, [] as [&str; 0]);
        assert_eq!((verdict.terms, verdict.stale_writes_refused, verdict.writes), (3, 1, 2));
        assert_eq!(verdict.handover_ms, [4]);
    }

    /// A check that cannot fail is a defect: each kind of fault, planted into the clean history, is found.
    #[test]
    fn each_planted_fault_is_found() {
        let plant = |record: Record| {
            let mut records = good();
            records.push(record);
            judge(&records).faults.join("; ")
        };
        assert!(plant(at(101, 1, valid(1))).contains("valid together"));
        assert!(plant(at(250, 2, valid(2))).contains("after its end"));
        assert!(plant(at(250, 1, elected(2))).contains("given out twice"));
        assert!(plant(at(50, 4, elected(9))).contains("came after"));
        assert!(plant(at(250, 4, elected(9))).contains("never revoked"));
        assert!(plant(at(250, 2, revoked(2, "stopped"))).contains("revoked twice"));
        assert!(plant(at(250, 1, What::Wrote { token: 1, batch: 9 })).contains("took token 1 after"));
        assert!(plant(at(250, 2, What::Rejected { token: 2, highest: 2 })).contains("although"));
        assert!(plant(at(0, 5, revoked(7, "stopped"))).contains("before it was elected"));
        let unkilled: Vec<_> = good().into_iter().filter(|r| r.what != What::Killed).collect();
        assert!(judge(&unkilled).faults.join("").contains("never revoked"));
    }
}
