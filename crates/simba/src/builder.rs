//! The builder of a client.

use simba_backend::{DynBackend, NodeLabel, Owner};
use simba_core::Timing;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    Event, Simba,
    clock::{Clock, Source},
    driver::{self, Parts},
    error::Error,
    observe::{Hook, Observer},
    term::runtime,
    work::block_on,
};

/// Builds a [`Simba`].
///
/// ```
/// use simba::{Simba, Timing, memory::MemoryBackend};
/// use simba::clock::{BootClock, Clock};
/// use std::time::Duration;
///
/// let store = MemoryBackend::new(|| BootClock.now().as_nanos());
/// let simba = Simba::builder(store)
///     .node("web-2")
///     .timing(Timing::builder().lease(Duration::from_secs(30)).build()?)
///     .on_event(|event| println!("{event:?}"))
///     .build()?;
/// assert_eq!(simba.node().as_str(), "web-2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    store: Arc<dyn DynBackend>,
    node: Option<String>,
    timing: Timing,
    seed: Option<u64>,
    clock: Source,
    ambient: bool,
    hooks: Vec<Hook>,
    #[cfg(feature = "planted")]
    planted: Option<crate::Planted>,
}

impl Builder {
    pub(crate) fn new(store: Arc<dyn DynBackend>) -> Self {
        Self {
            store,
            node: None,
            timing: Timing::default(),
            seed: None,
            clock: Source::Boot,
            ambient: false,
            hooks: Vec::new(),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }

    /// The label under which people see this node; by default the host's name.
    pub fn node(mut self, label: impl Into<String>) -> Self {
        self.node = Some(label.into());
        self
    }

    /// Lease time, renew interval and the rest; by default [`Timing::default`].
    pub const fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Calls a function for each event, on a thread of the client's that does nothing else. A slow one delays only
    /// itself; one that falls far behind loses events ([`Event::Lagged`]).
    pub fn on_event(mut self, function: impl FnMut(&Event) + Send + 'static) -> Self {
        self.hooks.push(Box::new(function));
        self
    }

    /// Makes the jitter repeat from run to run; by default it is seeded by the operating system.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Another clock than the machine's own: for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Source::Other(clock);
        self
    }

    /// Runs the engine on the caller's runtime instead of a thread of its own: for tests under paused time, with
    /// [`RuntimeClock`](crate::clock::RuntimeClock). The runtime's timers must be enabled. In production this gives
    /// away that user code which blocks cannot make a keep-alive late.
    pub const fn ambient_runtime(mut self) -> Self {
        self.ambient = true;
        self
    }

    /// Plants a bug.
    #[cfg(feature = "planted")]
    pub fn plant(mut self, bug: crate::Planted) -> Self {
        self.planted = Some(bug);
        if let Some(clock) = crate::clock::WrongClock::of(bug) {
            self.clock = Source::Other(Arc::new(clock));
        }
        self
    }

    /// Starts the client. It connects in the background.
    ///
    /// # Errors
    /// [`Error::Name`] for the node's label; [`Error::System`] if no thread or no random seed can be had;
    /// [`Error::NoRuntime`] if the engine is to run on the caller's runtime and there is none.
    pub fn build(self) -> Result<Simba, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let node = match self.node {
            Some(label) => NodeLabel::new(&label)?,
            None => host_name(),
        };
        let seed = match self.seed {
            Some(seed) => seed,
            None => random_seed()?,
        };
        let place = if self.ambient {
            Place::Ambient(runtime("Builder::ambient_runtime")?)
        } else {
            Place::Own(own_runtime()?)
        };
        let owner = Owner {
            node,
            host: host_name(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
        };
        let (shared, driver) = driver::assemble(Parts {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            owner,
            timing: self.timing,
            clock: self.clock,
            seed,
            backend: self.store,
            #[cfg(feature = "planted")]
            planted: self.planted,
        });
        let observer = Observer::new(&shared, self.hooks);
        match place {
            Place::Ambient(runtime) => {
                runtime.spawn(observer.run());
                runtime.spawn(driver.run());
            }
            Place::Own(runtime) => {
                spawn("simba-events", move || block_on(observer.run()))?;
                spawn("simba", move || {
                    runtime.block_on(driver.run());
                    // What a store still does on threads of its own is not waited for.
                    runtime.shutdown_background();
                })?;
            }
        }
        Ok(Simba::new(shared))
    }
}

/// Where an engine runs.
enum Place {
    Ambient(tokio::runtime::Handle),
    Own(tokio::runtime::Runtime),
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map(drop).map_err(|error| Error::System { what: "a thread", why: error.to_string().into() })
}

fn own_runtime() -> Result<tokio::runtime::Runtime, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::System { what: "what a runtime needs", why: error.to_string().into() })
}

fn random_seed() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::System { what: "random bytes", why: error.to_string().into() })?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(unix)]
fn host_name() -> NodeLabel {
    NodeLabel::sanitized(&rustix::system::uname().nodename().to_string_lossy())
}

#[cfg(not(unix))]
fn host_name() -> NodeLabel {
    NodeLabel::sanitized(&std::env::var("COMPUTERNAME").unwrap_or_default())
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the store: what it prints is not ours to answer for, and it may know a password.
        f.debug_struct("Builder")
            .field("node", &self.node)
            .field("timing", &self.timing)
            .field("seed", &self.seed)
            .field("ambient", &self.ambient)
            .finish_non_exhaustive()
    }
}
