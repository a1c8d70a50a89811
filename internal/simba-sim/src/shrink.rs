//! The same violation in a smaller world: a shorter first act, fewer faults, fewer nodes and names, rounder values.

use crate::{
    planted::Bug,
    report::guarded,
    swarm::{Fault, Options},
    world::{Plan, Violation},
};

/// Makes a world smaller for as long as it breaks the same rule. `None` if it breaks none. Answers the world, what
/// it breaks, and how many worlds were simulated.
#[must_use]
pub fn shrink(options: &Options, bug: Option<Bug>) -> Option<(Options, Violation, u64)> {
    let fails = |options: &Options| guarded(&Plan { bug, ..Plan::of(options.clone()) }).violation;
    let mut best = options.clone();
    let mut violation = fails(&best)?;
    let mut runs = 1;
    loop {
        let before = best.clone();
        for candidate in smaller(&best, &violation) {
            runs += 1;
            if let Some(same) = fails(&candidate).filter(|v| v.rule == violation.rule) {
                best = candidate;
                violation = same;
            }
        }
        if best == before {
            return Some((best, violation, runs));
        }
    }
}

fn smaller(options: &Options, violation: &Violation) -> Vec<Options> {
    let mut candidates = Vec::new();
    let mut offer = |change: &dyn Fn(&mut Options)| {
        let mut candidate = options.clone();
        change(&mut candidate);
        if candidate != *options {
            candidates.push(candidate);
        }
    };
    let seen = violation.at / 1_000_000_000 + 1;
    offer(&|o| o.horizon_s = o.horizon_s.min(seen));
    offer(&|o| o.horizon_s = (o.horizon_s / 2).max(1));
    offer(&|o| o.horizon_s = (o.horizon_s * 9 / 10).max(1));
    for bit in 0..Fault::ALL.len() {
        offer(&|o| o.faults &= !(1 << bit));
    }
    offer(&|o| o.nodes = (o.nodes - 1).max(1));
    offer(&|o| o.names = (o.names - 1).max(1));
    let simple: [&dyn Fn(&mut Options); 19] = [
        &|o| o.broken = 0,
        &|o| o.regime = 0,
        &|o| o.twice = 0,
        &|o| o.lost_out = 0,
        &|o| o.lost_back = 0,
        &|o| o.tail = 0,
        &|o| o.humble = 0,
        &|o| o.refused = 0,
        &|o| o.writes = 0,
        &|o| o.work = 0,
        &|o| o.stubborn = 0,
        &|o| o.command_ms = 0,
        &|o| o.lag_us = 0,
        &|o| o.carry = 10,
        &|o| o.cap_ms = 0,
        &|o| o.granularity = 1,
        &|o| o.clocks = 0,
        &|o| o.hints_lost = 1_000,
        &|o| (o.delay_min_us, o.delay_max_us) = (0, 1_000),
    ];
    for change in simple {
        offer(change);
    }
    candidates
}
