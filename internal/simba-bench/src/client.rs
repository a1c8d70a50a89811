//! The client: what a user's thread pays for a look at its term.

use std::{error::Error, hint::black_box, time::Duration};

use simba::{Election, Simba, Term, TermEvent, memory::MemoryBackend};

use crate::{
    clock::{boot_nanos, paired},
    table::Row,
};

pub(crate) fn term_reads(rows: &mut Vec<Row>) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let client = Simba::builder(MemoryBackend::new(boot_nanos)).build()?;
    let election = client.election("bench")?.start()?;
    let term = runtime.block_on(first_term(&election))?;
    let raw = || (0..1_000u32).map(|_| boot_nanos()).fold(0, u64::wrapping_add);
    let valid = || (0..1_000u32).filter(|_| black_box(&term).is_valid()).count();
    let (ratio, floor) = paired(61, raw, valid);
    let note = format!("{:.1} ns the clock read", floor / 1_000.0);
    rows.push(Row::ratio("Term::is_valid / one raw clock read", "<= 1.05", ratio, &note));
    let remaining = || (0..1_000u32).map(|_| black_box(&term).remaining()).sum::<Duration>();
    let (ratio, _) = paired(61, raw, remaining);
    rows.push(Row::ratio("Term::remaining / one raw clock read", "<= 1.15", ratio, ""));
    runtime.block_on(async { client.close().await });
    Ok(())
}

async fn first_term(election: &Election) -> Result<Term, Box<dyn Error>> {
    match election.terms().next().await {
        Some(TermEvent::Elected(term)) => Ok(term),
        _ => Err("no term".into()),
    }
}
