//! The verbs: one file each.

pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod incident;
pub(crate) mod lead;
pub(crate) mod node;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod status;
pub(crate) mod watch;
pub(crate) mod who;
