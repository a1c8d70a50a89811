//! Distributed leases, elections and terms with fencing tokens.
//!
//! Several copies of a service run, and exactly one may do a piece of work at a time. Simba gives that copy a
//! **lease** on a store, tells it at once when the lease is no longer safe to rely on, and hands it a **fencing
//! token**, with which the resource that is worked on can refuse a stale owner.
//!
//! ```
//! use simba::{Flow, LeadError, Simba};
//! use std::time::Duration;
//!
//! # fn settle(token: u64) {}
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let simba = Simba::connect("memory:").await?;
//!
//! let settled: Result<u32, LeadError<simba::TermExpired>> = simba
//!     .election("report")?
//!     .lead(|term| async move {
//!         let mut settled = 0;
//!         for _batch in 0..3 {
//!             // Do not begin a step that the term may not outlast,
//!             term.ensure_valid(Duration::from_secs(2))?;
//!             // and let the resource refuse a token below the highest it has seen.
//!             settle(term.token().get());
//!             settled += 1;
//!         }
//!         Ok(Flow::Stop(settled))
//!     })
//!     .await;
//! assert_eq!(settled?, 3);
//!
//! simba.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The nouns
//! * A [client](Simba) has one **session** on the store and renews it with one keep-alive, whatever the number of
//!   leases. It runs on a thread of its own: code of yours that blocks every other thread does not make a
//!   keep-alive late.
//! * An [election](Simba::election) contends for one lease by its name.
//! * A [`Term`] is one period in which this node owns the lease. It has a [token](Term::token), and one end with a
//!   [reason](RevokeReason). [`Term::is_valid`] is right on the first look after any pause, a suspended machine
//!   included, and what was once false stays false.
//!
//! # What it does not promise
//! A term's validity says when to *start* a step; it is never a proof that nobody else owns the lease. A process can
//! be paused after any check. Only the resource can refuse a stale owner, and it needs the token for that.
//!
//! # Ways to run an election
//!
//! | | the work runs | |
//! |---|---|---|
//! | [`lead`](ElectionBuilder::lead) | within the caller's future | may borrow; returns a value |
//! | [`run_while_leader`](ElectionBuilder::run_while_leader) | on a task of the runtime | gets a state of its own for each term |
//! | [`run_while_leader_blocking`](ElectionBuilder::run_while_leader_blocking) | on a thread | needs no runtime |
//! | [`terms`](ElectionBuilder::terms) | nowhere | a stream of paired events |
//! | [`listen`](ElectionBuilder::listen) | nowhere | a [`Listener`] with callbacks |
//! | [`watch`](ElectionBuilder::watch) | nowhere | the present state, as a cached hint |
//!
//! Work that runs until it is stopped:
//!
//! ```
//! use simba::{Simba, Term, TermExpired};
//! use std::{sync::Arc, sync::atomic::{AtomicU32, Ordering}, time::Duration};
//!
//! async fn bill(term: Term, done: Arc<AtomicU32>) -> Result<(), TermExpired> {
//!     loop {
//!         term.ensure_valid(Duration::from_millis(100))?;
//!         done.fetch_add(1, Ordering::SeqCst);
//!         tokio::task::yield_now().await;
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let simba = Simba::connect("memory:").await?;
//! let done = Arc::new(AtomicU32::new(0));
//! let billing = simba.election("billing")?.run_while_leader(Arc::clone(&done), bill)?;
//! # while done.load(Ordering::SeqCst) == 0 { tokio::task::yield_now().await; }
//!
//! // Revokes the term, drops the work, frees the lease; then it is done.
//! billing.stop().await;
//! # simba.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Terms as a stream:
//!
//! ```
//! use simba::{RevokeReason, Simba, TermEvent};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let simba = Simba::connect("memory:").await?;
//! let mut terms = simba.election("cache")?.terms()?;
//! while let Some(event) = terms.next().await {
//!     match event {
//!         TermEvent::Elected(term) => {
//!             assert_eq!(term.token().get(), 1);
//!             drop(terms.election().stop());
//!         }
//!         TermEvent::Revoked { reason, .. } => assert_eq!(reason, RevokeReason::Stopped),
//!         _ => {}
//!     }
//! }
//! # simba.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to go on
//! * [`rules`]: what happens when a handle or future is dropped, outside of a runtime, after a panic, and inside a
//!   callback.
//! * [`Interrupt`] and [`OnError`]: how work ends that does not end by itself.
//! * [`Timing`]: the lease time and what follows from it.
//! * [`Event`]: what happens inside, and [`Builder::on_event`]. The same goes to `tracing`; the span `simba.term`
//!   around leader work carries the lease and its token.
//! * [`clock`]: which clock is read, and clocks for tests.
//! * [`Inspector`]: who holds what.
//!
//! # Stores
//! None is compiled in by default. Choose by features, each with a module of its name: `sqlite`, `postgres`, `mysql`,
//! `redis`, `memory`. Any implementation of [`backend::Backend`] will do, see [`Simba::builder`].

pub mod clock;
pub mod rules;

mod builder;
mod client;
mod contender;
mod context;
mod driver;
mod election;
mod error;
mod events;
mod fence;
mod inspect;
mod lead;
mod listener;
mod mailbox;
mod observe;
mod planted;
mod store;
mod term;
mod wait;
mod work;

pub use builder::Builder;
pub use client::{Simba, Snapshot};
pub use election::{Election, ElectionBuilder, Leadership, LeadershipWatch, TermEvent, Terms};
pub use error::{Error, LeadError, TermExpired};
pub use events::{Event, Events};
pub use fence::{FencedCell, Stale};
pub use inspect::Inspector;
pub use listener::Listener;
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use store::{StoreOptions, open_store, store_schema};
pub use term::{Revoked, Term};
pub use wait::Completion;
pub use work::{Flow, Interrupt, OnError, WorkOutput};

pub use simba_backend as backend;
pub use simba_backend::{
    FencingToken, Forced, Held, HeldRecord, InspectQuery, Inspection, LeaseName, LeaseRecord, NameError,
    Namespace, NodeLabel, Owner, SessionId, TokenError,
};
pub use simba_core::{
    Drift, DriftError, ElectionView, Instant, RevokeReason, Role, SessionEnd, SessionStatus, SessionView,
    Timing, TimingBuilder, TimingError, local_validity,
};

#[cfg(feature = "memory")]
pub use simba_memory as memory;
#[cfg(feature = "redis")]
pub use simba_redis as redis;
#[cfg(feature = "mysql")]
pub use simba_sql::mysql;
#[cfg(feature = "postgres")]
pub use simba_sql::postgres;
#[cfg(feature = "sqlite")]
pub use simba_sql::sqlite;
