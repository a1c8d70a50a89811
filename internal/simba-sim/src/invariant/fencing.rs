//! I49, I50: a resource that checks tokens. Valid holders write to it, and so do ended ones, on purpose.

use simba_backend::FencingToken;

use super::Broken;
use crate::reach::{Point, Reach};

#[derive(Debug)]
pub(crate) struct Resources {
    highest: Vec<Option<FencingToken>>,
}

impl Resources {
    pub(crate) fn new(names: usize) -> Self {
        Self { highest: vec![None; names] }
    }

    /// A write arrives. `valid`: the term it comes from is valid at this very instant.
    pub(crate) fn write(
        &mut self,
        name: usize,
        token: FencingToken,
        valid: bool,
        reach: &mut Reach,
    ) -> Result<(), Broken> {
        let highest = self.highest[name];
        let accepted = highest.is_none_or(|highest| token >= highest);
        if accepted {
            self.highest[name] = Some(token);
        }
        match (valid, accepted) {
            (true, false) => {
                Err(("I50", format!("the valid holder's write with {token:?} was rejected: {highest:?}")))
            }
            (true, true) => Ok(()),
            (false, true) => {
                reach.hit(Point::ZombieAccepted);
                Ok(())
            }
            (false, false) => {
                reach.hit(Point::ZombieRejected);
                Ok(())
            }
        }
    }
}
