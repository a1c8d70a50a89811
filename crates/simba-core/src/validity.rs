//! The cell that says until when a session's terms are valid: read by any thread, written by the engine.
//!
//! # The problem
//! `is_valid` must be right on the first read after any pause, with no task having run before; and a term that
//! has once read invalid must never read valid again. The deadline moves with every keep-alive, and readers and
//! the engine run on different threads:
//!
//! ```text
//! reader: loads deadline 100, reads the clock: 101, answers "no"
//! engine: (read the clock at 99, before the reader) stores deadline 200
//! reader: loads deadline 200, reads the clock: 102, answers "yes"     <- a dead term came back
//! ```
//!
//! # Wrong answers
//! * *A flag that a watchdog clears.* It is late by as long as the watchdog is.
//! * *Compare only.* See above.
//! * *A mutex around deadline and flag.* Right, but a reader that is paused while it holds the mutex stops the
//!   engine and every other reader.
//!
//! # The idea: a latch
//! One 64-bit word holds the deadline in nanoseconds, or zero for "ended". A reader that sees the deadline passed
//! swaps that very value for zero before it answers "no". An extension is a swap too, and loses against a zero:
//! the engine then learns that the session has ended for its readers and ends it. If the reader's swap fails, the
//! word was extended or ended meanwhile, and the reader looks again; it has not answered yet.
//!
//! A reader loads the deadline *before* it reads the clock. In the other order a pause between the two would let
//! an old clock value be compared with a new deadline.
//!
//! # Limits
//! A pause after the answer cannot be seen by anyone here. That is why the resource must check the token.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

use alloc::sync::Arc;

use crate::time::Instant;

const ENDED: u64 = 0;

/// The shared word. One per session, however many terms the session has.
#[derive(Debug)]
pub struct DeadlineCell(AtomicU64);

/// The one writer of a [`DeadlineCell`]. It is consumed when the session ends, so that nothing is left that could
/// extend it.
#[derive(Debug)]
pub struct DeadlineWriter(Arc<DeadlineCell>);

/// An extension lost against the latch: the session has ended for its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latched;

impl DeadlineCell {
    /// The instant until which the session is valid, if it is valid now; `clock` is read after the deadline was
    /// loaded, and again if the deadline moved meanwhile.
    ///
    /// One atomic load and one clock read while the deadline lies ahead; no lock, no allocation.
    #[inline]
    pub fn valid_until(&self, clock: impl Fn() -> Instant) -> Option<(Instant, Instant)> {
        loop {
            let deadline = self.0.load(Ordering::Acquire);
            if deadline == ENDED {
                return None;
            }
            let now = clock();
            if now.as_nanos() < deadline {
                return Some((now, Instant::from_nanos(deadline)));
            }
            match self.0.compare_exchange(deadline, ENDED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) | Err(ENDED) => return None,
                // Extended between the load and the swap: judge the new deadline by a new reading of the clock.
                Err(_) => {}
            }
        }
    }

    /// Whether the cell has been ended, by a reader or by the writer.
    #[must_use]
    #[inline]
    pub fn is_ended(&self) -> bool {
        self.0.load(Ordering::Acquire) == ENDED
    }
}

impl DeadlineWriter {
    /// A new cell with its first deadline.
    #[must_use]
    pub fn new(deadline: Instant) -> Self {
        Self(Arc::new(DeadlineCell(AtomicU64::new(deadline.as_nanos()))))
    }

    /// The cell, for a term to read.
    #[must_use]
    pub fn cell(&self) -> Arc<DeadlineCell> {
        Arc::clone(&self.0)
    }

    /// Moves the deadline, later or earlier.
    ///
    /// # Errors
    /// [`Latched`] if a reader has seen the present deadline pass. Nothing is changed then.
    pub fn set(&mut self, to: Instant) -> Result<(), Latched> {
        let cell = &self.0.0;
        let present = cell.load(Ordering::Acquire);
        if present == ENDED {
            return Err(Latched);
        }
        // The only other writers are readers that latch, so a failed swap means ended.
        match cell.compare_exchange(present, to.as_nanos(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(_) => Err(Latched),
        }
    }

    /// Ends the session for every reader.
    pub fn end(self) {
        self.0.0.store(ENDED, Ordering::Release);
    }

    #[cfg(feature = "planted")]
    pub(crate) fn force(&self, to: Instant) {
        self.0.0.store(to.as_nanos(), Ordering::Release);
    }
}
