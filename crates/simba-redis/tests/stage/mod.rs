//! A server whose clock is moved by a key.

use std::{
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use simba_backend::{DynBackend, LeaseName};
use simba_redis::{Planted, RedisBackend, RedisConfig, Tokens};
use simba_services::Redis;
use simba_tck::{backend::judge_only, failed};

struct Stage {
    server: Arc<Mutex<Redis>>,
    config: RedisConfig,
}

impl Stage {
    fn new(adjust: impl Fn(RedisConfig) -> RedisConfig) -> Self {
        let server = Redis::start_durable();
        let config = RedisConfig::from_url(&server.url()).expect("a URL").moved_clock();
        Self { server: Arc::new(Mutex::new(server)), config: adjust(config) }
    }

    fn cli(&self, command: &[&str]) -> String {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).cli(command)
    }

    fn move_clock(&self, by: &str) {
        self.cli(&["incrby", &format!("{}test-clock", self.config.prefix()), by]);
    }
}

struct Held(Arc<Mutex<Redis>>);

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).cli(&["client", "unpause"]));
    }
}

impl simba_tck::backend::Store for Stage {
    fn handle(&self) -> Arc<dyn DynBackend> {
        Arc::new(RedisBackend::new(self.config.clone()).expect("a configuration that fits"))
    }

    fn advance(&self, by: Duration) {
        self.move_clock(&by.as_micros().to_string());
    }

    fn step_back(&self, by: Duration) -> bool {
        self.move_clock(&format!("-{}", by.as_micros()));
        true
    }

    fn reopen(&self) -> bool {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.kill();
        server.start_again();
        true
    }

    fn hold(&self) -> Option<Box<dyn Send>> {
        self.cli(&["client", "pause", "60000", "ALL"]);
        Some(Box::new(Held(Arc::clone(&self.server))))
    }

    fn tamper_free(&self, name: &LeaseName) -> bool {
        self.cli(&["hdel", &format!("{}l:{name}", self.config.prefix()), "ses"]) == "1"
    }
}

type Boxed = Box<dyn simba_tck::backend::Store>;

fn plain() -> Boxed {
    Box::new(Stage::new(|config| config))
}

/// Each bug is caught by the case that is named for the promise.
fn planted() -> bool {
    let mut blind = 0;
    for &(bug, case) in Planted::ALL {
        let make = || -> Boxed { Box::new(Stage::new(|config| config.plant(bug))) };
        let found = failed(&judge_only(make, |name| name == case));
        let caught = found == [case];
        eprintln!("planted {bug:?}: {}", if caught { "caught" } else { "NOT CAUGHT" });
        blind += u32::from(!caught);
    }
    blind == 0
}

pub(crate) fn run() -> ExitCode {
    let spaced = || -> Boxed {
        Box::new(Stage::new(|config| config.namespace("staging".parse().expect("a namespace"))))
    };
    let all = [simba_tck::backend::run(plain), simba_tck::backend::run(spaced)];
    let clocked = || -> Boxed { Box::new(Stage::new(|config| config.tokens(Tokens::Clock))) };
    let judged =
        judge_only(clocked, |name| ["C4_", "C6_", "C7_", "C13_"].iter().any(|c| name.starts_with(c)));
    eprintln!("tokens=clock: {} cases, failed: {:?}", judged.len(), failed(&judged));
    let caught = planted();
    if caught && failed(&judged).is_empty() && all.iter().all(|code| *code == ExitCode::SUCCESS) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
