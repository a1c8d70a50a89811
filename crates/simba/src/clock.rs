//! The clock: the one place of this library in which time is read.
//!
//! A term must read invalid on the first look after any pause, a suspended machine included. So the clock must run
//! on while the machine sleeps, and nothing may be able to set it back:
//!
//! | system | clock |
//! |---|---|
//! | Linux, Android | `CLOCK_BOOTTIME` |
//! | macOS, iOS | `CLOCK_MONOTONIC`, which counts sleep there |
//! | other Unix | `CLOCK_MONOTONIC`, which may stand still while the machine sleeps: do not suspend such a node |
//! | elsewhere | the standard library's `Instant` (on Windows it counts sleep) |

use simba_core::Instant;
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A clock that a client can be driven by.
///
/// Implementations must never go back, and should run on while the machine is suspended. [`BootClock`] is the one
/// that a client uses by itself; the others are for tests.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Instant;

    /// Hands over a function that must be called whenever this clock has been moved by hand. It never blocks. A
    /// clock that runs by itself needs none.
    fn on_move(&self, wake: Arc<dyn Fn() + Send + Sync>) {
        drop(wake);
    }

    /// Whether the clock stands still but for being moved by hand.
    fn is_manual(&self) -> bool {
        false
    }
}

/// The machine's own clock, as listed [above](self).
///
/// ```
/// use simba::clock::{BootClock, Clock};
///
/// let before = BootClock.now();
/// assert!(BootClock.now() >= before);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootClock;

impl Clock for BootClock {
    #[cfg(unix)]
    #[inline]
    fn now(&self) -> Instant {
        use rustix::time::{ClockId, clock_gettime};

        #[cfg(any(target_os = "linux", target_os = "android"))]
        const CLOCK: ClockId = ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const CLOCK: ClockId = ClockId::Monotonic;

        let time = clock_gettime(CLOCK);
        // Neither part is negative, and the sum is below 2^64 for 584 years after the machine's start.
        let seconds = time.tv_sec.unsigned_abs();
        Instant::from_nanos(seconds.wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.unsigned_abs()))
    }

    #[cfg(not(unix))]
    #[expect(clippy::disallowed_methods, reason = "the one place where the clock is read")]
    fn now(&self) -> Instant {
        use std::sync::OnceLock;
        static START: OnceLock<std::time::Instant> = OnceLock::new();
        let start = *START.get_or_init(std::time::Instant::now);
        // Not zero at the start: an instant of zero has no past.
        Instant::from_nanos(1).saturating_add(start.elapsed())
    }
}

/// A clock that stands still until a test moves it.
///
/// ```
/// use simba::clock::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(15));
/// assert_eq!(clock.now().saturating_since(before), Duration::from_secs(15));
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Manual>);

struct Manual {
    nanos: AtomicU64,
    wake: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
}

impl Default for Manual {
    fn default() -> Self {
        // Some time after zero, so that instants before the start can be told from it.
        Self { nanos: AtomicU64::new(1_000_000_000), wake: Mutex::default() }
    }
}

impl ManualClock {
    /// A clock that stands at one second.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock, then wakes the clients that it drives.
    pub fn advance(&self, by: Duration) {
        self.advance_silently(by);
        let wake = self.0.wake.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for wake in wake {
            wake();
        }
    }

    /// Moves the clock and wakes nobody: what a reader sees after a pause in which nothing of this process has run.
    pub fn advance_silently(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.0.nanos.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.nanos.load(Ordering::SeqCst))
    }

    fn on_move(&self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.0.wake.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    fn is_manual(&self) -> bool {
        true
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({:?})", self.now())
    }
}

/// The clock of a tokio runtime, for tests under paused time together with
/// [`ambient_runtime`](crate::Builder::ambient_runtime). It does not count suspend: for tests only.
#[derive(Clone, Debug)]
pub struct RuntimeClock {
    runtime: tokio::runtime::Handle,
    start: tokio::time::Instant,
}

impl RuntimeClock {
    /// The clock of the runtime that the caller runs on.
    ///
    /// # Errors
    /// [`Error::NoRuntime`](crate::Error::NoRuntime) outside of a runtime.
    pub fn current() -> Result<Self, crate::Error> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| crate::Error::NoRuntime { call: "RuntimeClock::current" })?;
        Ok(Self { runtime, start: tokio::time::Instant::now() })
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Instant {
        // A paused clock is seen only from within its runtime.
        let _within = self.runtime.enter();
        Instant::from_nanos(1_000_000_000).saturating_add(self.start.elapsed())
    }
}

/// A clock that must not be read.
#[cfg(feature = "planted")]
#[derive(Debug)]
pub(crate) struct WrongClock(rustix::time::ClockId);

#[cfg(feature = "planted")]
impl WrongClock {
    pub(crate) fn of(bug: crate::Planted) -> Option<Self> {
        match bug {
            crate::Planted::M06WallClock => Some(Self(rustix::time::ClockId::Realtime)),
            crate::Planted::M07MonotonicClock => Some(Self(rustix::time::ClockId::Monotonic)),
            _ => None,
        }
    }
}

#[cfg(feature = "planted")]
impl Clock for WrongClock {
    fn now(&self) -> Instant {
        let time = rustix::time::clock_gettime(self.0);
        let nanos =
            Duration::new(time.tv_sec.unsigned_abs(), 0).as_nanos() + u128::from(time.tv_nsec.unsigned_abs());
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The clock of a client. The machine's own is called without indirection, since every `is_valid` reads it.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Boot,
    Other(Arc<dyn Clock>),
}

impl Source {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Boot => BootClock.now(),
            Self::Other(clock) => clock.now(),
        }
    }

    /// Whether this is the machine's own clock.
    pub(crate) const fn is_real(&self) -> bool {
        matches!(self, Self::Boot)
    }

    pub(crate) fn is_manual(&self) -> bool {
        match self {
            Self::Boot => false,
            Self::Other(clock) => clock.is_manual(),
        }
    }
}
