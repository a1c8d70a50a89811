//! What users of a client meet on every store.

use crate::crowd::leads;
use crate::machine::{now, on_an_idle_machine, wait, within};
use crate::stage::Stage;
use crate::support::{led, millis, secs, soon};
use simba::{
    Builder, Flow, Inspector, LeadError, Leadership, Listener, RevokeReason, SessionStatus, Simba,
    StoreOptions, Term, Timing,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Every case, on one store, which they share.
macro_rules! on {
    ($module:ident, $stage:ident) => {
        mod $module {
            static PLACE: $crate::stage::Shared<$crate::stage::$stage> =
                std::sync::Mutex::new(std::sync::Weak::new());
            $crate::suite::cases! { $crate::stage::$stage =>
                a_lease_is_handed_over_with_a_higher_token
                work_runs_on_one_node_at_a_time
                lead_gives_its_value_and_the_lease_back
                a_listener_is_told_in_pairs
                many_names_are_taken_and_given_back_in_few_calls
                names_are_told_apart_byte_by_byte
                namespaces_are_apart
                a_close_frees_everything_at_once
                a_crash_frees_everything_after_the_lease
                a_forced_release_ends_the_term_of_its_owner
                an_evicted_node_comes_back_with_a_new_session
            }
        }
    };
}

macro_rules! cases {
    ($stage:ty => $($case:ident)+) => {
        $(#[test]
        fn $case() {
            let stage = $crate::stage::shared(&PLACE);
            $crate::suite::$case(&$crate::suite::Place::new(&*stage, stringify!($case)));
        })+
    };
}

pub(crate) use {cases, on};

/// A part of a store that is one case's own.
pub(crate) struct Place {
    url: String,
    namespace: String,
    tells: bool,
}

impl Place {
    pub(crate) fn new(stage: &impl Stage, case: &str) -> Self {
        let namespace: String = case.chars().take(32).collect();
        Self { url: stage.url(), namespace, tells: stage.tells() }
    }

    fn store(&self, namespace: &str) -> Arc<dyn simba::backend::DynBackend> {
        let options = StoreOptions::default().namespace(namespace.parse().unwrap());
        simba::open_store(&self.url, &options).unwrap()
    }

    fn builder(&self, node: &str) -> Builder {
        let timing = Timing::builder().lease(secs(3)).build().unwrap();
        Simba::builder_on(self.store(&self.namespace)).node(node).timing(timing)
    }

    fn node(&self, node: &str) -> Simba {
        let simba = self.builder(node).build().unwrap();
        wait(simba.ready(secs(30))).unwrap();
        simba
    }

    /// Looks from outside, without a session.
    fn inspector(&self) -> Inspector {
        Inspector::new(self.store(&self.namespace))
    }

    fn holder(&self, name: &str) -> Option<String> {
        let record = wait(self.inspector().who(name)).unwrap()?;
        record.held.map(|held| held.owner.node.as_str().to_owned())
    }
}

pub(crate) fn a_lease_is_handed_over_with_a_higher_token(place: &Place) {
    on_an_idle_machine(|| {
        let (a, b) = (place.node("a"), place.node("b"));
        let (mut took, mut last) = (Vec::new(), 0);
        for _ in 0..10 {
            let holder = a.election("job").unwrap().start().unwrap();
            let first = wait(led(&holder)).token().get();
            let waiter = b.election("job").unwrap().start().unwrap();
            within(secs(10), "refused", || {
                b.snapshot().election("job").is_some_and(|view| view.next_at.is_some())
            })?;
            assert_eq!(place.holder("job").as_deref(), Some("a"));
            let from = now();
            let stop = holder.stop();
            let second = wait(led(&waiter)).token().get();
            took.push(now().saturating_since(from));
            assert!(last < first && first < second, "{last} {first} {second}");
            last = second;
            wait(stop);
            wait(waiter.stop());
        }
        took.sort_unstable();
        let median = took[took.len() / 2];
        eprintln!("handed over in {median:?}");
        // Where nobody is told, it is found at the next try.
        let limit = if place.tells { millis(100) } else { secs(3) };
        if median < limit { Ok(()) } else { Err(format!("{took:?}")) }
    });
}

pub(crate) fn work_runs_on_one_node_at_a_time(place: &Place) {
    #[derive(Default)]
    struct Seen {
        inside: AtomicUsize,
        tokens: Mutex<Vec<u64>>,
    }
    struct Inside<'a>(&'a AtomicUsize);
    impl Drop for Inside<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let seen = Arc::new(Seen::default());
        let nodes = ["a", "b", "c"].map(|node| place.builder(node).build().unwrap());
        let work = |simba: &Simba| {
            let election = simba.election("job").unwrap();
            election.run_while_leader(Arc::clone(&seen), |term, seen| async move {
                assert_eq!(seen.inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                let _inside = Inside(&seen.inside);
                seen.tokens.lock().unwrap().push(term.token().get());
                std::future::pending::<()>().await;
            })
        };
        let elections = nodes.each_ref().map(|simba| work(simba).unwrap());
        let runs = || seen.tokens.lock().unwrap().len();
        for round in 1..=6 {
            soon("a run", async {
                while runs() < round {
                    tokio::time::sleep(millis(5)).await;
                }
            })
            .await;
            let leader = elections.iter().find(|election| leads(election));
            if let Some(leader) = leader {
                soon("stepped down", leader.step_down(secs(1))).await;
            }
        }
        for simba in &nodes {
            soon("closed", simba.close()).await;
        }
        let tokens = seen.tokens.lock().unwrap().clone();
        assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
        assert_eq!(seen.inside.load(Ordering::SeqCst), 0);
    });
}

