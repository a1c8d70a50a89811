//! Planted bugs of the guard, chosen by the variable `SIMBA_PLANTED`: each must be caught by the tests of the guard.
//! Without the feature `planted` every one of them is the constant `false`.

/// Mistakes that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// The guard waits for the keeper's word instead of looking at the deadline.
    DeadlineForgotten,
    /// The guard does not act when the keeper is gone.
    KeeperOutlived,
    /// Only the command's group is ended, not what has left it.
    GroupOnly,
}

impl Planted {
    /// Whether this bug is in.
    #[cfg(feature = "planted")]
    pub(crate) fn is_in(self) -> bool {
        std::env::var("SIMBA_PLANTED").is_ok_and(|name| name == format!("{self:?}"))
    }

    /// Whether this bug is in.
    #[cfg(not(feature = "planted"))]
    pub(crate) const fn is_in(self) -> bool {
        // Named, so that no variant is unused.
        match self {
            Self::DeadlineForgotten | Self::KeeperOutlived | Self::GroupOnly => false,
        }
    }
}
