//! One test for each promised sentence: set up, act, check. `docs/rules.md` names the test of each rule.

mod adoption;
mod callbacks;
mod candidates;
mod deadline;
mod handover;
mod rig;
mod sessions;
mod takeover;
mod timing;