pub(crate) fn lead_gives_its_value_and_the_lease_back(place: &Place) {
    let simba = place.node("a");
    let leading = simba.election("job").unwrap().lead(|term| async move {
        term.ensure_valid(Duration::ZERO).map_err(|error| error.to_string())?;
        Ok(Flow::Stop(term.token()))
    });
    let token: Result<_, LeadError<String>> = wait(leading);
    let record = wait(place.inspector().who("job")).unwrap().unwrap();
    assert_eq!((Ok(record.token), record.held), (token, None));
    wait(simba.close());
}

pub(crate) fn a_listener_is_told_in_pairs(place: &Place) {
    #[derive(Clone, Default)]
    struct Scribe(Arc<Mutex<Vec<(bool, u64)>>>);
    impl Listener for Scribe {
        async fn elected(&self, term: Term) {
            self.0.lock().unwrap().push((true, term.token().get()));
        }
        async fn revoked(&self, term: Term, _: RevokeReason) {
            assert!(!term.is_valid());
            self.0.lock().unwrap().push((false, term.token().get()));
        }
    }
    wait(async {
        let simba = place.builder("a").build().unwrap();
        let scribe = Scribe::default();
        let election = simba.election("job").unwrap().listen(scribe.clone()).unwrap();
        for _ in 0..20 {
            led(&election).await;
            election.step_down(Duration::ZERO).await;
        }
        simba.close().await;
        let log = scribe.0.lock().unwrap().clone();
        assert!(log.len() >= 40 && log.len() % 2 == 0, "{log:?}");
        for pair in log.chunks(2) {
            assert!(pair[0].0 && !pair[1].0 && pair[0].1 == pair[1].1, "{log:?}");
        }
        assert!(log.chunks(2).map(|pair| pair[0].1).is_sorted_by(|a, b| a < b), "{log:?}");
    });
}

pub(crate) fn many_names_are_taken_and_given_back_in_few_calls(place: &Place) {
    on_an_idle_machine(|| {
        let simba = place.node("a");
        let from = now();
        let elections: Vec<_> =
            (0..1_000).map(|n| simba.election(&format!("many-{n}")).unwrap().start().unwrap()).collect();
        within(secs(20), "all are led", || elections.iter().all(leads))?;
        let took = now().saturating_since(from);
        let held = wait(place.inspector().leases("many-")).unwrap();
        assert_eq!(held.iter().filter(|record| record.held.is_some()).count(), 1_000);
        let from = now();
        wait(simba.close());
        eprintln!("1,000 names taken in {took:?}, given back in {:?}", now().saturating_since(from));
        let held = wait(place.inspector().leases("many-")).unwrap();
        assert!(held.len() == 1_000 && held.iter().all(|record| record.held.is_none()));
        Ok(())
    });
}

/// F11: a collation that folds cases would make one lease of two.
pub(crate) fn names_are_told_apart_byte_by_byte(place: &Place) {
    let names = ["report", "Report", "REPORT", "report-", "report.", "report_"];
    let nodes = names.map(|_| place.node("a"));
    let elections: Vec<_> = names
        .iter()
        .zip(&nodes)
        .map(|(name, simba)| simba.election(name).unwrap().start().unwrap())
        .collect();
    for election in &elections {
        assert_eq!(wait(led(election)).token().get(), 1);
    }
    for simba in &nodes {
        wait(simba.close());
    }
}

