//! The timing of a client: parsed once, valid for ever after.

use alloc::{format, string::String};
use core::{fmt, str::FromStr, time::Duration};

use crate::{deadline::local_validity, time::nanos};

const MILLISECOND: Duration = Duration::from_millis(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The upper bound of the difference between the rate of this node's clock and that of the store's, as a fraction
/// in `[0, 0.5)`, kept in parts of 10^9 so that no floating point number takes part in a deadline.
///
/// ```
/// use simba_core::Drift;
///
/// let drift: Drift = "0.01".parse()?;
/// assert_eq!(drift.parts_per_billion(), 10_000_000);
/// assert_eq!(Drift::try_from(0.01)?, drift);
/// assert!("0.5".parse::<Drift>().is_err() && Drift::try_from(f64::NAN).is_err());
/// # Ok::<(), simba_core::DriftError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Drift(u32);

const BILLION: u32 = 1_000_000_000;

impl Drift {
    /// No difference at all: both clocks are the same one.
    pub const ZERO: Self = Self(0);
    /// One percent: far more than any quartz, and enough for a virtual machine that is being slewed.
    pub const DEFAULT: Self = Self(BILLION / 100);

    /// The bound in parts of 10^9.
    #[must_use]
    pub const fn parts_per_billion(self) -> u32 {
        self.0
    }
}

impl FromStr for Drift {
    type Err = DriftError;

    /// Parses a decimal fraction. Digits past the ninth are rounded up, which is the safe side.
    fn from_str(text: &str) -> Result<Self, DriftError> {
        let refuse = || DriftError { given: text.chars().take(40).collect() };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let plain = digits(whole) && digits(fraction) && !whole.is_empty() && text.len() <= 400;
        if !plain || whole.bytes().any(|b| b != b'0') {
            return Err(refuse());
        }
        let mut parts: u32 = 0;
        for place in 0..9 {
            let digit = fraction.as_bytes().get(place).map_or(0, |b| u32::from(b - b'0'));
            parts = parts * 10 + digit;
        }
        if fraction.bytes().skip(9).any(|b| b != b'0') {
            parts += 1;
        }
        if parts < BILLION / 2 { Ok(Self(parts)) } else { Err(refuse()) }
    }
}

impl TryFrom<f64> for Drift {
    type Error = DriftError;

    fn try_from(ratio: f64) -> Result<Self, DriftError> {
        // The shortest decimal text of a float is exact enough, never has an exponent, and "NaN", "inf" and a
        // minus sign are refused by the one parser there is.
        format!("{ratio}").parse()
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:09}", self.0);
        let digits = digits.trim_end_matches('0');
        write!(f, "0.{}", if digits.is_empty() { "0" } else { digits })
    }
}

impl fmt::Debug for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a number is not a drift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftError {
    given: String,
}

impl fmt::Display for DriftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} cannot be a drift: it must be a decimal fraction from 0 to below 0.5; use 0.01 (one percent) \
             unless a clock here is known to be worse",
            self.given
        )
    }
}

impl core::error::Error for DriftError {}

/// How long a lease lasts, how often it is renewed, and how cautious this node is about clocks.
///
/// | | default | meaning |
/// |---|---|---|
/// | lease | 15 s | the store ends a session this long after its last keep-alive |
/// | renew | lease / 3 | period of the keep-alive |
/// | drift | 0.01 | bound of the clock rate difference, in [0, 0.5) |
/// | margin | 50 ms | subtracted from every deadline |
/// | retry jitter | renew / 2 | candidates try again after renew / 2 plus a random part of this |
/// | min backoff | 100 ms | the least wait after a failed keep-alive |
/// | spread | 4 ms | candidates that learn of a release try within this time, each at a random instant |
///
/// A value of this type always satisfies: two renew periods fit into the lease, and the local validity of a lease
/// (lease x (1 - drift) - margin) is longer than a renew period.
///
/// ```
/// use core::time::Duration;
/// use simba_core::Timing;
///
/// let timing = Timing::builder().lease(Duration::from_secs(30)).build()?;
/// assert_eq!(timing.renew(), Duration::from_secs(10));
///
/// let error = Timing::builder().lease(Duration::from_secs(5)).renew(Duration::from_secs(4)).build().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "cannot use lease time 5s with renew interval 4s: two keep-alives must fit before the deadline, and \
///      2 x 4s > 5s; use a renew interval of at most 2.5s, or leave it out (a third of the lease time)"
/// );
/// # Ok::<(), simba_core::TimingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    lease: Duration,
    renew: Duration,
    drift: Drift,
    margin: Duration,
    retry_jitter: Duration,
    min_backoff: Duration,
    spread: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let lease = Duration::from_secs(15);
        let renew = lease / 3;
        Self {
            lease,
            renew,
            drift: Drift::DEFAULT,
            margin: Duration::from_millis(50),
            retry_jitter: renew / 2,
            min_backoff: Duration::from_millis(100),
            spread: Duration::from_millis(4),
        }
    }
}

impl Timing {
    /// A builder with every value left at its default.
    pub fn builder() -> TimingBuilder {
        TimingBuilder::default()
    }

    /// A builder from which [`build`](TimingBuilder::build) makes this very timing again; for a variant of it.
    pub const fn to_builder(self) -> TimingBuilder {
        TimingBuilder {
            lease: Some(self.lease),
            renew: Some(self.renew),
            drift: Some(self.drift),
            margin: Some(self.margin),
            retry_jitter: Some(self.retry_jitter),
            min_backoff: Some(self.min_backoff),
            spread: Some(self.spread),
        }
    }

