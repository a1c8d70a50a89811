//! What a store tells of itself, for the person who runs it.

use alloc::{string::String, vec::Vec};

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// It weakens a promise.
    Warn,
    /// Leases do not work here.
    Fail,
}

/// One finding.
///
/// ```
/// use simba_backend::{Finding, Level};
///
/// let finding = Finding::new(Level::Warn, "the server may evict keys", "set maxmemory-policy to noeviction");
/// assert!(finding.level > Level::Note);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How serious.
    pub level: Level,
    /// What was found. It never holds a secret.
    pub text: String,
    /// What to do about it; empty if nothing.
    pub advice: String,
}

impl Finding {
    /// A finding.
    #[must_use]
    pub fn new(level: Level, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level, text: text.into(), advice: advice.into() }
    }

    /// All is well.
    #[must_use]
    pub fn ok(text: impl Into<String>) -> Self {
        Self::new(Level::Ok, text, "")
    }

    /// Leases do not work here.
    #[must_use]
    pub fn fail(text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Level::Fail, text, advice)
    }
}

/// What the tokens of a store survive, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Survives {
    /// They rise only for as long as the server runs, or nobody could tell more.
    WhileItRuns,
    /// They also rise across a crash of the server, as far as its disk keeps what it has synced.
    Crash,
    /// They also rise when another server takes over from it.
    Failover,
}

/// How much the fencing tokens of a store are worth, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPromise {
    /// What they survive.
    pub survives: Survives,
    /// The settings that decide it.
    pub reason: String,
    /// What to change for more; empty if there is nothing more to have.
    pub advice: String,
}

/// What a store was found to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// The findings, in the order in which a person should read them.
    pub findings: Vec<Finding>,
    /// The grade of the fencing promise; `None` if the store could not be asked.
    pub tokens: Option<TokenPromise>,
}

impl Examination {
    /// An examination that ended at its first step.
    #[must_use]
    pub fn failed(text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { findings: alloc::vec![Finding::fail(text, advice)], tokens: None }
    }

    /// The most serious level of all findings. Tokens that do not survive a crash count as a warning.
    #[must_use]
    pub fn worst(&self) -> Level {
        let tokens = match &self.tokens {
            Some(TokenPromise { survives: Survives::WhileItRuns, .. }) => Level::Warn,
            Some(_) | None => Level::Ok,
        };
        self.findings.iter().map(|finding| finding.level).fold(tokens, Level::max)
    }
}
