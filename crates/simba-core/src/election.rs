//! Elections: one per name and client, kept in a table that stays cheap with a million of them.
//!
//! A lease has one phase, and what belongs to a phase lives only in it. Wake-ups are not stored beside the phases:
//! each phase that waits for a time says so itself ([`Phase::wakes_at`]), and the table keeps an ordered index of
//! those answers, which [`Engine::check`](crate::Engine::check) compares with the plain fold.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::ToString,
    vec::Vec,
};
use core::fmt;
use simba_backend::{FencingToken, LeaseName};

use crate::{
    call::CallId,
    output::Ticket,
    term::{EndedTerm, Held},
    time::Instant,
};

/// Which election of a client. Never reused within a client's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElectionId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// How an election is to be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartOptions {
    /// Work runs under each term: it counts as running from [`Output::Elected`](crate::Output::Elected) until
    /// [`Engine::handle_work_exited`](crate::Engine::handle_work_exited), and a voluntary end waits for it.
    pub work: bool,
}

/// Why an election cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The name is already in use on this client.
    AlreadyStarted(LeaseName),
    /// The client is closed or closing.
    Closed,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyStarted(name) => write!(
                f,
                "\"{name}\" is already started on this client; stop it and await the stop first, or use another name"
            ),
            Self::Closed => write!(f, "this client is closed; build a new one"),
        }
    }
}

impl core::error::Error for StartError {}

/// What one election is doing.
pub(crate) enum Phase {
    /// Wants the lease, and there is no session to ask with.
    Parked,
    /// Tries at this instant.
    Waiting { at: Instant },
    /// An attempt is under way. `hinted`: a release was announced meanwhile, so a refusal is already stale.
    Attempting { call: CallId, hinted: bool },
    /// Holds a term.
    Holding(Held),
    /// The term has ended by the node's own wish; see [`crate::handover`].
    HandingOver(Box<Handover>),
    /// The term was lost while its work ran on; contends again once that has exited.
    Draining(Box<Draining>),
    /// Stepped down.
    CoolingDown { until: Instant },
}

/// A lease on its way back.
pub(crate) struct Handover {
    pub(crate) ended: EndedTerm,
    pub(crate) stage: Stage,
    pub(crate) then: After,
    /// Who waits for the end of it.
    pub(crate) tickets: Vec<Ticket>,
}

/// How far a handover has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its work still runs; waited for until this instant, the deadline as it was at the stop.
    Working { until: Instant },
    /// The release goes out with the next batch.
    Queued,
    /// The release is under way.
    Releasing(CallId),
}

/// What follows a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The election is over.
    Remove,
    /// It contends again, not before this instant.
    CoolDown(Instant),
}

/// Work of a lost term that has not exited.
#[derive(Debug)]
pub(crate) struct Draining {
    /// The lost term.
    pub(crate) serial: u64,
    /// Not before this instant either.
    pub(crate) until: Instant,
}

impl Phase {
    /// When this phase must be looked at again, if it waits for a time.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        match self {
            Self::Waiting { at } => Some(*at),
            Self::CoolingDown { until } => Some(*until),
            Self::HandingOver(handover) => match handover.stage {
                Stage::Working { until } => Some(until),
                Stage::Queued | Stage::Releasing(_) => None,
            },
            Self::Parked | Self::Attempting { .. } | Self::Holding(_) | Self::Draining(_) => None,
        }
    }

    /// The term that is held or being given back, and its token.
    pub(crate) fn owned(&self) -> Option<(u64, FencingToken)> {
        match self {
            Self::Holding(held) => Some((held.id().serial, held.token())),
            Self::HandingOver(handover) => Some((handover.ended.id.serial, handover.ended.token)),
            Self::Parked | Self::Waiting { .. } | Self::Attempting { .. } => None,
            Self::Draining(_) | Self::CoolingDown { .. } => None,
        }
    }
}

impl fmt::Debug for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parked => write!(f, "Parked"),
            Self::Waiting { at } => write!(f, "Waiting({at:?})"),
            Self::Attempting { call, hinted } => write!(f, "Attempting({}, {hinted})", call.0),
            Self::Holding(held) => write!(f, "Holding({:?} {:?})", held.id(), held.token()),
            Self::HandingOver(h) => {
                write!(f, "HandingOver({:?} {:?} {:?} {})", h.ended, h.stage, h.then, h.tickets.len())
            }
            Self::Draining(draining) => write!(f, "{draining:?}"),
            Self::CoolingDown { until } => write!(f, "CoolingDown({until:?})"),
        }
    }
}

