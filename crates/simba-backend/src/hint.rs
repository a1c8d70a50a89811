//! Hints: what a store may tell without being asked. Best effort, never needed for correctness.

use crate::LeaseName;
use alloc::sync::Arc;
use core::fmt;

/// News from a store. Losing, repeating, reordering or forging hints changes timing only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// This lease was released.
    Freed(LeaseName),
    /// News may have been missed: any lease may be free now.
    Missed,
}

/// Where a backend puts hints: it never blocks, and may be called from any thread.
#[derive(Clone)]
pub struct HintSink(Arc<dyn Fn(Hint) + Send + Sync>);

impl HintSink {
    /// A sink that hands each hint to `take`, which must not block.
    ///
    /// ```
    /// use simba_backend::{Hint, HintSink};
    ///
    /// let (tx, rx) = std::sync::mpsc::channel();
    /// let sink = HintSink::new(move |hint| { tx.send(hint).ok(); });
    /// sink.send(Hint::Missed);
    /// assert_eq!(rx.recv(), Ok(Hint::Missed));
    /// ```
    #[must_use]
    pub fn new(take: impl Fn(Hint) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// Hands a hint over.
    pub fn send(&self, hint: Hint) {
        (self.0)(hint);
    }
}

impl fmt::Debug for HintSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HintSink")
    }
}
