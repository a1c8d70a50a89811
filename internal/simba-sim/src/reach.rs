//! The "sometimes" list: what a large run must have met at least once. A net that was never where the fish are
//! proves nothing.

macro_rules! reach {
    ($($(#[$doc:meta])* $point:ident),* $(,)?) => {
        /// Something that a large run must have met.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Point {
            $($(#[$doc])* $point),*
        }

        impl Point {
            pub(crate) const ALL: &[Self] = &[$(Self::$point),*];
        }
    };
}

reach! {
    /// A keep-alive said "alive" within a hundredth of the validity after the deadline.
    ReplyJustAfterDeadline,
    /// A keep-alive brought the deadline nearer.
    ShorterPromise,
    /// Two answers brought the same token of one session.
    SameTokenTwice,
    /// A release reached the store after its name had a newer token.
    ReleaseAfterReelection,
    /// A keep-alive waited at a hanging store while its lease went to somebody else.
    TakeoverWhileKeepAliveWaits,
    /// A node slept over its deadline with an "alive" in its queue.
    SleptOverDeadlineWithReply,
    /// A node crashed between the store's commit and its own reading of the answer.
    CrashAfterCommit,
    /// A reader found the deadline passed before the engine did.
    ReaderLatched,
    /// The engine was handed an instant from before a pause.
    StaleInstant,
    /// A write of an ended term was rejected.
    ZombieRejected,
    /// A write of an ended term was accepted, because the new owner had not written yet.
    ZombieAccepted,
    /// An adopted token was not the one after the last adopted.
    TokenGap,
    /// The store carried a request out twice.
    CarriedOutTwice,
    /// A late answer came after the driver had reported a failure.
    AnswerAfterReport,
    /// A start was refused because the name was in use.
    StartRefused,
    /// An election with a cooldown that cannot be added to the clock.
    EndlessCooldown,
    /// A close ran while terms were handed over.
    CloseWithHandover,
    /// Two terms of a name were valid at once after the store's clock had stepped.
    OverlapAfterStep,
    /// ... because clocks ran too far apart.
    OverlapAfterDrift,
    /// ... because the store had lost writes.
    OverlapAfterLostWrites,
    /// ... because a record had been evicted.
    OverlapAfterEviction,
    /// ... and it lasted, for nobody told the former owner.
    OverlapStaysAfterEviction,
    /// ... because a person had changed a record.
    OverlapByHand,
    /// ... because a clock stood still.
    OverlapAfterStop,
    /// A term was adopted after one with a greater token, because clocks or records were wrong.
    AdoptedOutOfOrder,
    /// After lost writes a name stayed free until the store's tokens had climbed above those seen before.
    TokensMustClimb,
    /// A token came again after the store had lost writes.
    TokenCameAgain,
    /// In the second act a node stayed dead, cut off, deaf, mute or asleep, and the others went on.
    WentOnWithoutOne,
}

/// How often each point was met.
#[derive(Clone, Debug)]
pub(crate) struct Reach([u64; Point::ALL.len()]);

impl Default for Reach {
    fn default() -> Self {
        Self([0; Point::ALL.len()])
    }
}

impl Reach {
    pub(crate) const fn hit(&mut self, point: Point) {
        self.0[point as usize] += 1;
    }

    pub(crate) const fn get(&self, point: Point) -> u64 {
        self.0[point as usize]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
