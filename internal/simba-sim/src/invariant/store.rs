//! I5, I14, I15, I17, I23, I28 and the clauses C1 to C9, C12: the reference store against a second, plain model of a
//! store.

use std::collections::BTreeMap;

use simba_backend::{
    Acquired, FencingToken, Forced, KeepAlive, LeaseName, Outcome, Owned, SessionId, Version, VersionStep,
};
use simba_core::{Reply, Request};
use simba_memory::Store;

use super::Broken;
use crate::nanos;

/// A store without owners and without rounding.
#[derive(Clone, Debug)]
pub(crate) struct StoreModel {
    names: Vec<LeaseName>,
    granularity: u64,
    /// Every session that was not ended.
    sessions: BTreeMap<SessionId, Known>,
    leases: Vec<(Option<SessionId>, u64)>,
    /// Sessions that were judged dead.
    dead: BTreeMap<SessionId, &'static str>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    expires: u64,
    lease: u64,
    /// Rises with each lease that comes or goes.
    version: u64,
}

/// A grant that was made new, for I2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) name: usize,
    pub(crate) session: SessionId,
}

impl StoreModel {
    pub(crate) fn new(names: &[LeaseName], granularity: u64) -> Self {
        Self {
            names: names.to_vec(),
            granularity,
            sessions: BTreeMap::new(),
            leases: vec![(None, 0); names.len()],
            dead: BTreeMap::new(),
        }
    }

