//! The conformance suite for backends.

mod batches;
mod calls;
mod incident;
mod instants;
mod leases;
mod people;
mod races;
mod sessions;
mod text;
mod versions;

use std::{future::Future, pin::Pin, process::ExitCode, sync::Arc, time::Duration};

use simba_backend::{
    Acquired, DynBackend, FencingToken, Grant, Held, KeepAlive, LeaseName, NodeLabel, Outcome, Owned, Owner,
    Released, SessionId, Version, VersionStep,
};

use crate::{Judged, Verdict, conclude, ensure, runtime};

/// A fresh, empty store, as a backend's author hands it to the suite. Each case gets one of its own.
pub trait Store: Send + Sync {
    /// Another connection to this very store, as another process would have it.
    fn handle(&self) -> Arc<dyn DynBackend>;

    /// Lets the store's clock run on by this much: moves it by hand, or waits.
    fn advance(&self, by: Duration);

    /// Lets the store's clock step back; answers whether it can.
    fn step_back(&self, by: Duration) -> bool {
        let _ = by;
        false
    }

    /// Stops the store and starts it again with what it has kept; answers whether it can. Handles are taken anew.
    fn reopen(&self) -> bool {
        false
    }

    /// Whether the store's clock stands still but for [`advance`](Self::advance), which moves it by exactly as much.
    /// By default it does not, and cases that hang on one instant are left out.
    fn exact(&self) -> bool {
        false
    }

    /// Makes every call wait until the answer is dropped, as a lock does that somebody else has; `None` if it cannot.
    fn hold(&self) -> Option<Box<dyn Send>> {
        None
    }

    /// Frees a lease by hand, past the contract, as a person does at the store's own prompt; answers whether it can.
    fn tamper_free(&self, name: &LeaseName) -> bool {
        let _ = name;
        false
    }
}

/// A store shared by the parts of a case.
pub(crate) type Shared = Arc<dyn Store>;

type Body = fn(Shared) -> Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// One case.
pub(crate) struct Case {
    name: &'static str,
    clause: &'static str,
    /// Whether the case concerns a store: by what it claims, and by what its test can do to it.
    concerns: fn(&dyn Store) -> bool,
    body: Body,
}

/// A case that concerns every backend, or those of a capability, or those whose test can do what is needed.
macro_rules! case {
    ($clause:literal, $name:ident) => {
        $crate::backend::Case {
            name: concat!($clause, "_", stringify!($name)),
            clause: $clause,
            concerns: |_| true,
            body: |store| Box::pin($name(store)),
        }
    };
    ($clause:literal, $name:ident, if $capability:ident) => {
        $crate::backend::Case {
            concerns: |store| store.handle().capabilities().$capability,
            ..case!($clause, $name)
        }
    };
    ($clause:literal, $name:ident, where $able:expr) => {
        $crate::backend::Case { concerns: $able, ..case!($clause, $name) }
    };
}
pub(crate) use case;

/// Can its test start it anew?
pub(crate) fn reopens(store: &dyn Store) -> bool {
    store.reopen()
}

/// Can its test set the clock back?
pub(crate) fn steps_back(store: &dyn Store) -> bool {
    store.step_back(Duration::ZERO)
}

fn cases() -> Vec<Case> {
    [
        sessions::cases(),
        instants::cases(),
        leases::cases(),
        batches::cases(),
        versions::cases(),
        races::cases(),
        calls::cases(),
        text::cases(),
        people::cases(),
        incident::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The names of all cases, in their order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    cases().iter().map(|case| case.name).collect()
}

fn run_one(case: &Case, store: Box<dyn Store>) -> Verdict {
    let store: Shared = store.into();
    let body = (case.body)(store);
    runtime()?.block_on(async {
        let limited = tokio::time::timeout(Duration::from_secs(120), tokio::spawn(body)).await;
        match limited {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(panic)) => Err(format!("the backend panicked: {panic}")),
            Err(_) => Err("the case did not end within 120 s".into()),
        }
    })
}

