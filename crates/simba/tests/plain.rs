//! The plain path: one node, one election, every way to run it.

use simba::clock::{BootClock, Clock};
use simba::memory::MemoryBackend;
use simba::{Flow, LeadError, Leadership, RevokeReason, Simba, TermEvent};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

fn store() -> MemoryBackend {
    MemoryBackend::new(|| BootClock.now().as_nanos())
}

#[tokio::test]
async fn elected_worked_stopped() {
    let simba = Simba::builder(store()).build().unwrap();
    simba.ready(LONG).await.unwrap();
    let mut terms = simba.election("report").unwrap().terms().unwrap();
    let Some(TermEvent::Elected(term)) = terms.next().await else { panic!("not elected") };
    assert!(term.is_valid());
    assert_eq!(term.token().get(), 1);
    assert!(matches!(terms.election().leadership(), Leadership::Leader(_)));
    let who = simba.inspect().who("report").await.unwrap().unwrap();
    assert_eq!(who.token, term.token());
    terms.election().stop().await;
    assert!(!term.is_valid());
    assert_eq!(term.revoked().await, RevokeReason::Stopped);
    assert!(matches!(terms.next().await, Some(TermEvent::Revoked { reason: RevokeReason::Stopped, .. })));
    assert!(terms.next().await.is_none());
    simba.close().await;
}

#[tokio::test]
async fn lead_returns_the_value() {
    let simba = Simba::builder(store()).build().unwrap();
    let got: Result<u64, LeadError<String>> = simba
        .election("report")
        .unwrap()
        .lead(|term| async move { Ok(Flow::Stop(term.token().get())) })
        .await;
    assert_eq!(got, Ok(1));
    assert!(simba.inspect().who("report").await.unwrap().unwrap().held.is_none());
    simba.close().await;
}
