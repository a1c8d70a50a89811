//! What a store can do beyond the contract's core. The conformance suite tests a capability that is claimed, and
//! names the cases it leaves out for one that is not.

/// The capabilities of a backend.
///
/// ```
/// let plain = simba_backend::Capabilities::default();
/// assert!(!plain.broadcast && !plain.consecutive_tokens);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Backend::watch`](crate::Backend::watch) tells of releases.
    pub broadcast: bool,
    /// Each new token is the one before plus one.
    pub consecutive_tokens: bool,
    /// A change of a lease record that did not come through this contract (a person at the store's own prompt)
    /// raises the owner's [`Version`](crate::Version) too.
    pub sees_foreign_changes: bool,
}