pub(crate) fn namespaces_are_apart(place: &Place) {
    let nodes =
        ["one", "other"].map(|space| Simba::builder_on(place.store(space)).node(space).build().unwrap());
    // Each goes on while the other takes its own.
    let elections = nodes.each_ref().map(|simba| simba.election("job").unwrap().start().unwrap());
    for (simba, election) in nodes.iter().zip(&elections) {
        assert_eq!(wait(led(election)).token().get(), 1);
        let who = wait(simba.inspect().leases("")).unwrap();
        let owners: Vec<_> =
            who.iter().map(|record| record.held.as_ref().unwrap().owner.node.as_str()).collect();
        assert_eq!(owners, [simba.node().as_str()]);
    }
    for simba in &nodes {
        wait(simba.close());
    }
}

pub(crate) fn a_close_frees_everything_at_once(place: &Place) {
    on_an_idle_machine(|| {
        let long = Timing::builder().lease(secs(60)).build().unwrap();
        let a = place.builder("a").timing(long).build().unwrap();
        let holder = a.election("job").unwrap().start().unwrap();
        let first = wait(led(&holder)).token();
        let b = place.node("b");
        let waiter = b.election("job").unwrap().start().unwrap();
        within(secs(10), "refused", || {
            b.snapshot().election("job").is_some_and(|view| view.next_at.is_some())
        })?;
        wait(a.close());
        within(secs(5), "the other leads long before the lease is over", || leads(&waiter))?;
        assert!(wait(led(&waiter)).token() > first);
        wait(b.close());
        Ok(())
    });
}

/// The process of the holder is gone without a word: its runtime is torn down under it.
pub(crate) fn a_crash_frees_everything_after_the_lease(place: &Place) {
    on_an_idle_machine(|| {
        let doomed = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (simba, election, term) = doomed.block_on(async {
            let simba = place.builder("doomed").ambient_runtime().build().unwrap();
            let election = simba.election("job").unwrap().start().unwrap();
            let term = led(&election).await;
            (simba, election, term)
        });
        let b = place.node("b");
        let waiter = b.election("job").unwrap().start().unwrap();
        within(secs(2), "refused", || {
            b.snapshot().election("job").is_some_and(|view| view.next_at.is_some())
        })?;
        assert!(term.is_valid() && !leads(&waiter));
        let deadline = term.deadline().unwrap();
        drop(doomed);
        assert!(!term.is_valid());
        within(secs(3) + secs(3), "the other leads", || leads(&waiter))?;
        let early = deadline.saturating_since(now());
        assert!(early.is_zero(), "{early:?} before the end of a term that nobody gave back");
        drop((simba, election));
        wait(b.close());
        Ok(())
    });
}

pub(crate) fn a_forced_release_ends_the_term_of_its_owner(place: &Place) {
    on_an_idle_machine(|| {
        let simba = place.node("a");
        let election = simba.election("job").unwrap().start().unwrap();
        let term = wait(led(&election));
        let forced = wait(place.inspector().force_release("job", term.token())).unwrap();
        let simba::Forced::Freed { token: raised } = forced else { panic!("{forced:?}") };
        assert!(raised > term.token());
        let renew = simba.timing().renew();
        within(renew * 2 + millis(500), "the owner notices", || term.end_reason().is_some())?;
        assert_eq!(term.end_reason(), Some(RevokeReason::TakenOver));
        within(secs(10), "it leads again", || leads(&election))?;
        assert!(wait(led(&election)).token() > raised);
        let again = wait(place.inspector().force_release("job", term.token())).unwrap();
        assert!(matches!(again, simba::Forced::Other { .. }), "an old token frees nothing: {again:?}");
        wait(simba.close());
        Ok(())
    });
}

pub(crate) fn an_evicted_node_comes_back_with_a_new_session(place: &Place) {
    on_an_idle_machine(|| {
        let simba = place.node("a");
        let election = simba.election("job").unwrap().start().unwrap();
        let term = wait(led(&election));
        let held = wait(place.inspector().who("job")).unwrap().unwrap().held.unwrap();
        assert!(wait(place.inspector().evict(held.session)).unwrap());
        within(simba.timing().renew() + secs(1), "the owner notices", || term.end_reason().is_some())?;
        assert_eq!(term.end_reason(), Some(RevokeReason::SessionExpired));
        within(secs(10), "it leads again", || leads(&election))?;
        assert!(matches!(election.leadership(), Leadership::Leader(next) if next.token() > term.token()));
        assert_eq!(simba.status(), SessionStatus::Live);
        let next = wait(place.inspector().who("job")).unwrap().unwrap().held.unwrap();
        assert_ne!(next.session, held.session);
        assert!(!wait(place.inspector().evict(held.session)).unwrap(), "it is gone");
        wait(simba.close());
        Ok(())
    });
}
