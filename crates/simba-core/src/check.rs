//! Invariants of the whole engine, checked after every input in debug builds and in the simulation.

use alloc::{format, string::String};

use crate::{
    election::{Phase, Stage},
    engine::Engine,
    session::Session,
};

impl Engine {
    /// Checks the engine's own invariants.
    ///
    /// # Errors
    /// The first one that is broken, in words. Any error is a bug of this crate.
    pub fn check(&self) -> Result<(), String> {
        self.elections.check()?;
        for slot in self.elections.in_name_order() {
            let Some(election) = self.elections.get(slot) else { continue };
            let (name, phase) = (&election.name, election.phase());
            let needs_session = match phase {
                Phase::Waiting { .. }
                | Phase::Attempting { .. }
                | Phase::Holding(_)
                | Phase::HandingOver(_) => true,
                Phase::Parked | Phase::Draining(_) | Phase::CoolingDown { .. } => false,
            };
            if needs_session && !matches!(self.session, Session::Live(_)) {
                return Err(format!("{name} is {phase:?} without a session"));
            }
            if matches!(phase, Phase::Parked) && matches!(self.session, Session::Live(_)) {
                return Err(format!("{name} is parked although there is a session"));
            }
            match phase {
                Phase::HandingOver(handover) => match handover.stage {
                    Stage::Working { .. } if !election.running => {
                        return Err(format!("{name} waits for work that does not run"));
                    }
                    Stage::Queued if !self.queued.iter().any(|q| q.slot == Some(slot)) => {
                        return Err(format!("{name} waits for a release that is not queued"));
                    }
                    Stage::Releasing(call) if self.calls.get(call).is_none_or(|p| p.abandoned) => {
                        return Err(format!("{name} waits for a release that is not under way"));
                    }
                    Stage::Working { .. } | Stage::Queued | Stage::Releasing(_) => {}
                },
                Phase::Attempting { call, .. } if self.calls.get(*call).is_none_or(|p| p.abandoned) => {
                    return Err(format!("{name} waits for an attempt that is not under way"));
                }
                Phase::Draining(_) if !election.running => {
                    return Err(format!("{name} drains without work"));
                }
                Phase::Attempting { .. } | Phase::Parked | Phase::Waiting { .. } | Phase::Holding(_) => {}
                Phase::Draining(_) | Phase::CoolingDown { .. } => {}
            }
        }
        Ok(())
    }
}
