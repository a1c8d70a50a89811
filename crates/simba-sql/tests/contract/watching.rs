//! News of releases: told at once, to the right ones, and no longer than they are asked for.

use std::{
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use simba_backend::{Backend, Failure, Hint, HintSink};
use simba_sql::sqlite::SqliteBackend;
use tokio::sync::oneshot;

use crate::rig::{FOREVER, LEASE, Node, Plant, Rig, ensure, name, now, record, sound, wait};

/// A watch on a thread, started anew whenever it ends, as a client does.
pub(crate) struct Watch {
    hints: mpsc::Receiver<Hint>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watch {
    /// Returns when the watch hears of releases: a probe of its own came through.
    pub(crate) fn start(store: SqliteBackend) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (tx, hints) = mpsc::channel();
        let tx = Mutex::new(tx);
        let sink = HintSink::new(move |hint| {
            // Whoever listened may be gone.
            tx.lock().unwrap_or_else(PoisonError::into_inner).send(hint).ok();
        });
        let watched = store.clone();
        let thread = thread::spawn(move || wait(watch_until(watched, sink, stopped)));
        let watch = Self { hints, stop: Some(stop), thread: Some(thread) };
        let probe = Node::open(store, FOREVER).unwrap();
        crate::rig::eventually("the watch begins", || {
            let token = probe.take("probe");
            probe.release("probe", token);
            watch.hears(&Hint::Freed(name("probe")), Duration::from_millis(50))
        });
        probe.close();
        watch.quiet();
        watch
    }

    /// Whether this hint comes within `bound`; others are passed over.
    pub(crate) fn hears(&self, hint: &Hint, bound: Duration) -> bool {
        let start = now();
        loop {
            let left = bound.saturating_sub(start.elapsed());
            match self.hints.recv_timeout(left) {
                Ok(heard) if heard == *hint => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Takes away what has come already.
    fn quiet(&self) {
        while self.hints.try_recv().is_ok() {}
    }
}

async fn watch_until(store: SqliteBackend, sink: HintSink, mut stopped: oneshot::Receiver<()>) {
    loop {
        let ended: Option<Failure> = tokio::select! {
            _ = &mut stopped => None,
            failure = store.watch(sink.clone()) => Some(failure),
        };
        if ended.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        sink.send(Hint::Missed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A release wakes those who watch at once.
pub(crate) fn releases_wake(plant: Plant) -> Result<(), String> {
    let rig = Rig::with(plant);
    let holder = rig.node(FOREVER);
    let watch = Watch::start(rig.store());
    let mut times = Vec::new();
    for _ in 0..7 {
        let token = holder.take("x");
        let start = now();
        holder.release("x", token);
        ensure!(
            watch.hears(&Hint::Freed(name("x")), Duration::from_secs(5)),
            "a release was not told at all"
        );
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    report(&format!("from release to hint: median {median:?}, worst {worst:?}"));
    ensure!(median < Duration::from_millis(200), "a release is told after {median:?} (median)");
    Ok(())
}

/// A measured figure, also when the test passes.
pub(crate) fn report(text: &str) {
    use std::io::Write;
    let mut out = std::io::stderr();
    writeln!(out, "measured: {text}").unwrap();
}

#[test]
fn c12_a_release_is_told_at_once() {
    releases_wake(sound).unwrap();
}

#[test]
fn c12_a_close_tells_every_lease_and_a_large_one_says_look_at_all() {
    let rig = Rig::new();
    let watch = Watch::start(rig.store());
    let few = rig.node(FOREVER);
    few.acquire(&["a", "b"]).unwrap();
    few.close();
    assert!(watch.hears(&Hint::Freed(name("a")), Duration::from_secs(5)));
    assert!(watch.hears(&Hint::Freed(name("b")), Duration::from_secs(5)));
    let many = rig.node(FOREVER);
    let names: Vec<String> = (0..5_000).map(|i| format!("many-{i}")).collect();
    many.acquire(&names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    many.close();
    assert!(watch.hears(&Hint::Missed, Duration::from_secs(5)));
}

#[test]
fn the_leases_of_a_dead_session_are_told_when_it_is_cleared_away() {
    let rig = Rig::new();
    let watch = Watch::start(rig.store());
    let (dead, other) = (rig.node(LEASE), rig.node(FOREVER));
    dead.take("x");
    rig.clock.advance(LEASE);
    assert!(other.is_alive());
    assert!(watch.hears(&Hint::Freed(name("x")), Duration::from_secs(5)));
}

#[test]
fn nothing_is_told_when_nothing_became_free() {
    let rig = Rig::new();
    let (a, b) = (rig.node(FOREVER), rig.node(FOREVER));
    a.take("x");
    let watch = Watch::start(rig.store());
    assert_eq!(b.take("x"), 0);
    assert_eq!(b.take("y"), 1);
    b.release("x", 7);
    assert!(a.is_alive());
    // The end of the quiet time is marked by a release, which comes after everything before it.
    b.release("y", 1);
    assert_eq!(watch.hints.recv_timeout(Duration::from_secs(5)), Ok(Hint::Freed(name("y"))));
}

#[test]
fn a_namespace_hears_only_of_its_own_leases() {
    let rig = Rig::new();
    let space = |space: &str| SqliteBackend::new(rig.config().namespace(space.parse().unwrap())).unwrap();
    let watch = Watch::start(space("prod"));
    let (other, mine) =
        (Node::open(space("prod2"), FOREVER).unwrap(), Node::open(space("prod"), FOREVER).unwrap());
    other.take("x");
    other.release("x", 1);
    mine.take("y");
    mine.release("y", 1);
    assert_eq!(watch.hints.recv_timeout(Duration::from_secs(5)), Ok(Hint::Freed(name("y"))));
}

#[test]
fn a_watch_goes_on_when_the_file_beside_the_database_is_deleted() {
    let rig = Rig::new();
    let holder = rig.node(FOREVER);
    let watch = Watch::start(rig.store());
    let mut wake = rig.path().into_os_string();
    wake.push("-wake");
    std::fs::remove_file(wake).unwrap();
    assert!(watch.hears(&Hint::Missed, Duration::from_secs(5)), "the watch begins anew");
    crate::rig::eventually("a release is told again", || {
        let token = holder.take("x");
        holder.release("x", token);
        watch.hears(&Hint::Freed(name("x")), Duration::from_millis(200))
    });
}

#[test]
fn a_watch_goes_on_when_the_database_is_replaced() {
    let rig = Rig::new();
    let watch = Watch::start(rig.store());
    let elsewhere = Rig::new();
    elsewhere.node(LEASE).close();
    crate::files::put_in_place_of(&rig, &elsewhere);
    crate::rig::eventually("a release in the new file is told", || {
        let Ok(holder) = Node::open(rig.store(), LEASE) else { return false };
        let token = holder.take("x");
        holder.release("x", token);
        watch.hears(&Hint::Freed(name("x")), Duration::from_millis(300))
    });
    assert!(record(&rig.store(), "x").is_some());
}

/// Two processes may name the file differently.
#[test]
fn a_release_is_told_to_those_who_came_by_a_symbolic_link() {
    let rig = Rig::new();
    let holder = rig.node(FOREVER);
    let link = rig.folder().join("link.db");
    std::os::unix::fs::symlink(rig.path(), &link).unwrap();
    let config = simba_sql::sqlite::SqliteConfig::new(&link).clock(rig.clock.store_clock("boot-1"));
    let watch = Watch::start(SqliteBackend::new(config).unwrap());
    let mut told = 0;
    for _ in 0..8 {
        let token = holder.take("x");
        holder.release("x", token);
        told += u32::from(watch.hears(&Hint::Freed(name("x")), Duration::from_millis(300)));
        watch.quiet();
    }
    assert!(told >= 6, "only {told} of 8 releases were told at once");
}
