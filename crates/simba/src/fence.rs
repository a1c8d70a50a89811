//! A fenced resource within one process: the check and the write under one lock.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use simba_backend::FencingToken;

/// Some state that takes a write only with the highest token that it has seen, or a higher one.
///
/// Equal tokens are accepted, since retries within a term carry the same one. For state that others share, a check
/// in the state's own store is needed; `sqlite::fence` does it for a row.
///
/// ```
/// use simba::{FencedCell, FencingToken};
///
/// let ledger = FencedCell::new(Vec::new());
/// let (seven, eight) = (FencingToken::new(7).unwrap(), FencingToken::new(8).unwrap());
///
/// ledger.write(eight, |entries| entries.push("by the new owner"))?;
/// let stale = ledger.write(seven, |entries| entries.push("by the old one")).unwrap_err();
/// assert_eq!(stale.highest, eight);
/// assert_eq!(ledger.read(|entries| entries.len()), 1);
/// # Ok::<(), simba::Stale>(())
/// ```
#[derive(Default)]
pub struct FencedCell<T>(Mutex<Fenced<T>>);

#[derive(Default)]
struct Fenced<T> {
    highest: Option<FencingToken>,
    state: T,
}

/// A write was refused: a higher token has written before. The term of the one in hand is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the write with token {given} is refused: token {highest} has written since; this term is over, stop"
)]
pub struct Stale {
    /// The token in hand.
    pub given: FencingToken,
    /// The highest that has written.
    pub highest: FencingToken,
}

impl<T> FencedCell<T> {
    /// State that nobody has written yet.
    pub const fn new(state: T) -> Self {
        Self(Mutex::new(Fenced { highest: None, state }))
    }

    /// Lets `change` write, if no higher token has written before; the token is recorded with it.
    ///
    /// Other readers and writers wait while `change` runs. If it panics, the token stays recorded, and the state is
    /// as the panic left it.
    ///
    /// # Errors
    /// [`Stale`]; `change` is not called then.
    pub fn write<R>(&self, token: FencingToken, change: impl FnOnce(&mut T) -> R) -> Result<R, Stale> {
        let mut fenced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(highest) = fenced.highest.filter(|&highest| token < highest) {
            return Err(Stale { given: token, highest });
        }
        fenced.highest = Some(token);
        Ok(change(&mut fenced.state))
    }

    /// Looks at the state.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner).state)
    }

    /// The highest token that has written.
    pub fn highest(&self) -> Option<FencingToken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).highest
    }
}

impl<T> fmt::Debug for FencedCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencedCell({:?})", self.highest())
    }
}
