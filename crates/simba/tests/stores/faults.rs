//! What becomes of three nodes while their server, or the way to it, is in trouble.
//!
//! In each case: every node contends again by itself within the lease + 3 s; no term reads valid past its deadline, nor a
//! lease after the store was last heard of; two valid terms of a name are never seen at one time, unless the store has
//! just forgotten the one; no call outlives its limit.

use crate::crowd::{AGAIN, Crowd, JOB, LEASE, OUTAGE, leads};
use crate::machine::{now, on_an_idle_machine, wait, within};
use crate::stage::Server;
use crate::support::{millis, secs};
use simba::Instant;
use simba::backend::Effect;
use simba::{Election, RevokeReason, Simba};
use simba_proxy::{Direction, Proxy, Reply};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;

/// Every case, on one kind of server.
macro_rules! on {
    ($module:ident, $server:ident) => {
        mod $module {
            $crate::faults::cases! { $crate::stage::$server =>
                killed_and_started_again_with_its_data
                killed_and_started_again_without_its_data
                killed_and_started_again_at_once
                frozen
                half_open_connections
                connections_that_are_never_answered
                connections_that_are_refused
                replies_that_are_dropped
                calls_that_are_dropped
                calls_that_are_held
                connections_that_are_reset
                a_way_that_takes_long
                the_lost_reply_of_an_acquire
                the_lost_reply_of_an_acquire_that_nobody_wants_any_more
                connections_that_the_server_cuts
            }
        }
    };
}

macro_rules! cases {
    ($server:ty => $($case:ident)+) => {
        $(#[test]
        fn $case() {
            $crate::faults::$case::<$server>();
        })+
    };
}

pub(crate) use {cases, on};

/// A server, a proxy before it, and a crowd that has settled.
pub(crate) struct Scene<S> {
    // The nodes end first, while there is still somebody to close their sessions with.
    pub(crate) crowd: Crowd,
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) server: S,
}

impl<S: Server> Scene<S> {
    fn start() -> Result<Self, String> {
        let server = S::start();
        let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).unwrap();
        let crowd = Crowd::start(&server.url_at(proxy.addr().port()))?;
        Ok(Self { crowd, proxy: Arc::new(proxy), server })
    }

    /// Nothing that is sent from now on is answered, for longer than a lease: no term is left.
    fn without_the_store(&self, from: Instant) -> Result<(), String> {
        self.crowd.witness.silence();
        thread::sleep(OUTAGE);
        self.crowd.is_without_terms(from, RevokeReason::DeadlinePassed)?;
        // Who asks meanwhile is told, and does not wait.
        let asked = now();
        let limit = millis(300);
        let answer = wait(self.crowd.nodes[0].simba.inspect().limit(limit).who(JOB));
        assert!(answer.is_err(), "{answer:?}");
        let took = now().saturating_since(asked);
        if took > limit + millis(500) {
            return Err(format!("an answer with a limit of {limit:?} took {took:?}"));
        }
        self.crowd.witness.sound();
        Ok(())
    }
}

/// Tells a story on a new scene, again if it was late on a machine that stood still.
fn on_a_scene<S: Server>(story: impl Fn(&mut Scene<S>) -> Result<(), String>) {
    on_an_idle_machine(|| {
        let mut scene = Scene::start()?;
        story(&mut scene)
    });
}

pub(crate) fn killed_and_started_again_with_its_data<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        scene.server.process().kill();
        scene.without_the_store(from)?;
        scene.server.start_again();
        scene.crowd.recovers()
    });
}

pub(crate) fn killed_and_started_again_without_its_data<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        scene.server.process().kill();
        scene.without_the_store(from)?;
        scene.crowd.witness.loss();
        // A session may be opened between the start and the loss.
        scene.crowd.witness.overlap(true);
        scene.server.start_empty();
        thread::sleep(LEASE);
        scene.crowd.witness.overlap(false);
        scene.crowd.recovers()
    });
}

/// Terms may outlast it, if the server is quick: whatever becomes of them, each node contends.
pub(crate) fn killed_and_started_again_at_once<S: Server>() {
    on_a_scene::<S>(|scene| {
        scene.server.process().kill();
        scene.server.start_again();
        scene.crowd.recovers()
    });
}

/// It wakes with calls in its sockets that were given up long ago. And whoever has enough of waiting gets away.
pub(crate) fn frozen<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        scene.server.process().freeze();
        let url = scene.server.url_at(scene.proxy.addr().port());
        let late = Simba::builder_from_url(&url).unwrap().node("late").build().unwrap();
        let result = scene.without_the_store(from).and_then(|()| {
            let stop = late.election("other").unwrap().start().unwrap().stop();
            let close = late.close();
            within(late.timing().renew() + secs(1), "stop and close complete", || {
                stop.is_complete() && close.is_complete()
            })
        });
        scene.server.process().thaw();
        result?;
        scene.crowd.recovers()
    });
}

/// The network has forgotten the connections and tells nobody, while new ones work. No term is lost by it; and when what
/// was lost turns up again, it does no harm.
pub(crate) fn half_open_connections<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        scene.proxy.freeze();
        scene.crowd.stays(from)?;
        scene.proxy.thaw();
        scene.crowd.stays(from)
    });
}

/// As a host behind a load balancer that has died: it takes connections, and that is all.
pub(crate) fn connections_that_are_never_answered<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        scene.proxy.mute();
        scene.proxy.reset();
        scene.without_the_store(from)?;
        scene.proxy.welcome();
        scene.crowd.recovers()
    });
}

pub(crate) fn connections_that_are_refused<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        scene.proxy.refuse();
        scene.proxy.reset();
        scene.without_the_store(from)?;
        scene.proxy.welcome();
        scene.crowd.recovers()
    });
}

