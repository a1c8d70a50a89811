//! The engine by itself: validity, inputs a second, memory, allocations on the keep-alive path.

use std::{hint::black_box, sync::atomic::Ordering, time::Duration};

use simba_backend::{
    Acquired, FencingToken, KeepAlive, LeaseName, Opened, Outcome, Owned, SessionId, Version, VersionStep,
};
use simba_core::{DeadlineWriter, Engine, Instant, Output, Reply, Request, StartOptions, Timing};

use crate::{
    alloc::{allocations, live_bytes},
    clock::{boot_nanos, paired, wall},
    table::Row,
};

const LEASE: Duration = Duration::from_secs(15);

/// An engine that holds `count` leases, and the instant that it is at.
fn holding(count: u32) -> (Engine, u64) {
    let now = 1_000_000_000;
    let at = Instant::from_nanos(now);
    let mut engine = Engine::new(Timing::default(), 1, at);
    for n in 0..count {
        let name = LeaseName::new(&format!("job-{n:08}")).expect("a name");
        engine.start(at, name, StartOptions::default()).expect("free");
    }
    let mut version = 0;
    loop {
        engine.handle_wakeup(at);
        let mut calls = Vec::new();
        while let Some(output) = engine.poll_output() {
            if let Output::Call { id, request, .. } = output {
                calls.push((id, request));
            }
        }
        if calls.is_empty() {
            return (engine, now);
        }
        for (id, request) in calls {
            let reply = match request {
                Request::Open { .. } => {
                    Reply::Opened(Opened { session: SessionId::new(1), granted: LEASE, remaining: LEASE })
                }
                Request::Acquire { names, .. } => {
                    let before = Version(version);
                    version += names.len() as u64;
                    let outcomes =
                        names.iter().map(|_| Outcome::Won { token: FencingToken::FIRST }).collect();
                    Reply::Acquired(Acquired::Judged {
                        step: VersionStep { before, after: Version(version) },
                        outcomes,
                    })
                }
                _ => continue,
            };
            engine.handle_reply(at, id, Ok(reply));
            // As the rule of the loop says: one input, then every output.
            while let Some(output) = engine.poll_output() {
                black_box(&output);
            }
        }
    }
}

/// Lets `rounds` keep-alives go by; answers the inputs handled.
fn renew(engine: &mut Engine, now: &mut u64, rounds: u32) -> u64 {
    let mut inputs = 0;
    for _ in 0..rounds {
        let at = engine.next_wakeup().expect("a keep-alive is due").as_nanos().max(*now);
        *now = at;
        engine.handle_wakeup(Instant::from_nanos(at));
        inputs += 1;
        let mut call = None;
        while let Some(output) = engine.poll_output() {
            if let Output::Call { id, .. } = output {
                call = Some(id);
            }
        }
        if let Some(id) = call {
            let alive = KeepAlive::Alive { remaining: LEASE, owned: Owned::Unchanged };
            engine.handle_reply(Instant::from_nanos(at + 1_000), id, Ok(Reply::KeepAlive(alive)));
            inputs += 1;
            while let Some(output) = engine.poll_output() {
                black_box(&output);
            }
        }
    }
    inputs
}

/// `is_valid` beside one raw clock read, alone and with a second reader, while a writer renews.
pub(crate) fn validity(rows: &mut Vec<Row>) {
    let mut writer = DeadlineWriter::new(Instant::from_nanos(u64::MAX - 2));
    let cell = writer.cell();
    let raw = || (0..1_000u32).map(|_| boot_nanos()).fold(0, u64::wrapping_add);
    let clock = || Instant::from_nanos(boot_nanos());
    let read = || (0..1_000u32).filter(|_| black_box(&cell).valid_until(clock).is_some()).count();
    let (ratio, floor) = paired(61, raw, read);
    rows.push(Row::ratio(
        "deadline cell read / one raw clock read",
        "<= 1.05",
        ratio,
        &format!("{:.1} ns the clock read", floor / 1_000.0),
    ));

    let other = writer.cell();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let halt = std::sync::Arc::clone(&stop);
    let second = std::thread::spawn(move || {
        while !halt.load(Ordering::Relaxed) {
            black_box(other.valid_until(|| Instant::from_nanos(boot_nanos())));
        }
    });
    let (with_second, _) = paired(61, raw, read);
    stop.store(true, Ordering::Relaxed);
    drop(second.join());
    writer.set(Instant::from_nanos(u64::MAX - 1)).expect("not latched");
    rows.push(Row::ratio("the same with a second reader", "no slowdown", with_second, ""));

    let before = allocations();
    black_box(read());
    let allocations = allocations() - before;
    rows.push(Row::count("allocations in 1,000 reads", "0", allocations));
}

/// Inputs a second, with few leases and with a million.
pub(crate) fn throughput(rows: &mut Vec<Row>) {
    let mut per_lease_count = Vec::new();
    for count in [1, 1_000_000] {
        let (mut engine, mut now) = holding(count);
        renew(&mut engine, &mut now, 1_000);
        let rounds = 200_000;
        let start = wall();
        let inputs = renew(&mut engine, &mut now, rounds);
        let seconds = start.elapsed().as_secs_f64();
        per_lease_count.push(seconds / f64::from(rounds));
        let rate = inputs as f64 / seconds / 1e6;
        rows.push(Row::value(
            &format!("engine inputs a second, {count} leases held"),
            ">= 3 M",
            format!("{rate:.1} M"),
        ));
    }
    let ratio = per_lease_count[1] / per_lease_count[0];
    rows.push(Row::value("a renewal with 1,000,000 leases / with 1", "the same", format!("{ratio:.2}")));
    let (mut engine, mut now) = holding(1_000);
    renew(&mut engine, &mut now, 100);
    let before = allocations();
    renew(&mut engine, &mut now, 1_000);
    let each = (allocations() - before) as f64 / 1_000.0;
    rows.push(Row::value("allocations of one keep-alive in the engine", "flat", format!("{each:.1}")));
}

/// Bytes for each held lease.
pub(crate) fn memory(rows: &mut Vec<Row>) {
    let before = live_bytes();
    let (engine, _) = holding(1_000_000);
    let each = live_bytes().saturating_sub(before) as f64 / 1e6;
    black_box(&engine);
    rows.push(Row::value("bytes for each held lease, at 1,000,000", "<= 160", format!("{each:.0}")));
}