    fn index(&self, name: &LeaseName) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or(0)
    }

    pub(crate) fn end(&mut self, session: SessionId, why: &'static str) {
        self.sessions.remove(&session);
        self.dead.insert(session, why);
        for (owner, _) in &mut self.leases {
            if *owner == Some(session) {
                *owner = None;
            }
        }
    }

    fn lives(&mut self, now: u64, session: SessionId) -> bool {
        match self.sessions.get(&session) {
            Some(known) if known.expires > now => true,
            Some(_) => {
                self.end(session, "expired");
                false
            }
            None => false,
        }
    }

    pub(crate) fn reap(&mut self, now: u64) {
        let over: Vec<_> =
            self.sessions.iter().filter(|(_, known)| known.expires <= now).map(|(id, _)| *id).collect();
        for session in over {
            self.end(session, "expired");
        }
    }

    /// A person frees a lease.
    pub(crate) fn free_by_hand(&mut self, name: usize) {
        self.free(name);
    }

    /// A person forces a lease free, and names a token.
    pub(crate) fn forced(
        &mut self,
        name: usize,
        token: FencingToken,
        answer: Forced,
        store: &Store,
    ) -> Result<(), Broken> {
        let (owner, present) = self.leases[name];
        let right = match owner {
            None => Forced::Free,
            Some(_) if present != token.get() => {
                FencingToken::new(present).map_or(Forced::Free, |token| Forced::Other { token })
            }
            Some(_) => {
                self.free(name);
                self.leases[name].1 = present + 1;
                FencingToken::new(present + 1).map_or(Forced::Free, |token| Forced::Freed { token })
            }
        };
        if answer != right {
            return Err(("C13", format!("a forced release is answered {answer:?}, must be {right:?}")));
        }
        self.same_owner(store, name, "C13")
    }

    /// A person ends a session that owns a lease.
    pub(crate) fn evicted(
        &mut self,
        now: u64,
        session: SessionId,
        answer: bool,
        store: &Store,
    ) -> Result<(), Broken> {
        let lived = self.lives(now, session);
        self.end(session, "evicted");
        if answer != lived {
            return Err(("C13", format!("an eviction of session {session} is answered {answer}")));
        }
        if store.knows(session) {
            return Err(("C13", format!("session {session} is evicted, and is still there")));
        }
        Ok(())
    }

    fn free(&mut self, name: usize) {
        if let Some(known) = self.leases[name].0.take().and_then(|owner| self.sessions.get_mut(&owner)) {
            known.version += 1;
        }
    }

    fn version(&self, session: SessionId) -> Version {
        Version(self.sessions.get(&session).map_or(0, |known| known.version))
    }

    /// A record is lost, and nobody is told.
    pub(crate) fn lose(&mut self, name: usize) {
        self.leases[name] = (None, 0);
    }

    pub(crate) fn owner(&self, name: usize) -> Option<SessionId> {
        self.leases[name].0
    }

    pub(crate) fn token(&self, name: usize) -> u64 {
        self.leases[name].1
    }

    /// Whether a session was judged dead, or never was.
    pub(crate) fn is_over(&self, session: SessionId) -> bool {
        !self.sessions.contains_key(&session)
    }

    /// Compares one request and its answer with this model. `exact` is the store's clock without its unit.
    pub(crate) fn judge(
        &mut self,
        exact: u64,
        now: u64,
        request: &Request,
        reply: &Reply,
        store: &Store,
        granted: &mut Vec<Granted>,
    ) -> Result<(), Broken> {
        match (request, reply) {
            (Request::Open { lease }, Reply::Opened(opened)) => {
                let (id, grant) = (opened.session, nanos(opened.granted));
                if self.sessions.contains_key(&id) || self.dead.contains_key(&id) {
                    return Err(("I13", format!("the store opened session {id} again")));
                }
                if opened.granted > *lease {
                    return Err((
                        "C1",
                        format!("the store granted {:?} instead of {lease:?}", opened.granted),
                    ));
                }
                self.sessions.insert(id, Known { expires: now + grant, lease: grant, version: 0 });
                self.lower_bound(exact, now + grant, nanos(opened.remaining))?;
            }
            (Request::KeepAlive { session, known }, Reply::KeepAlive(answer)) => {
                self.kept_alive(exact, now, (*session, *known), answer)?;
            }
            (Request::Acquire { session, names }, Reply::Acquired(answer)) => {
                self.acquired(now, *session, names, answer, granted)?;
            }
            (Request::Release(release), Reply::Released(answer)) => {
                let lives = self.lives(now, release.session());
                if lives != answer.step.is_some() {
                    return Err((
                        "I14",
                        format!("a release of session {} was answered {answer:?}", release.session()),
                    ));
                }
                let before = self.version(release.session());
                for grant in release.grants() {
                    let name = self.index(&grant.name);
                    if lives && self.leases[name] == (Some(release.session()), grant.token.get()) {
                        self.free(name);
                    }
                }
                let step = VersionStep { before, after: self.version(release.session()) };
                if answer.step.is_some_and(|told| told != step) {
                    return Err(("C8", format!("a release is told {answer:?}, the step is {step:?}")));
                }
                for grant in release.grants() {
                    self.same_owner(store, self.index(&grant.name), "I28")?;
                }
            }
            (Request::Close { session }, Reply::Closed) => {
                self.end(*session, "closed");
                for name in 0..self.names.len() {
                    self.same_owner(store, name, "I17")?;
                }
            }
            _ => return Err(("I23", format!("{request:?} was answered {reply:?}"))),
        }
        Ok(())
    }

    fn same_owner(&self, store: &Store, name: usize, rule: &'static str) -> Result<(), Broken> {
        let (owner, token) = self.leases[name];
        let (found, found_token) = store.recorded(&self.names[name]).map_or((None, 0), |(o, t)| (o, t.get()));
        // A dead session may still be recorded as the owner until somebody looks.
        let found = found.filter(|id| !self.is_over(*id));
        if (owner, token) != (found, found_token) {
            return Err((
                rule,
                format!(
                    "{:?}: recorded {found:?} #{found_token}, must be {owner:?} #{token}",
                    self.names[name]
                ),
            ));
        }
        Ok(())
    }

    /// C1: nobody is told a longer time than the store will wait.
    fn lower_bound(&self, exact: u64, expires: u64, told: u64) -> Result<(), Broken> {
        let dies = expires.next_multiple_of(self.granularity);
        let truth = dies.saturating_sub(exact);
        if told > truth {
            return Err(("C1", format!("told {told} ns, the session dies in {truth} ns")));
        }
        Ok(())
    }

    fn kept_alive(
        &mut self,
        exact: u64,
        now: u64,
        (session, named): (SessionId, Option<Version>),
        answer: &KeepAlive,
    ) -> Result<(), Broken> {
        let lives = self.lives(now, session);
        match answer {
            KeepAlive::Expired if lives => {
                Err(("I14", format!("session {session} lives, and is said to be over")))
            }
            KeepAlive::Expired => Ok(()),
            KeepAlive::Alive { .. } if !lives => {
                let why = self.dead.get(&session).copied().unwrap_or("unknown");
                Err(("I14", format!("session {session} was {why}, and is revived by a keep-alive")))
            }
            KeepAlive::Alive { remaining, owned } => {
                let mut expires = 0;
                if let Some(known) = self.sessions.get_mut(&session) {
                    known.expires = now + known.lease;
                    expires = known.expires;
                }
                self.lower_bound(exact, expires, nanos(*remaining))?;
                let present = self.version(session);
                let right = match owned {
                    Owned::Unchanged => named == Some(present),
                    Owned::Listed { version, .. } => named != Some(present) && *version == present,
                };
                if !right {
                    return Err((
                        "C8",
                        format!("named {named:?} at {present:?}, and was answered {owned:?}"),
                    ));
                }
                if let Owned::Listed { leases, .. } = owned {
                    let mut told: Vec<_> =
                        leases.iter().map(|g| (self.index(&g.name), g.token.get())).collect();
                    told.sort_unstable();
                    let truth: Vec<_> = (0..self.names.len())
                        .filter(|&name| self.leases[name].0 == Some(session))
                        .map(|name| (name, self.leases[name].1))
                        .collect();
                    if told != truth {
                        return Err(("C8", format!("session {session} is told {told:?}, owns {truth:?}")));
                    }
                }
                Ok(())
            }
        }
    }

    fn acquired(
        &mut self,
        now: u64,
        session: SessionId,
        names: &[LeaseName],
        answer: &Acquired,
        granted: &mut Vec<Granted>,
    ) -> Result<(), Broken> {
        let lives = self.lives(now, session);
        let before = self.version(session);
        let outcomes = match answer {
            Acquired::Expired if lives => {
                return Err(("I14", format!("session {session} lives, and is refused")));
            }
            Acquired::Expired => return Ok(()),
            Acquired::Judged { .. } if !lives => {
                return Err(("I15", format!("session {session} is over, and its acquire is judged")));
            }
            Acquired::Judged { outcomes, .. } => outcomes,
        };
        if outcomes.len() != names.len() {
            return Err(("C10", format!("{} outcomes for {} names", outcomes.len(), names.len())));
        }
        for (name, outcome) in names.iter().zip(outcomes) {
            let index = self.index(name);
            let (owner, token) = self.leases[index];
            let other = owner.filter(|&o| o != session && self.lives(now, o));
            match outcome {
                Outcome::Won { token: told } => {
                    let new = owner != Some(session);
                    let right = if new { token + 1 } else { token };
                    if let Some(other) = other {
                        return Err(("I23", format!("{name:?} is {other}'s, and was given away")));
                    }
                    if told.get() != right {
                        let rule = if new { "I5" } else { "I3" };
                        return Err((
                            rule,
                            format!("{name:?} has token {token}, and {told:?} was handed out"),
                        ));
                    }
                    self.leases[index] = (Some(session), right);
                    if new {
                        if let Some(known) = self.sessions.get_mut(&session) {
                            known.version += 1;
                        }
                        granted.push(Granted { name: index, session });
                    }
                }
                Outcome::Held(held) => {
                    let Some(other) = other else {
                        return Err(("I23", format!("{name:?} is free, and was refused")));
                    };
                    // A clock that steps back would make it longer than any lease.
                    let left = |known: &Known| known.expires.saturating_sub(now).min(known.lease);
                    let left = self.sessions.get(&other).map_or(0, left);
                    let told = held.remaining.map_or(0, nanos);
                    if told != left || held.holder.is_none() || held.token.is_none_or(|t| t.get() != token) {
                        return Err((
                            "C12",
                            format!("{name:?}: told {held:?}, the holder has {left} ns left"),
                        ));
                    }
                }
            }
        }
        let right = VersionStep { before, after: self.version(session) };
        match answer {
            Acquired::Judged { step, .. } if *step != right => {
                Err(("C8", format!("an acquire is told {step:?}, the step is {right:?}")))
            }
            Acquired::Judged { .. } | Acquired::Expired => Ok(()),
        }
    }
}
