//! The reference store as the suite takes it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use simba_backend::{DynBackend, LeaseName};
use simba_memory::MemoryBackend;

pub(crate) struct Memory {
    clock: Arc<AtomicU64>,
    pub(crate) store: MemoryBackend,
}

impl Default for Memory {
    fn default() -> Self {
        let clock = Arc::new(AtomicU64::new(1_000_000_000_000));
        let read = Arc::clone(&clock);
        Self { clock, store: MemoryBackend::new(move || read.load(Ordering::SeqCst)) }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("short")
}

impl simba_tck::backend::Store for Memory {
    fn handle(&self) -> Arc<dyn DynBackend> {
        Arc::new(self.store.clone())
    }

    fn advance(&self, by: Duration) {
        self.clock.fetch_add(nanos(by), Ordering::SeqCst);
    }

    fn step_back(&self, by: Duration) -> bool {
        self.clock.fetch_sub(nanos(by), Ordering::SeqCst);
        true
    }

    fn exact(&self) -> bool {
        true
    }

    fn tamper_free(&self, name: &LeaseName) -> bool {
        self.store.with_store(|store, _| store.tamper_free(name));
        true
    }
}
