//! The log, as an operator sees it. One test alone in its process: which subscriber listens is a matter of the process.

mod support;

use simba::SessionStatus;
use std::sync::{Arc, Mutex};
use support::*;
use tracing::span;

/// A subscriber that only keeps the text of each event.
struct Capture(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Capture {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut text = format!("SPAN {}", span.metadata().name());
        span.record(&mut Fields(&mut text));
        self.0.lock().unwrap().push(text);
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = event.metadata().level().to_string();
        event.record(&mut Fields(&mut text));
        self.0.lock().unwrap().push(text);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Fields<'a>(&'a mut String);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        use std::fmt::Write;
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

#[tokio::test]
async fn the_log_warns_once_an_outage_and_names_lease_and_token() {
    let log = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::set_global_default(Capture(Arc::clone(&log))).unwrap();
    let lab = Lab::new();
    let simba = lab.node("a");
    let inside = Arc::new(tokio::sync::Notify::new());
    let election = simba
        .election("job")
        .unwrap()
        .run_while_leader(Arc::clone(&inside), |_, inside| async move {
            inside.notify_one();
            std::future::pending::<()>().await;
        })
        .unwrap();
    soon("works", inside.notified()).await;
    let warnings = || log.lock().unwrap().iter().filter(|line| line.starts_with("WARN")).count();
    for outage in 1..=2 {
        let before = warnings();
        lab.store.set(Mode::Fail);
        lab.run_until("suspended", || simba.status() == SessionStatus::Suspended).await;
        lab.run_for(secs(4)).await;
        lab.store.set(Mode::Pass);
        lab.run_until("resumed", || simba.status() == SessionStatus::Live).await;
        until("written", || warnings() > before).await;
        assert_eq!(warnings(), outage, "{:#?}", log.lock().unwrap());
    }
    soon("stopped", election.stop()).await;
    soon("closed", simba.close()).await;
    until("written", || log.lock().unwrap().iter().any(|line| line.contains("session closed"))).await;
    let log = log.lock().unwrap();
    let has = |parts: &[&str]| log.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(&["SPAN simba.term", "lease=job", "token=1"]), "{log:#?}");
    assert!(has(&["INFO", "elected", "lease=job", "token=1"]), "{log:#?}");
    assert!(has(&["INFO", "revoked", "lease=job", "token=1", "reason=stopped"]), "{log:#?}");
    assert!(has(&["WARN", "a keep-alive failed", "the wire is cut"]), "{log:#?}");
}
