//! Planted bugs of the client: mistakes that somebody could make here, switched on one at a time, so that the tests
//! can show that they catch them. Without the feature `planted` every one of them is the constant `false`.

#[cfg(feature = "planted")]
macro_rules! planted {
    ($shared:expr, $bug:ident) => {
        $shared.planted == Some(crate::planted::Planted::$bug)
    };
}
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($shared:expr, $bug:ident) => {
        false
    };
}
pub(crate) use planted;

/// The bugs; those with a number are numbered as in the project's list.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The clock is the wall clock.
    M06WallClock,
    /// The clock stands still during a suspend.
    M07MonotonicClock,
    /// Validity is a flag that the engine clears.
    M10WatchedFlag,
    /// Each callback runs on a task of its own.
    M34CallbacksOverlap,
    /// A stop or step-down is complete before its callback has run.
    M35FinishedBeforeRevoked,
    /// The work under a term is not reported to the engine as running.
    UncountedWork,
    /// An engine that is gone leaves its terms as they are.
    GoneStaysValid,
    /// What interrupted work returns counts as its own end.
    InterruptedCounts,
}

#[cfg(feature = "planted")]
impl Planted {
    /// Every bug that a client can be given.
    pub const ALL: &[Self] = &[
        Self::M06WallClock,
        Self::M07MonotonicClock,
        Self::M10WatchedFlag,
        Self::M34CallbacksOverlap,
        Self::M35FinishedBeforeRevoked,
        Self::UncountedWork,
        Self::GoneStaysValid,
        Self::InterruptedCounts,
    ];
}
