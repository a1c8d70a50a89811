//! The client on a real SQLite file.

mod support;

use simba::clock::BootClock;
use simba::clock::Clock;
use simba::{Error, Simba};
use support::*;

#[tokio::test]
async fn two_clients_hand_a_lease_over_on_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("simba.db").display());
    let a = Simba::builder_from_url(&url).unwrap().node("a").build().unwrap();
    let b = Simba::builder_from_url(&url).unwrap().node("b").build().unwrap();
    a.ready(LONG).await.unwrap();
    b.ready(LONG).await.unwrap();
    let mut took = Vec::new();
    let mut last = 0;
    for _ in 0..10 {
        let holder = a.election("job").unwrap().start().unwrap();
        let first = led(&holder).await.token().get();
        let waiter = b.election("job").unwrap().start().unwrap();
        until("refused", || b.snapshot().election("job").is_some_and(|view| view.next_at.is_some())).await;
        let who = b.inspect().who("job").await.unwrap().unwrap();
        assert_eq!(who.held.unwrap().owner.node.as_str(), "a");
        let from = BootClock.now();
        let stop = holder.stop();
        let second = led(&waiter).await.token().get();
        took.push(BootClock.now().saturating_since(from));
        assert!(last < first && first < second, "{last} {first} {second}");
        last = second;
        stop.await;
        waiter.stop().await;
    }
    took.sort_unstable();
    assert!(took[took.len() / 2] < millis(50), "{took:?}");
    soon("closed", a.close()).await;
    soon("closed", b.close()).await;
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = Simba::connect(&format!("sqlite:{}", folder.path().display())).await.unwrap_err();
    assert!(matches!(error, Error::Store(_)), "{error}");
    let garbage = folder.path().join("garbage.db");
    std::fs::write(&garbage, [0x55; 8_192]).unwrap();
    let error = match Simba::connect(&format!("sqlite:{}", garbage.display())).await {
        Ok(simba) => simba.ready(secs(2)).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("garbage.db"), "{error}");
    assert_eq!(std::fs::read(&garbage).unwrap(), [0x55; 8_192], "nothing was written to it");
}