/// The server does all that it is asked, and nobody hears of it.
pub(crate) fn replies_that_are_dropped<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        scene.proxy.drop_silently(Direction::ToClient);
        scene.without_the_store(from)?;
        scene.proxy.pass(Direction::ToClient);
        scene.crowd.recovers()
    });
}

pub(crate) fn calls_that_are_dropped<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        scene.proxy.drop_silently(Direction::ToServer);
        scene.without_the_store(from)?;
        scene.proxy.pass(Direction::ToServer);
        scene.crowd.recovers()
    });
}

/// All that was asked during the outage is done after it, all at once.
pub(crate) fn calls_that_are_held<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        scene.proxy.hold(Direction::ToServer);
        scene.without_the_store(from)?;
        scene.proxy.pass(Direction::ToServer);
        scene.crowd.recovers()
    });
}

pub(crate) fn connections_that_are_reset<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        for _ in 0..8 {
            scene.proxy.reset();
            thread::sleep(millis(300));
        }
        scene.crowd.stays(from)
    });
}

/// A round trip of 300 ms leaves time enough for a keep-alive each 667 ms.
pub(crate) fn a_way_that_takes_long<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        for direction in [Direction::ToServer, Direction::ToClient] {
            scene.proxy.delay(direction, millis(150));
        }
        scene.crowd.stays(from)?;
        scene.crowd.stays(from)
    });
}

/// A new election on a node, with the reply of its acquire lost in this way.
fn lose_an_acquire<S: Server>(scene: &Scene<S>, name: &str, how: Reply) -> Result<Election, String> {
    // Its connection for acquires is open, and nobody else calls through the proxy of its own.
    let node = &scene.crowd.nodes[0];
    let (proxy, calls) = (Arc::clone(&scene.proxy), Arc::clone(&node.calls));
    let before = calls.failed_acquires().len();
    let lose = Arc::clone(&proxy);
    calls.before_acquire(move || lose.lose_reply(how));
    let election = node.simba.election(name).unwrap().start().unwrap();
    within(AGAIN, "the call whose reply is lost", || !proxy.is_waiting_for_a_call())?;
    within(AGAIN, "the failure of an acquire", || calls.failed_acquires().len() > before)?;
    // If the connection had to be made anew, it was the making that was lost, and nothing was sent.
    match calls.failed_acquires()[before] {
        Effect::Unknown => Ok(election),
        Effect::None => {
            within(AGAIN, "it leads, and so the connection is there for the next try", || leads(&election))?;
            Err("the acquire was not sent".to_owned())
        }
    }
}

/// One node alone, so that the next call is its acquire. It gets the very lease that it has without knowing; or a
/// keep-alive lists that first, which is given back then and taken anew.
pub(crate) fn the_lost_reply_of_an_acquire<S: Server>() {
    on_a_scene::<S>(|scene| {
        only_the_first_node(scene)?;
        for (name, how) in [("dropped", Reply::Drop), ("reset", Reply::Reset), ("held", Reply::Hold)] {
            // A keep-alive may have come in between, and lost its reply instead: then the next name is tried.
            let lost = (0..10).find_map(|n| lose_an_acquire(scene, &format!("{name}-{n}"), how).ok());
            let election = lost.ok_or("no reply of an acquire was lost in ten tries")?;
            within(AGAIN, "it leads in the end", || leads(&election))?;
            scene.proxy.release_replies();
            let term = election.leadership().term().cloned();
            let token = term.map(|term| term.token().get());
            assert!(matches!(token, Some(1 | 2)), "nobody else had it: {token:?}");
            thread::sleep(LEASE);
            assert!(leads(&election), "a late reply changes nothing");
        }
        scene.crowd.check_calls()
    });
}

/// Who no longer wants a lease must not keep it, even if it never learned that it had it.
pub(crate) fn the_lost_reply_of_an_acquire_that_nobody_wants_any_more<S: Server>() {
    on_a_scene::<S>(|scene| {
        only_the_first_node(scene)?;
        for (name, how) in [("dropped", Reply::Drop), ("reset", Reply::Reset), ("held", Reply::Hold)] {
            let lost = (0..10).find_map(|n| {
                let name = format!("{name}-{n}");
                lose_an_acquire(scene, &name, how).ok().map(|election| (name, election))
            });
            let (name, election) = lost.ok_or("no reply of an acquire was lost in ten tries")?;
            let stop = election.stop();
            within(AGAIN, "the stop", || stop.is_complete())?;
            scene.proxy.release_replies();
            let direct = simba::Inspector::from_url(&scene.server.url()).unwrap();
            within(LEASE + secs(1), "the lease is free while its session lives", || {
                wait(direct.who(&name)).is_ok_and(|record| record.is_none_or(|record| record.held.is_none()))
            })?;
        }
        scene.crowd.check_calls()
    });
}

/// Ends all nodes but one.
fn only_the_first_node<S: Server>(scene: &mut Scene<S>) -> Result<(), String> {
    let others: Vec<_> = scene.crowd.nodes.drain(1..).map(|node| node.simba.close()).collect();
    within(AGAIN, "the others end", || others.iter().all(simba::Completion::is_complete))?;
    let node = &scene.crowd.nodes[0];
    within(AGAIN, "the first one leads", || leads(&node.job) && leads(&node.own))
}

pub(crate) fn connections_that_the_server_cuts<S: Server>() {
    on_a_scene::<S>(|scene| {
        let from = now();
        for _ in 0..8 {
            scene.server.cut_connections();
            thread::sleep(millis(300));
        }
        scene.crowd.stays(from)
    });
}
