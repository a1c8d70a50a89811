//! Planted bugs of this store; see the module of the same name in `simba-core`.

#[cfg(feature = "planted")]
macro_rules! planted {
    ($config:expr, $bug:ident) => {
        $config.planted == Some(crate::sqlite::planted::Planted::$bug)
    };
}
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($config:expr, $bug:ident) => {{
        // The same names are read as in the other form, so that none of them is unused.
        let _config: &crate::sqlite::SqliteConfig = &$config;
        false
    }};
}
pub(crate) use planted;

/// The bugs, numbered as in the project's list.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Planted {
    M12RenewsExpired,
    M13DeadRowKept,
    M16ExpiredAcquires,
    M23ReleaseWithoutToken,
    M24ReleaseWithoutSession,
    M26TokenNotBumped,
    M27TokenReset,
    M28TokenBumpedOnRepeat,
    M30NoTriggers,
    M55NamesFolded,
    NoWake,
}

#[cfg(feature = "planted")]
impl Planted {
    /// Every bug that the store can be given.
    pub const ALL: &[Self] = &[
        Self::M12RenewsExpired,
        Self::M13DeadRowKept,
        Self::M16ExpiredAcquires,
        Self::M23ReleaseWithoutToken,
        Self::M24ReleaseWithoutSession,
        Self::M26TokenNotBumped,
        Self::M27TokenReset,
        Self::M28TokenBumpedOnRepeat,
        Self::M30NoTriggers,
        Self::M55NamesFolded,
        Self::NoWake,
    ];
}