/// One election.
#[derive(Debug)]
pub(crate) struct Election {
    pub(crate) name: LeaseName,
    phase: Phase,
    /// The token of the last adopted term.
    pub(crate) last_token: Option<FencingToken>,
    pub(crate) generation: u32,
    /// Terms have work.
    pub(crate) work: bool,
    /// Work of the present, ended or lost term runs.
    pub(crate) running: bool,
    /// The listener never learnt of the present term.
    pub(crate) silent: bool,
}

impl Election {
    pub(crate) const fn phase(&self) -> &Phase {
        &self.phase
    }
}

/// The table of elections.
#[derive(Debug, Default)]
pub(crate) struct Elections {
    slots: Vec<Option<Election>>,
    free: Vec<u32>,
    index: BTreeMap<LeaseName, u32>,
    wake: BTreeSet<(Instant, u32)>,
    generation: u32,
}

impl Elections {
    pub(crate) fn start(&mut self, name: LeaseName, options: StartOptions) -> Result<ElectionId, StartError> {
        if self.index.contains_key(&name) {
            return Err(StartError::AlreadyStarted(name));
        }
        self.generation = self.generation.wrapping_add(1);
        let election = Election {
            name: name.clone(),
            phase: Phase::Parked,
            last_token: None,
            generation: self.generation,
            work: options.work,
            running: false,
            silent: false,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(election);
                slot
            }
            None => {
                // More than 2^32 elections do not fit into any memory that exists.
                let slot = u32::try_from(self.slots.len()).map_err(|_| StartError::Closed)?;
                self.slots.push(Some(election));
                slot
            }
        };
        self.index.insert(name, slot);
        Ok(ElectionId { slot, generation: self.generation })
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        if let Some(election) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            if let Some(at) = election.phase.wakes_at() {
                self.wake.remove(&(at, slot));
            }
            self.index.remove(&election.name);
            self.free.push(slot);
        }
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Election> {
        self.slots.get(slot as usize).and_then(Option::as_ref)
    }

    /// For everything but the phase, which only [`Elections::set_phase`] may change.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Election> {
        self.slots.get_mut(slot as usize).and_then(Option::as_mut)
    }

    /// The slot of this very election, if it has not been removed.
    pub(crate) fn find(&self, id: ElectionId) -> Option<u32> {
        self.get(id.slot).filter(|e| e.generation == id.generation).map(|_| id.slot)
    }

    pub(crate) fn by_name(&self, name: &LeaseName) -> Option<u32> {
        self.index.get(name).copied()
    }

    pub(crate) fn id(&self, slot: u32) -> ElectionId {
        ElectionId { slot, generation: self.get(slot).map_or(0, |e| e.generation) }
    }

    /// Puts an election into its next phase and answers the one before.
    pub(crate) fn set_phase(&mut self, slot: u32, phase: Phase) -> Phase {
        let Some(election) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else {
            return phase;
        };
        let after = phase.wakes_at();
        let before = core::mem::replace(&mut election.phase, phase);
        let was = before.wakes_at();
        if was != after {
            if let Some(at) = was {
                self.wake.remove(&(at, slot));
            }
            if let Some(at) = after {
                self.wake.insert((at, slot));
            }
        }
        before
    }

    /// The earliest instant at which an election must be looked at.
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        self.wake.first().map(|&(at, _)| at)
    }

    /// Some election that is due at `now`, if there is one. The caller moves it to another phase.
    pub(crate) fn next_due(&self, now: Instant) -> Option<u32> {
        self.wake.first().filter(|&&(at, _)| at <= now).map(|&(_, slot)| slot)
    }

    /// An instant in `[from, to)` at which some candidate tries anyway.
    pub(crate) fn retry_between(&self, from: Instant, to: Instant) -> Option<Instant> {
        // A handful: behind other kinds of waits there may be one, but a longer search is not worth a shared call.
        let near = self.wake.range((from, 0)..(to, 0)).take(8);
        near.copied()
            .find(|&(_, slot)| matches!(self.get(slot).map(Election::phase), Some(Phase::Waiting { .. })))
            .map(|(at, _)| at)
    }

    /// The slots in the order of their names.
    pub(crate) fn in_name_order(&self) -> Vec<u32> {
        self.index.values().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Compares the indexes with the table itself.
    pub(crate) fn check(&self) -> Result<(), alloc::string::String> {
        let occupied = || (0u32..).zip(&self.slots).filter_map(|(slot, e)| e.as_ref().map(|e| (slot, e)));
        let fold: BTreeSet<_> =
            occupied().filter_map(|(s, e)| e.phase.wakes_at().map(|at| (at, s))).collect();
        if fold != self.wake {
            return Err("the index of wake-ups differs from the phases".to_string());
        }
        if occupied().count() != self.index.len()
            || occupied().any(|(slot, e)| self.index.get(&e.name) != Some(&slot))
        {
            return Err("the index of names differs from the table".to_string());
        }
        Ok(())
    }
}
