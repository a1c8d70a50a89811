//! A small seedable generator for jitter: the same seed gives the same choices, in production and in a replay.

use core::time::Duration;

use crate::time::nanos;

/// `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): one addition and
/// a few mixes a number. Jitter needs no more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A duration in `[0, below)`; zero if `below` is zero.
    pub(crate) fn below(&mut self, below: Duration) -> Duration {
        // The high half of the product is uniform enough for jitter and needs no division.
        let wide = u128::from(self.next()) * u128::from(nanos(below));
        Duration::from_nanos(u64::try_from(wide >> 64).unwrap_or(0))
    }
}
