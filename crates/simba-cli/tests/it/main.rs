//! The command as its users meet it: real processes on a real file.

mod bad_input;
mod contention;
mod demo;
mod guard;
mod stage;
mod verbs;
