//! The store's clock: one that every process of the host reads the same, and that nobody can set.

use std::{fmt, fs, sync::Arc};

use rustix::time::{ClockId, clock_gettime};
use simba_backend::{Effect, Failure, FailureKind};

/// A clock in nanoseconds, and the domain in which its readings can be compared. Sessions of another domain are
/// over: the host was booted again since.
#[derive(Clone)]
pub struct StoreClock {
    read: Arc<dyn Fn() -> u64 + Send + Sync>,
    domain: Arc<str>,
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreClock({})", self.domain)
    }
}

impl StoreClock {
    /// A clock that a test moves by hand.
    pub fn new(domain: &str, read: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read), domain: domain.into() }
    }

    /// The kernel's boot-time clock. A process in a time namespace sees it shifted by a constant, which is taken
    /// out, so that all processes of the host agree.
    ///
    /// # Errors
    /// If the kernel does not tell the boot's id: without it, sessions from before a reboot cannot be told apart.
    pub fn boot_time() -> Result<Self, Failure> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(|error| {
            let text = format!(
                "cannot read the boot id of this machine (/proc/sys/kernel/random/boot_id: {error}); leases in an \
                 SQLite file need a Linux host with /proc mounted"
            );
            Failure::new(FailureKind::Unsuitable, Effect::None, text)
        })?;
        let offset = namespace_offset(&fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default());
        Ok(Self::new(boot.trim(), move || {
            let time = clock_gettime(ClockId::Boottime);
            let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec) - offset;
            u64::try_from(nanos).unwrap_or(0)
        }))
    }

    pub(crate) fn now(&self) -> u64 {
        (self.read)()
    }

    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }
}

/// The offset of the boot-time clock in nanoseconds, from the text of `/proc/self/timens_offsets`: lines of
/// `clock seconds nanoseconds`. A kernel without time namespaces has no such file, and no offset.
fn namespace_offset(text: &str) -> i128 {
    text.lines()
        .find_map(|line| {
            let mut words = line.split_whitespace();
            let (clock, seconds, nanos) = (words.next()?, words.next()?, words.next()?);
            let is_boottime = matches!(clock, "boottime" | "7");
            is_boottime
                .then_some(Some((seconds.parse::<i128>().ok()?, nanos.parse::<i128>().ok()?)))
                .flatten()
        })
        .map_or(0, |(seconds, nanos)| seconds * 1_000_000_000 + nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        assert_eq!(namespace_offset(""), 0);
        assert_eq!(
            namespace_offset("monotonic           5         0\nboottime           -3        500\n"),
            -2_999_999_500
        );
    }

    #[test]
    fn the_boot_clock_runs() {
        let clock = StoreClock::boot_time().unwrap();
        let first = clock.now();
        assert!(clock.now() >= first && first > 0);
        assert!(clock.domain().len() >= 32);
    }
}
