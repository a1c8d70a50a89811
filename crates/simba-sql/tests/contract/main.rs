//! What only `SQLite` can get wrong: files, processes, locks, the prompt, the boot's clock, and the planted bugs of
//! this store, each with the rule that catches it.
#![cfg(feature = "sqlite")]

mod files;
mod processes;
mod prompt;
mod rig;
mod rules;
mod waiting;
mod watching;