/// The cases that concern the store, and the others. One store is made for the question.
fn parted(make: &impl Fn() -> Box<dyn Store>, wanted: impl Fn(&str) -> bool) -> (Vec<Case>, Vec<Case>) {
    let asked = make();
    cases().into_iter().filter(|case| wanted(case.name)).partition(|case| (case.concerns)(&*asked))
}

/// Runs every case that concerns the backend, as the `main` of a test with `harness = false`. The others are no
/// tests of it: they are listed on the error output.
pub fn run(make: impl Fn() -> Box<dyn Store> + Clone + Send + 'static) -> ExitCode {
    let (concerned, others) = parted(&make, |_| true);
    for case in others {
        eprintln!("left out: {}: the store does not claim it, or its test cannot bring it about", case.name);
    }
    let trial = |case: Case| {
        let make = make.clone();
        libtest_mimic::Trial::test(case.name, move || run_one(&case, make()).map_err(Into::into))
    };
    conclude(concerned.into_iter().map(trial).collect())
}

/// Runs every case that concerns the backend, and answers what each found; for showing that a bug is caught.
pub fn judge(make: impl Fn() -> Box<dyn Store>) -> Vec<Judged> {
    judge_only(make, |_| true)
}

/// Runs those of the cases that concern the backend whose name `wanted` takes.
pub fn judge_only(make: impl Fn() -> Box<dyn Store>, wanted: impl Fn(&str) -> bool) -> Vec<Judged> {
    let concerned = parted(&make, wanted).0;
    concerned.into_iter().map(|case| Judged { name: case.name, verdict: run_one(&case, make()) }).collect()
}

/// The names of the cases that do not concern the backend.
pub fn left_out(make: impl Fn() -> Box<dyn Store>) -> Vec<&'static str> {
    parted(&make, |_| true).1.iter().map(|case| case.name).collect()
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.clause)
    }
}

/// The limit of a call in these cases: far more than any of them takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
/// The lease time of a session, unless a case needs another.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

pub(crate) fn owner(node: &str) -> Owner {
    Owner {
        node: NodeLabel::sanitized(node),
        host: NodeLabel::sanitized("rack-7"),
        pid: 4_711,
        version: "9.8.7".into(),
    }
}

pub(crate) fn name(text: &str) -> LeaseName {
    LeaseName::new(text).unwrap_or_else(|error| panic!("{error}"))
}

/// A session of its own connection.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) store: Arc<dyn DynBackend>,
    pub(crate) session: SessionId,
}

impl Node {
    pub(crate) async fn open(store: &Shared, label: &str) -> Result<Self, String> {
        Self::open_for(store, label, LEASE).await
    }

    pub(crate) async fn open_for(store: &Shared, label: &str, lease: Duration) -> Result<Self, String> {
        let handle = store.handle();
        let opened = handle.open(lease, &owner(label), LIMIT).await.map_err(|e| format!("open: {e}"))?;
        Ok(Self { store: handle, session: opened.session })
    }

    /// Another session on the same connection.
    pub(crate) async fn again(&self, lease: Duration) -> Result<Self, String> {
        let opened =
            self.store.open(lease, &owner("again"), LIMIT).await.map_err(|e| format!("open: {e}"))?;
        Ok(Self { store: Arc::clone(&self.store), session: opened.session })
    }

    /// Acquires all of them; each has to be free or ours.
    pub(crate) async fn win_all(&self, names: &[LeaseName]) -> Result<Vec<FencingToken>, String> {
        let (_, outcomes) = self.judged(names).await?;
        let token = |(name, outcome)| match outcome {
            Outcome::Won { token } => Ok(token),
            Outcome::Held(held) => Err(format!("{name} should be free, and is held: {held:?}")),
        };
        names.iter().zip(outcomes).map(token).collect()
    }

