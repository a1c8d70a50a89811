//! Planted bugs: mistakes that somebody could make, switched on one at a time, so that each suite can show that it
//! catches them. Without the feature `planted` every one of them is the constant `false`.

#[cfg(feature = "planted")]
macro_rules! planted {
    ($engine:expr, $bug:ident) => {
        $engine.planted == Some(crate::planted::Planted::$bug)
    };
}
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($engine:expr, $bug:ident) => {
        false
    };
}
pub(crate) use planted;

/// The bugs, numbered as in the project's list.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Planted {
    M01DeadlineFromReceive,
    M02NoDrift,
    M03DriftWrongSign,
    M04NoMargin,
    M08LateRenewalExtends,
    M09OlderReplyLowersDeadline,
    M11DeadlineNeedsTraffic,
    M17AdoptAfterDeadline,
    M18AdoptAbandoned,
    M19AdoptWithFreshLease,
    M20FloorIgnoresUnadopted,
    M21NoFloor,
    M22UnadoptedNotReleased,
    M25ReleaseBeforeEnd,
    M29TakenOverByEarlierList,
    M30NeverTakenOver,
    M31DoubleRevoke,
    M32NoRevokeOnDeadline,
    M33RevokedAlthoughRefused,
    M35FinishedBeforeRevoked,
    M36ReleaseWhileWorking,
    M37WaitBeyondDeadline,
    M38NoRenewalInHandover,
    M39CooldownFromHandoverEnd,
    M40LostTermWaitsForWork,
    M41TwoAttemptsInFlight,
    M42HintAlwaysTries,
    M43BackoffUncapped,
    M44TimeoutIsLease,
    M45SuspensionRevokes,
    M46AttemptPastDeadline,
    M47ShortenedIgnored,
    M57NeverContendsAgain,
}

#[cfg(feature = "planted")]
impl Planted {
    /// Every bug that the engine can be given.
    pub const ALL: &[Self] = &[
        Self::M01DeadlineFromReceive,
        Self::M02NoDrift,
        Self::M03DriftWrongSign,
        Self::M04NoMargin,
        Self::M08LateRenewalExtends,
        Self::M09OlderReplyLowersDeadline,
        Self::M11DeadlineNeedsTraffic,
        Self::M17AdoptAfterDeadline,
        Self::M18AdoptAbandoned,
        Self::M19AdoptWithFreshLease,
        Self::M20FloorIgnoresUnadopted,
        Self::M21NoFloor,
        Self::M22UnadoptedNotReleased,
        Self::M25ReleaseBeforeEnd,
        Self::M29TakenOverByEarlierList,
        Self::M30NeverTakenOver,
        Self::M31DoubleRevoke,
        Self::M32NoRevokeOnDeadline,
        Self::M33RevokedAlthoughRefused,
        Self::M35FinishedBeforeRevoked,
        Self::M36ReleaseWhileWorking,
        Self::M37WaitBeyondDeadline,
        Self::M38NoRenewalInHandover,
        Self::M39CooldownFromHandoverEnd,
        Self::M40LostTermWaitsForWork,
        Self::M41TwoAttemptsInFlight,
        Self::M42HintAlwaysTries,
        Self::M43BackoffUncapped,
        Self::M44TimeoutIsLease,
        Self::M45SuspensionRevokes,
        Self::M46AttemptPastDeadline,
        Self::M47ShortenedIgnored,
        Self::M57NeverContendsAgain,
    ];
}
