//! What must hold, one file each. The numbers are those of the project's list of invariants.

pub(crate) mod effects;
pub(crate) mod exclusive;
pub(crate) mod fencing;
pub(crate) mod latch;
pub(crate) mod pairing;
pub(crate) mod session;
pub(crate) mod store;
pub(crate) mod tokens;

/// What is broken: the number of the invariant, and how.
pub(crate) type Broken = (&'static str, String);
