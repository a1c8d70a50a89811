//! Marks: which subtle branches an engine has taken. A test that means to reach one checks that it did, and the
//! simulator lists those that no seed has reached.

macro_rules! marks {
    ($($(#[$doc:meta])* $mark:ident),* $(,)?) => {
        /// A subtle branch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mark {
            $($(#[$doc])* $mark),*
        }

        impl Mark {
            /// Every mark there is.
            pub const ALL: &[Self] = &[$(Self::$mark),*];
        }
    };
}

marks! {
    /// A keep-alive reply came in the last hundredth of the time before the deadline.
    RenewedAtLastMoment,
    /// A keep-alive said "alive" after the deadline had passed.
    LateRenewalRefused,
    /// A reader had latched the deadline before the engine extended it.
    ExtensionLostToLatch,
    /// An abandoned keep-alive said that the session is over.
    LateExpiredCounted,
    /// A session was suspended and recovered.
    SuspensionRecovered,
    /// A session was suspended, and its deadline passed.
    SuspensionEnded,
    /// The time left was too short for another keep-alive.
    NoTimeForAnotherTry,
    /// The store granted less than was asked for, and the period was shortened.
    LeaseShortened,
    /// A session opened too late to be of any use.
    OpenedTooLate,
    /// A session was over before its first renewal.
    ExpiredBeforeRenewal,
    /// An open that had been given up was answered after all.
    LateOpenClosed,
    /// A win came with the reply to an attempt that had been given up.
    LateWinReleased,
    /// A late reply named the very term that is held or being given back.
    LateWinIsCurrent,
    /// A win was refused because its token had been released in this session.
    WinBelowFloor,
    /// A win was refused because its token was below one seen before.
    TokenRegressed,
    /// The store answered a token that the session owned already.
    WonAgain,
    /// A lease that nothing here explains was found in the list.
    OrphanFound,
    /// A list was not judged in full, because something was in flight.
    ListJudgedInPart,
    /// A term was taken over.
    TakenOver,
    /// A stop came while an attempt was in flight.
    StopDuringAttempt,
    /// A stop came while a step-down was handing over.
    StopDuringHandover,
    /// A stop or step-down came while the session was suspended.
    EndedWhileSuspended,
    /// The deadline as of the stop passed before the work exited.
    HandoverTimedOut,
    /// The session ended during a handover.
    SessionEndedInHandover,
    /// A step-down came while the election did not lead.
    StepDownWithoutTerm,
    /// A term was lost while its work ran on.
    Draining,
    /// The listener could not be told of a term.
    DeliveryRefused,
    /// A release was announced while an attempt was in flight.
    HintDuringAttempt,
    /// Candidates aimed at the instant at which the holder's session would run out.
    AimedAtExpiry,
    /// A candidate joined an attempt that was planned already.
    JoinedRetry,
    /// A release call failed.
    ReleaseFailed,
    /// An answer came for a call that is not known, or of another kind.
    ForeignReply,
}

/// The set of marks taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks(u64);

impl Marks {
    /// Whether this branch was taken.
    #[must_use]
    pub const fn has(self, mark: Mark) -> bool {
        self.0 & (1 << mark as u64) != 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn set(&mut self, mark: Mark) {
        self.0 |= 1 << mark as u64;
    }
}
