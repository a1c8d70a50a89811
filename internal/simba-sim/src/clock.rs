//! A node's clock: piecewise linear in true time, exact to a billionth of a nanosecond, so that "when does this
//! clock show that" has one answer and nothing has to be sampled.

const BILLION: u64 = 1_000_000_000;

/// True time is the store's own clock as long as nobody steps it; a node's clock runs at some rate against it.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// The true instant at which the present rate began.
    since: u64,
    /// What the clock showed then: nanoseconds, and billionths of one.
    shown: u64,
    fraction: u64,
    /// Billionths of a nanosecond that pass here in one true nanosecond.
    rate: u64,
}

impl Clock {
    pub(crate) const fn new(shown: u64, rate: u64) -> Self {
        Self { since: 0, shown, fraction: 0, rate }
    }

    fn exact(&self, at: u64) -> (u64, u64) {
        let passed = at.saturating_sub(self.since);
        let (seconds, rest) = (passed / BILLION, passed % BILLION);
        let small = rest * self.rate + self.fraction;
        (self.shown + seconds * self.rate + small / BILLION, small % BILLION)
    }

    /// What the clock shows at a true instant.
    pub(crate) fn read(&self, at: u64) -> u64 {
        self.exact(at).0
    }

    /// The first true instant at which the clock shows `target` or more; `None` if it stands still.
    pub(crate) fn when(&self, target: u64) -> Option<u64> {
        if target <= self.shown {
            return Some(self.since);
        }
        if self.rate == 0 {
            return None;
        }
        let missing = u128::from(target - self.shown) * u128::from(BILLION) - u128::from(self.fraction);
        let passed = missing.div_ceil(u128::from(self.rate));
        Some(self.since.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)))
    }

    /// Goes on at another rate from now.
    pub(crate) fn set_rate(&mut self, at: u64, rate: u64) {
        (self.shown, self.fraction) = self.exact(at);
        self.since = at;
        self.rate = rate;
    }

    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn when_is_the_first_instant_that_shows_it() {
        let mut rng = Rng::new(5);
        for _ in 0..1_000 {
            let mut clock = Clock::new(rng.below(1 << 40), rng.between(BILLION / 2, 2 * BILLION));
            let slew = rng.below(1 << 40);
            clock.set_rate(slew, rng.between(BILLION / 2, 2 * BILLION));
            let target = clock.read(slew) + rng.between(1, 1 << 42);
            let at = clock.when(target).expect("it runs");
            assert!(clock.read(at) >= target && clock.read(at - 1) < target, "{clock:?} {target}");
        }
    }
}