    /// The step and the outcomes; the session has to live.
    pub(crate) async fn judged(&self, names: &[LeaseName]) -> Result<(VersionStep, Vec<Outcome>), String> {
        match self.acquire_all(names).await? {
            Acquired::Judged { step, outcomes } if outcomes.len() == names.len() => Ok((step, outcomes)),
            other => Err(format!("{} outcomes were expected, not {other:?}", names.len())),
        }
    }

    /// Releases all of them; the session has to live. Answers by how much its version rose.
    pub(crate) async fn release_all(&self, grants: &[Grant]) -> Result<u64, String> {
        let released = self.store.release(self.session, grants, LIMIT).await;
        let step = released.map_err(|e| format!("release: {e}"))?.step.ok_or("the session lives")?;
        step.after.0.checked_sub(step.before.0).ok_or(format!("the version fell: {step:?}"))
    }

    /// Fails unless the session is over for a keep-alive and for an acquire.
    pub(crate) async fn is_over(&self, why: &str) -> Verdict {
        let kept = self.keep_alive(None).await?;
        ensure!(kept == KeepAlive::Expired, "{why}: a keep-alive is answered {kept:?}");
        let got = self.acquire_all(&[name("over")]).await?;
        ensure!(got == Acquired::Expired, "{why}: an acquire is answered {got:?}");
        Ok(())
    }

    pub(crate) async fn acquire_all(&self, names: &[LeaseName]) -> Result<Acquired, String> {
        self.store.acquire(self.session, names, LIMIT).await.map_err(|e| format!("acquire: {e}"))
    }

    /// The outcome for one name.
    pub(crate) async fn acquire(&self, text: &str) -> Result<Outcome, String> {
        match self.acquire_all(&[name(text)]).await? {
            Acquired::Judged { outcomes, .. } if outcomes.len() == 1 => Ok(outcomes[0].clone()),
            other => Err(format!("one outcome was expected for {text}, not {other:?}")),
        }
    }

    pub(crate) async fn win(&self, text: &str) -> Result<FencingToken, String> {
        match self.acquire(text).await? {
            Outcome::Won { token } => Ok(token),
            Outcome::Held(held) => Err(format!("{text} should be free, and is held: {held:?}")),
        }
    }

    pub(crate) async fn refused(&self, text: &str) -> Result<Held, String> {
        match self.acquire(text).await? {
            Outcome::Held(held) => Ok(held),
            Outcome::Won { token } => {
                Err(format!("{text} should be held elsewhere, and was won with {token:?}"))
            }
        }
    }

    pub(crate) async fn release(&self, text: &str, token: FencingToken) -> Result<Released, String> {
        let grants = [Grant { name: name(text), token }];
        self.store.release(self.session, &grants, LIMIT).await.map_err(|e| format!("release: {e}"))
    }

    pub(crate) async fn keep_alive(&self, known: Option<Version>) -> Result<KeepAlive, String> {
        self.store.keep_alive(self.session, known, LIMIT).await.map_err(|e| format!("keep-alive: {e}"))
    }

    pub(crate) async fn renew(&self) -> Verdict {
        match self.keep_alive(None).await? {
            KeepAlive::Alive { .. } => Ok(()),
            KeepAlive::Expired => Err("the session should live, and is answered Expired".into()),
        }
    }

    /// What the store lists as ours.
    pub(crate) async fn owned(&self) -> Result<(Version, Vec<(String, u64)>), String> {
        match self.keep_alive(None).await? {
            KeepAlive::Alive { owned: Owned::Listed { version, leases }, .. } => {
                let mut list: Vec<_> = leases.iter().map(|g| (g.name.to_string(), g.token.get())).collect();
                list.sort();
                Ok((version, list))
            }
            other => Err(format!("a list was asked for, not {other:?}")),
        }
    }

    pub(crate) async fn is_expired(&self) -> Result<bool, String> {
        Ok(self.keep_alive(None).await? == KeepAlive::Expired)
    }

    pub(crate) async fn close(&self) -> Verdict {
        self.store.close(self.session, LIMIT).await.map_err(|e| format!("close: {e}"))
    }
}
