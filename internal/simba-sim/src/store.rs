//! The store as the nodes meet it: the reference store, a clock with a unit and steps, and what can be wrong with
//! it for a while.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use simba_backend::{KeepAlive, LeaseName, NodeLabel, Opened, Owner, SessionId};
use simba_core::{Reply, Request};
use simba_memory::Store;

use crate::{invariant::store::StoreModel, rng::Rng, swarm::Options};

/// How many old copies are kept for a store that loses writes.
const COPIES: usize = 24;

/// The state of the store's health; each is a count of reasons, or an instant until which it lasts.
#[derive(Debug, Default)]
pub(crate) struct Mood {
    pub(crate) refuses: u32,
    pub(crate) hangs_until: u64,
    pub(crate) fails_cleanly: u32,
    pub(crate) fails_unknown: u32,
    pub(crate) slow: u32,
}

#[derive(Debug)]
pub(crate) struct SimStore {
    pub(crate) store: Store,
    /// The plain model beside it.
    pub(crate) model: StoreModel,
    pub(crate) mood: Mood,
    copies: VecDeque<(Store, StoreModel)>,
    keeps_copies: bool,
    /// What the clock shows at true time zero.
    offset: u64,
    granularity: u64,
    cap: Option<Duration>,
    /// Keep-alives of a thousand that are told less than the truth, as the contract allows.
    pub(crate) humble: u64,
    ids: Rng,
    owner: Arc<Owner>,
}

impl SimStore {
    pub(crate) fn new(options: &Options, names: &[LeaseName], ids: Rng) -> Self {
        let owner = Owner {
            node: NodeLabel::sanitized("sim"),
            host: NodeLabel::sanitized("sim"),
            pid: 1,
            version: "0".into(),
        };
        Self {
            store: Store::default(),
            model: StoreModel::new(names, options.granularity),
            mood: Mood::default(),
            copies: VecDeque::new(),
            keeps_copies: options.regime() == crate::Regime::LostWrites,
            offset: 1 << 50,
            granularity: options.granularity,
            cap: (options.cap_ms > 0).then(|| Duration::from_millis(options.cap_ms)),
            humble: options.humble,
            ids,
            owner: Arc::new(owner),
        }
    }

    /// The clock, exactly, and as the store reads it.
    pub(crate) const fn now(&self, at: u64) -> (u64, u64) {
        let exact = self.offset + at;
        (exact, exact - exact % self.granularity)
    }

    pub(crate) fn step_clock(&mut self, forward: bool, by: u64) {
        self.offset = if forward { self.offset + by } else { self.offset.saturating_sub(by) };
    }

    /// Carries a request out, and answers what the store says.
    pub(crate) fn carry_out(&mut self, at: u64, request: &Request) -> Reply {
        if self.keeps_copies {
            if self.copies.len() == COPIES {
                self.copies.pop_front();
            }
            self.copies.push_back((self.store.clone(), self.model.clone()));
        }
        let (_, now) = self.now(at);
        // The unit of the clock makes a lease up to one unit shorter than it looks: the store rounds down.
        let lost = Duration::from_nanos(self.granularity - 1);
        match request {
            Request::Open { lease } => {
                let granted = self.cap.map_or(*lease, |cap| cap.min(*lease));
                let id = SessionId::new(u128::from(self.ids.next()) << 64 | u128::from(self.ids.next()));
                let opened = self.store.open(now, id, granted, Arc::clone(&self.owner));
                Reply::Opened(Opened { remaining: opened.remaining.saturating_sub(lost), ..opened })
            }
            Request::KeepAlive { session, known } => {
                Reply::KeepAlive(match self.store.keep_alive(now, *session, *known) {
                    KeepAlive::Alive { remaining, owned } => {
                        let truth = remaining.saturating_sub(lost);
                        let less = if self.ids.chance(self.humble) { self.ids.below(900) } else { 0 };
                        let less = truth / 1_000 * u32::try_from(less).unwrap_or(0);
                        KeepAlive::Alive { remaining: truth.saturating_sub(less), owned }
                    }
                    KeepAlive::Expired => KeepAlive::Expired,
                })
            }
            Request::Acquire { session, names } => Reply::Acquired(self.store.acquire(now, *session, names)),
            Request::Release(release) => {
                Reply::Released(self.store.release(now, release.session(), release.grants()))
            }
            Request::Close { session } => {
                self.store.close(*session);
                Reply::Closed
            }
        }
    }

    /// An old copy takes over: the last writes are lost.
    pub(crate) fn lose_writes(&mut self, rng: &mut Rng) -> bool {
        if self.copies.is_empty() {
            return false;
        }
        let keep = rng.index(self.copies.len()) + 1;
        self.copies.truncate(keep);
        if let Some((store, model)) = self.copies.pop_back() {
            self.store = store;
            self.model = model;
        }
        true
    }
}
