//! The contract between Simba and a store.
//!
//! A store keeps **sessions** (one per node, each with an expiry) and **leases** (`name -> (session, token)`). An
//! implementation of [`Backend`] is a small translation of these calls to one store. It holds no rule of
//! elections or terms; those live in the engine, which sees only the replies defined here.
//!
//! # What every backend promises
//!
//! Each clause has cases in the conformance suite (`simba-tck`), which prints them by this number.
//!
//! * **C1 lower bound.** `remaining` of an open or a keep-alive is measured by the store's own clock and is never
//!   longer than the truth: at some instant between sending and reply the store will wait at least that long.
//!   Rounded down.
//! * **C2 one judge.** Judging a session dead, taking over a lease of it and refusing its later calls are one
//!   atomic decision. After it no order of concurrent calls revives the session, also when the store's clock
//!   steps back.
//! * **C3 live sessions only.** A grant needs a session that is alive at the instant of granting. An expired or
//!   unknown session is answered `Expired`, and nothing is written for it.
//! * **C4 conditional release.** A release changes the store only where name, session and token all match.
//!   Everything else is a success without effect.
//! * **C5 close.** Closing frees every lease of the session at once, and of no other. Closing again is harmless.
//! * **C6 durable tokens.** A token is greater than zero, rises with every new grant of its name, and is reset by
//!   nothing: not by release, expiry, close, clean-up or restart.
//! * **C7 repeating is harmless.** An acquire by the session that owns the name answers the existing token and
//!   changes nothing; so does a repeated release or close.
//! * **C8 the version tells all.** A session's [`Version`] rises by one with each lease that becomes its own or
//!   ceases to be, atomically with the change. A keep-alive that names the present version is answered
//!   `Unchanged` in constant time and size; any other is answered with the whole list, read at the same point as
//!   the renewal.
//! * **C9 names byte for byte.** Two names are one lease exactly when their bytes are equal.
//! * **C10 one round trip.** A batch of any size is one call, and each name in it is judged by itself.
//! * **C11 bounded and cancellable.** No call outlives its limit by more than a scheduling delay; a call can be
//!   dropped at any await point, and the next call finds a clean connection.
//! * **C12 refusals tell.** A refused acquire says how long the holder's session lives, if the store knows it,
//!   rounded up; a watch, if claimed, tells of each release.
//! * **C13 people.** A forced release frees exactly the term whose token was named, and raises the record's token in
//!   the same step; an eviction ends exactly one session. What an owner does afterwards is refused as after an expiry.
//!
//! This crate is `no_std` and has no dependencies: it is read by people who write a backend, and it changes slowly.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod backend;
mod capability;
mod doctor;
mod failure;
mod hint;
mod name;
mod reply;
mod schema;
mod session;
mod token;

pub use backend::{Backend, BoxFuture, DynBackend};
pub use capability::Capabilities;
pub use doctor::{Examination, Finding, Level, Survives, TokenPromise};
pub use failure::{Effect, Failure, FailureKind};
pub use hint::{Hint, HintSink};
pub use name::{LeaseName, MAX_NAME, NameError, Namespace, NodeLabel};
pub use reply::{
    Acquired, Forced, Grant, Held, HeldRecord, InspectQuery, Inspection, KeepAlive, LeaseRecord, Opened,
    Outcome, Owned, Released, Version, VersionStep,
};
pub use schema::{Schema, SchemaState};
pub use session::{Owner, SessionId, SessionIdError};
pub use token::{FencingToken, TokenError};
