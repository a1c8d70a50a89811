//! What the store says we own, compared with what we believe.
//!
//! # The problem
//! A keep-alive's list was read at one instant of the store's time. Since it was sent, terms have been adopted and
//! leases released here; attempts and releases are under way. A plain comparison turns every win into a false
//! "taken over", and every lease that is being won into an orphan.
//!
//! # The idea
//! * A term is judged only by a keep-alive that was sent *after* the term was adopted. The same name with another
//!   token counts as taken over.
//! * A listed lease that no term here explains, and for which no attempt and no release is under way, is an orphan:
//!   the reply that brought it was lost. It is released with the listed token.
//! * What could not be judged, because something was under way, is judged by the next list: the version then stays
//!   unknown, so that the next keep-alive asks for it.
//!
//! In the steady state nothing is compared at all: the store answers "unchanged since the version you know", in
//! constant time and size.
//!
//! # Limits
//! A change that reaches the store's records without raising the session's version is seen only when something
//! else makes the list come.

use alloc::{collections::BTreeMap, vec::Vec};
use simba_backend::{FencingToken, Grant, LeaseName, Owned, Version};

use crate::{
    election::Phase, engine::Engine, mark::Mark, notice::Notice, output::Output, pending::Kind,
    planted::planted, term::RevokeReason,
};

impl Engine {
    /// Judges a keep-alive's list. Terms with the serial `mark` or a later one were adopted after it was sent.
    pub(crate) fn compare_owned(&mut self, owned: Owned, mark: u64) {
        let (version, leases) = match owned {
            Owned::Unchanged => return,
            Owned::Listed { version, leases } => (version, leases),
        };
        let mark = if planted!(self, M29TakenOverByEarlierList) { u64::MAX } else { mark };
        let listed: BTreeMap<LeaseName, FencingToken> =
            leases.into_iter().map(|g| (g.name, g.token)).collect();
        let all_held_judged = self.judge_held(&listed, mark);
        let all_listed_judged = self.judge_listed(listed);
        let complete = all_held_judged && all_listed_judged;
        if !complete {
            self.mark(Mark::ListJudgedInPart);
        }
        if let Some(live) = self.live_mut() {
            live.known = complete.then(|| version.max(live.known.unwrap_or(Version(0))));
        }
    }

    fn judge_held(&mut self, listed: &BTreeMap<LeaseName, FencingToken>, mark: u64) -> bool {
        let mut complete = true;
        for slot in self.elections.in_name_order() {
            let Some(election) = self.elections.get(slot) else { continue };
            let Phase::Holding(held) = election.phase() else { continue };
            if listed.get(&election.name) == Some(&held.token()) {
                continue;
            }
            if held.id().serial >= mark {
                complete = false;
            } else if !planted!(self, M30NeverTakenOver) {
                self.mark(Mark::TakenOver);
                self.lose_term(slot, RevokeReason::TakenOver);
            }
        }
        complete
    }

    fn judge_listed(&mut self, listed: BTreeMap<LeaseName, FencingToken>) -> bool {
        let Some(session) = self.live().map(|live| live.id) else { return true };
        let mut complete = true;
        let mut orphans = Vec::new();
        for (name, token) in listed {
            let owned = self.elections.by_name(&name).and_then(|s| self.elections.get(s));
            match owned.and_then(|e| e.phase().owned()) {
                Some((_, held)) if held == token => {}
                // Adopted after the list was read: the list shows the time before.
                Some(_) => complete = false,
                None if self.is_under_way(&name) => complete = false,
                None => orphans.push(Grant { name, token }),
            }
        }
        for grant in orphans {
            self.mark(Mark::OrphanFound);
            let notice = Notice::OrphanReleased { name: grant.name.clone(), token: grant.token };
            self.push(Output::Notice(notice));
            self.queue_unadopted(session, grant);
        }
        complete
    }

    /// Whether a release for this name is decided or waited for.
    pub(crate) fn is_release_under_way(&self, name: &LeaseName) -> bool {
        self.queued.iter().any(|queued| queued.lease.grant().name == *name)
            || self.calls.iter().any(|pending| match &pending.kind {
                Kind::Release { grants, .. } => {
                    !pending.abandoned && grants.iter().any(|grant| grant.name == *name)
                }
                Kind::Acquire { .. } | Kind::Open | Kind::KeepAlive { .. } | Kind::Close => false,
            })
    }

    /// Whether an attempt or a release for this name has not been answered, given up ones included.
    fn is_under_way(&self, name: &LeaseName) -> bool {
        self.queued.iter().any(|queued| queued.lease.grant().name == *name)
            || self.calls.iter().any(|pending| match &pending.kind {
                Kind::Acquire { names, .. } => names.contains(name),
                Kind::Release { grants, .. } => grants.iter().any(|grant| grant.name == *name),
                Kind::Open | Kind::KeepAlive { .. } | Kind::Close => false,
            })
    }
}
