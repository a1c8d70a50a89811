//! Planted bugs of a store; see the module of the same name in `simba-core`.

#[cfg(feature = "planted")]
macro_rules! planted {
    ($store:expr, $bug:ident) => {
        $store.planted == Some(crate::planted::Planted::$bug)
    };
}
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($store:expr, $bug:ident) => {
        false
    };
}
pub(crate) use planted;

/// The bugs, numbered as in the project's list.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Planted {
    M05RemainingRoundedUp,
    M12RenewsExpired,
    M15SessionIdReused,
    M16ExpiredAcquires,
    M23ReleaseWithoutToken,
    M24ReleaseWithoutSession,
    M26TokenNotBumped,
    M27TokenReset,
    M28TokenBumpedOnRepeat,
    M55NamesFolded,
    ForeignChangeUnseen,
    CloseFreesNothing,
    HolderNotTold,
    ForcedWithoutToken,
    ForcedTokenNotRaised,
    EvictsNobody,
}

#[cfg(feature = "planted")]
impl Planted {
    /// Every bug that the store can be given.
    pub const ALL: &[Self] = &[
        Self::M05RemainingRoundedUp,
        Self::M12RenewsExpired,
        Self::M15SessionIdReused,
        Self::M16ExpiredAcquires,
        Self::M23ReleaseWithoutToken,
        Self::M24ReleaseWithoutSession,
        Self::M26TokenNotBumped,
        Self::M27TokenReset,
        Self::M28TokenBumpedOnRepeat,
        Self::M55NamesFolded,
        Self::ForeignChangeUnseen,
        Self::CloseFreesNothing,
        Self::HolderNotTold,
        Self::ForcedWithoutToken,
        Self::ForcedTokenNotRaised,
        Self::EvictsNobody,
    ];
}