    /// The store ends a session this long after its last keep-alive. It bounds the failover after a crash; a
    /// shorter one fails over sooner and tolerates less slowness.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// The period of the keep-alive, and the time limit of every call.
    #[must_use]
    pub const fn renew(&self) -> Duration {
        self.renew
    }

    /// The bound of the clock rate difference between this node and the store.
    #[must_use]
    pub const fn drift(&self) -> Drift {
        self.drift
    }

    /// What is subtracted from every deadline, on top of the drift.
    #[must_use]
    pub const fn margin(&self) -> Duration {
        self.margin
    }

    /// A refused candidate tries again after renew / 2 plus a random part of this.
    #[must_use]
    pub const fn retry_jitter(&self) -> Duration {
        self.retry_jitter
    }

    /// The least wait after a failed keep-alive.
    #[must_use]
    pub const fn min_backoff(&self) -> Duration {
        self.min_backoff
    }

    /// Candidates that learn of a release try within this time, each at a random instant of it, so that they do
    /// not all reach the store at once.
    #[must_use]
    pub const fn spread(&self) -> Duration {
        self.spread
    }
}

/// Builds a [`Timing`]; what is left out takes its default, derived from what is given.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct TimingBuilder {
    lease: Option<Duration>,
    renew: Option<Duration>,
    drift: Option<Drift>,
    margin: Option<Duration>,
    retry_jitter: Option<Duration>,
    min_backoff: Option<Duration>,
    spread: Option<Duration>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $type:ty),*) => {$(
        $(#[$doc])*
        pub const fn $field(mut self, value: $type) -> Self {
            self.$field = Some(value);
            self
        }
    )*};
}

impl TimingBuilder {
    setters! {
        /// Sets [`Timing::lease`]: from 1 ms to 365 days.
        lease: Duration,
        /// Sets [`Timing::renew`]: from 1 ms to half the lease.
        renew: Duration,
        /// Sets [`Timing::drift`].
        drift: Drift,
        /// Sets [`Timing::margin`]: from 0.
        margin: Duration,
        /// Sets [`Timing::retry_jitter`]: from 0 to 365 days.
        retry_jitter: Duration,
        /// Sets [`Timing::min_backoff`]: from 1 ms to 365 days.
        min_backoff: Duration,
        /// Sets [`Timing::spread`]: from 0 to 365 days.
        spread: Duration
    }

    /// Checks every rule and builds.
    ///
    /// # Errors
    /// The first [`TimingError`] found: ranges first, then the two rules that tie the values together.
    pub fn build(self) -> Result<Timing, TimingError> {
        let plain = Timing::default();
        let lease = self.lease.unwrap_or(plain.lease);
        // A third of the lease, but not below the least value that is allowed at all.
        let renew = self.renew.unwrap_or_else(|| (lease / 3).max(MILLISECOND.min(lease / 2)));
        let timing = Timing {
            lease,
            renew,
            drift: self.drift.unwrap_or(plain.drift),
            margin: self.margin.unwrap_or(plain.margin),
            retry_jitter: self.retry_jitter.unwrap_or(renew / 2),
            min_backoff: self.min_backoff.unwrap_or(plain.min_backoff),
            spread: self.spread.unwrap_or(plain.spread),
        };
        for (what, value, least) in [
            ("lease time", timing.lease, MILLISECOND),
            ("renew interval", timing.renew, if self.renew.is_some() { MILLISECOND } else { Duration::ZERO }),
            ("margin", timing.margin, Duration::ZERO),
            ("retry jitter", timing.retry_jitter, Duration::ZERO),
            ("min backoff", timing.min_backoff, MILLISECOND),
            ("spread", timing.spread, Duration::ZERO),
        ] {
            if value < least || value > YEAR {
                return Err(TimingError::OutOfRange { what, given: value, least });
            }
        }
        if nanos(timing.renew) * 2 > nanos(timing.lease) {
            return Err(TimingError::TwoRenewals { lease: timing.lease, renew: timing.renew });
        }
        let validity = local_validity(timing.lease, &timing);
        if validity <= timing.renew {
            return Err(TimingError::NoValidity { timing, validity });
        }
        Ok(timing)
    }
}

/// Why values do not make a [`Timing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimingError {
    /// A value is out of its range.
    OutOfRange {
        /// Which one.
        what: &'static str,
        /// What was given.
        given: Duration,
        /// The least value allowed; the largest is 365 days.
        least: Duration,
    },
    /// Two renew periods do not fit into the lease.
    TwoRenewals {
        /// The lease.
        lease: Duration,
        /// The renew interval.
        renew: Duration,
    },
    /// What drift and margin leave of the lease is no longer than a renew period: every term would flap.
    NoValidity {
        /// All the values.
        timing: Timing,
        /// What is left of the lease.
        validity: Duration,
    },
}

impl fmt::Display for TimingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { what, given, least } => write!(
                f,
                "cannot use a {what} of {given:?}: it must be from {least:?} to 365 days; \
                 write a number with its unit, like 15s or 500ms"
            ),
            Self::TwoRenewals { lease, renew } => write!(
                f,
                "cannot use lease time {lease:?} with renew interval {renew:?}: two keep-alives must fit before \
                 the deadline, and 2 x {renew:?} > {lease:?}; use a renew interval of at most {:?}, or leave it \
                 out (a third of the lease time)",
                *lease / 2
            ),
            Self::NoValidity { timing, validity } => write!(
                f,
                "cannot use lease time {:?} with renew interval {:?}, drift {} and margin {:?}: drift and margin \
                 leave {validity:?} of the lease, which must be longer than a renew interval; use a longer lease, \
                 or a smaller margin or renew interval",
                timing.lease, timing.renew, timing.drift, timing.margin
            ),
        }
    }
}

impl core::error::Error for TimingError {}
