//! I6, I9: once a term has read invalid it never reads valid again, and reading needs no engine.

use std::collections::BTreeSet;

use simba_core::TermId;

use super::Broken;

#[derive(Debug, Default)]
pub(crate) struct Latch {
    dead: BTreeSet<(usize, u32, TermId)>,
}

impl Latch {
    /// A reader has looked.
    pub(crate) fn read(&mut self, node: usize, boot: u32, term: TermId, valid: bool) -> Result<(), Broken> {
        let key = (node, boot, term);
        if !valid {
            self.dead.insert(key);
        } else if self.dead.contains(&key) {
            return Err(("I6", format!("{term:?} of node {node} reads valid after it had read invalid")));
        }
        Ok(())
    }
}
