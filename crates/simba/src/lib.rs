//! Distributed leases, elections and terms with fencing tokens.

pub mod clock;

mod builder;
mod client;
mod context;
mod driver;
mod election;
mod error;
mod events;
mod inspect;
mod lead;
mod listener;
mod mailbox;
mod observe;
mod store;
mod term;
mod wait;
mod work;

pub use builder::Builder;
pub use client::{Simba, Snapshot};
pub use election::{Election, ElectionBuilder, Leadership, LeadershipWatch, TermEvent, Terms};
pub use error::{Error, LeadError, TermExpired};
pub use events::{Event, Events};
pub use inspect::Inspector;
pub use listener::Listener;
pub use term::{Revoked, Term};
pub use wait::Completion;
pub use work::{Flow, Interrupt, OnError, WorkOutput};

pub use simba_backend as backend;
pub use simba_backend::{
    FencingToken, Held, HeldRecord, InspectQuery, Inspection, LeaseName, LeaseRecord, NameError, NodeLabel,
    Owner, SessionId, TokenError,
};
pub use simba_core::{
    Drift, DriftError, ElectionView, Instant, RevokeReason, Role, SessionEnd, SessionStatus, SessionView,
    Timing, TimingBuilder, TimingError,
};

#[cfg(feature = "memory")]
pub use simba_memory as memory;
#[cfg(feature = "sqlite")]
pub use simba_sql::sqlite;
