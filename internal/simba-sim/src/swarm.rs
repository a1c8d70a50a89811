//! From a seed to the options of a world. Each seed enables a random part of what can go wrong, so that rare
//! combinations appear; all of it is printed as one line when something fails.

use std::time::Duration;

use simba_core::{Drift, Timing};

use crate::rng::Rng;

macro_rules! options {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// Everything that shapes a world. Plain numbers, so that a line of text holds all of it.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Options {
            $($(#[$doc])* pub $field: u64),*
        }

        impl Options {
            /// One line of TOML.
            #[must_use]
            pub fn to_line(&self) -> String {
                let parts = [$(format!("{} = {}", stringify!($field), self.$field)),*];
                format!("options = {{ {} }}", parts.join(", "))
            }

            /// Sets one field from its name; answers whether there is such a field.
            fn set(&mut self, field: &str, value: u64) -> bool {
                match field {
                    $(stringify!($field) => self.$field = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

options! {
    /// The seed of every choice.
    seed,
    /// The length of the first act, in seconds of true time.
    horizon_s,
    /// How many nodes there are.
    nodes,
    /// How many names they contend for.
    names,
    /// Lease time asked for.
    lease_ms,
    /// Renew interval.
    renew_ms,
    /// Drift that the nodes allow for, in parts of 10^9.
    drift_ppb,
    /// Margin.
    margin_us,
    /// Retry jitter.
    jitter_ms,
    /// Least backoff.
    backoff_ms,
    /// Spread of hinted candidates.
    spread_us,
    /// Node clocks: 0 exact, 1 as slow as allowed, 2 as fast as allowed, 3 anything allowed.
    clocks,
    /// Least one-way delay.
    delay_min_us,
    /// Usual greatest one-way delay.
    delay_max_us,
    /// Messages of a thousand that take up to two lease times.
    tail,
    /// Requests of a thousand that are lost.
    lost_out,
    /// Replies of a thousand that are lost.
    lost_back,
    /// Requests of a thousand that are carried out twice.
    twice,
    /// Hints of a thousand that are lost.
    hints_lost,
    /// The unit of the store's clock, in nanoseconds.
    granularity,
    /// The longest lease that the store grants; 0 for any.
    cap_ms,
    /// Keep-alives of a thousand that the store answers with less time than it will wait.
    humble,
    /// What breaks the assumptions; see `Regime`.
    regime,
    /// The kinds of faults that happen; a bit each, see `Fault`.
    faults,
    /// Mean time between two faults.
    fault_ms,
    /// Mean time between two commands of a node's application.
    command_ms,
    /// Elections of a thousand whose terms have work.
    work,
    /// How work takes an interrupt: 0 at once, 1 late, 2 never, 3 any of these.
    stubborn,
    /// Deliveries of a thousand that the executor refuses.
    refused,
    /// How long a driver carries a call, in tenths of its patience.
    carry,
    /// Lateness of timers.
    lag_us,
    /// Whether holders write to the fenced resource.
    writes,
    /// What stays broken in the second act: 0 nothing, 1 dead, 2 cut off, 3 hears nothing, 4 cannot send, 5 paused.
    broken,
}

/// Whether the assumptions of the safety argument hold, and if not, which one is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Regime {
    /// Rates within drift, no steps, no lost writes: nothing may go wrong.
    Sound,
    /// The store's clock steps.
    StoreSteps,
    /// Node clocks run further apart from the store's than drift allows.
    TooMuchDrift,
    /// The store loses writes: an old copy takes over.
    LostWrites,
    /// A person changes records by hand.
    ByHand,
    /// The nodes' clocks stand still while the machine is suspended.
    ClockStops,
    /// The store evicts single records.
    Evicts,
}

impl Regime {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Sound,
        Self::StoreSteps,
        Self::TooMuchDrift,
        Self::LostWrites,
        Self::ByHand,
        Self::ClockStops,
        Self::Evicts,
    ];
}

/// A kind of fault that comes and goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Pause,
    LongPause,
    Crash,
    Cut,
    HearsNothing,
    CannotSend,
    Flap,
    CutAll,
    Refuses,
    Hangs,
    FailsCleanly,
    FailsUnknown,
    SlowCommit,
    HintStorm,
    Slew,
    SlowNetwork,
    Reap,
    SpuriousWakes,
}

impl Fault {
    pub(crate) const ALL: [Self; 18] = [
        Self::Pause,
        Self::LongPause,
        Self::Crash,
        Self::Cut,
        Self::HearsNothing,
        Self::CannotSend,
        Self::Flap,
        Self::CutAll,
        Self::Refuses,
        Self::Hangs,
        Self::FailsCleanly,
        Self::FailsUnknown,
        Self::SlowCommit,
        Self::HintStorm,
        Self::Slew,
        Self::SlowNetwork,
        Self::Reap,
        Self::SpuriousWakes,
    ];
}

const MS: u64 = 1_000_000;

impl Options {
    /// The options of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x51b3_b0a7);
        loop {
            let drawn = Self::draw_once(seed, &mut rng);
            if drawn.is_sound() {
                return drawn;
            }
        }
    }

    fn draw_once(seed: u64, rng: &mut Rng) -> Self {
        let lease_ms = rng.pick(&[1_000, 3_000, 15_000, 15_000, 60_000]);
        let renew_ms = lease_ms / rng.pick(&[2, 3, 3, 3, 4, 10]);
        let (delay_min_us, delay_max_us) =
            rng.pick(&[(0, 1_000), (100, 2_000), (5_000, 50_000), (5_000, 400_000), (5_000, 1_500_000)]);
        let calm = rng.chance(80);
        let mut faults = 0;
        for bit in 0..Fault::ALL.len() {
            faults |= u64::from(!calm && rng.chance(330)) << bit;
        }
        let regime = if rng.chance(720) { 0 } else { rng.between(1, 7) };
        let short = lease_ms <= 3_000;
        Self {
            seed,
            horizon_s: if short { lease_ms * rng.between(60, 360) / 1_000 } else { rng.between(900, 3_600) },
            nodes: rng.pick(&[1, 2, 2, 3, 3, 3, 4, 5, 7]),
            names: rng.pick(&[1, 1, 1, 2, 3, 5]),
            lease_ms,
            renew_ms,
            drift_ppb: rng.pick(&[0, 10_000_000, 10_000_000, 100_000_000]),
            margin_us: rng.pick(&[0, 1_000, 50_000, 50_000, lease_ms * 100]),
            jitter_ms: rng.pick(&[0, renew_ms / 2, renew_ms / 2, renew_ms]),
            backoff_ms: rng.pick(&[1, 100, 100, renew_ms / 2]),
            spread_us: rng.pick(&[0, 4_000, 4_000, 4_000, 50_000, lease_ms * 3_000]),
            clocks: rng.below(4),
            delay_min_us,
            delay_max_us: delay_max_us.min(lease_ms * 500),
            tail: if calm { 0 } else { rng.pick(&[0, 5, 20, 100]) },
            lost_out: if calm { 0 } else { rng.pick(&[0, 0, 10, 100, 300]) },
            lost_back: if calm { 0 } else { rng.pick(&[0, 0, 10, 100, 300]) },
            twice: if calm { 0 } else { rng.pick(&[0, 0, 50, 200]) },
            hints_lost: rng.pick(&[0, 100, 1_000]),
            granularity: rng.pick(&[1, 1, 1_000, 1_000_000, 1_000_000_000]),
            cap_ms: if rng.chance(150) { lease_ms / rng.pick(&[2, 3]) } else { 0 },
            humble: rng.pick(&[0, 0, 0, 50, 300]),
            regime,
            faults,
            fault_ms: lease_ms * rng.pick(&[500, 1_000, 3_000, 10_000]) / 1_000,
            command_ms: if calm { 0 } else { lease_ms * rng.pick(&[0, 1, 3, 10, 40]) },
            work: rng.pick(&[0, 500, 1_000]),
            stubborn: rng.below(4),
            refused: if calm { 0 } else { rng.pick(&[0, 0, 50, 300]) },
            carry: rng.pick(&[10, 10, 15, 30, 80]),
            lag_us: rng.pick(&[0, 0, 1_000, 20_000]),
            writes: u64::from(rng.chance(600)),
            broken: rng.pick(&[0, 0, 1, 2, 3, 4, 5]),
        }
    }

    /// Whether the values fit together.
    fn is_sound(&self) -> bool {
        let grant = if self.cap_ms == 0 { self.lease_ms } else { self.cap_ms };
        self.timing().is_some()
            && self.renew_ms >= 1
            && self.granularity * 4 <= grant * MS
            && self.margin_us * 1_000 * 4 <= grant * MS
            // The usual round trip must leave a keep-alive a chance.
            && (self.delay_max_us * 2 + self.lag_us) * 1_000 * 2 <= self.period()
    }

    /// The period of keep-alives, or somewhat less.
    pub(crate) fn period(&self) -> u64 {
        let grant = if self.cap_ms == 0 { self.lease_ms } else { self.cap_ms } * MS;
        let kept = grant / 1_000 * (1_000 - self.drift_ppb / 1_000_000);
        let validity = kept.saturating_sub(self.margin_us * 1_000).saturating_sub(self.granularity);
        self.renew().min(validity / 3)
    }

    /// The timing of every node.
    pub(crate) fn timing(&self) -> Option<Timing> {
        let drift: Drift = format!("0.{:09}", self.drift_ppb).parse().ok()?;
        Timing::builder()
            .lease(Duration::from_millis(self.lease_ms))
            .renew(Duration::from_millis(self.renew_ms))
            .drift(drift)
            .margin(Duration::from_micros(self.margin_us))
            .retry_jitter(Duration::from_millis(self.jitter_ms))
            .min_backoff(Duration::from_millis(self.backoff_ms))
            .spread(Duration::from_micros(self.spread_us))
            .build()
            .ok()
    }

    pub(crate) fn regime(&self) -> Regime {
        let number = usize::try_from(self.regime).unwrap_or(0);
        Regime::ALL.get(number).copied().unwrap_or(Regime::Sound)
    }

    pub(crate) fn enabled(&self) -> Vec<Fault> {
        (0..).zip(Fault::ALL).filter(|(bit, _)| self.faults >> bit & 1 == 1).map(|(_, fault)| fault).collect()
    }

    pub(crate) const fn lease(&self) -> u64 {
        self.lease_ms * MS
    }

    pub(crate) const fn renew(&self) -> u64 {
        self.renew_ms * MS
    }

    /// Reads what [`Options::to_line`] wrote; what is left out is zero.
    ///
    /// # Errors
    /// The part that is no field of the options.
    pub fn from_line(line: &str) -> Result<Self, String> {
        let body = line.trim().trim_start_matches("options").trim_start().trim_start_matches('=').trim();
        let body = body.strip_prefix('{').and_then(|b| b.strip_suffix('}')).ok_or_else(|| {
            format!("expected one line like `options = {{ seed = 1, .. }}`, not {:?}", crate::cut(line, 60))
        })?;
        let mut options = Self::default();
        for part in body.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let known = part.split_once('=').is_some_and(|(field, value)| {
                value.trim().parse().is_ok_and(|value| options.set(field.trim(), value))
            });
            if !known {
                return Err(format!("{:?} is no option with a number", crate::cut(part, 60)));
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_the_line_that_is_printed() {
        for seed in 0..50 {
            let options = Options::draw(seed);
            assert_eq!(Options::from_line(&options.to_line()), Ok(options));
        }
        assert!(Options::from_line("options = { seeds = 1 }").is_err());
        assert!(Options::from_line("seed 1").is_err());
    }
}
