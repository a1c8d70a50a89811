//! The tables of a store that has some.

use alloc::string::String;

/// The statements that make and permit a store's tables, for people who apply them by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The version that this library reads and writes.
    pub version: u32,
    /// The statements that make them. They can be run as they are at the store's own prompt.
    pub sql: String,
    /// The statements that give a user the rights that leases need, and no more; `None` on a store without users.
    pub grants: Option<String>,
}

/// What a store holds of its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaState {
    /// The store has no tables.
    NotNeeded,
    /// The tables of this version.
    Present,
    /// None of them.
    Missing,
    /// Those of another version, or damaged ones: what was found, in words.
    Other(String),
}
