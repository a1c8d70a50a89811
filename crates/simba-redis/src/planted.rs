//! Planted bugs of this store: a script with one line changed. See the module of the same name in `simba-core`.

/// The script as it is run.
#[cfg(not(feature = "planted"))]
pub(crate) fn bent(text: String, _config: &crate::RedisConfig) -> String {
    text
}

#[cfg(feature = "planted")]
pub(crate) fn bent(mut text: String, config: &crate::RedisConfig) -> String {
    if config.moved_clock {
        let now = "local now = time[1] * 1000000 + time[2]";
        let moved = format!("{now} + tonumber(redis.call('GET', P .. 'test-clock') or '0')");
        text = text.replace(now, &moved);
    }
    match config.planted {
        Some(bug) => text.replace(bug.lines().0, bug.lines().1),
        None => text,
    }
}

/// The bugs, numbered as in the project's list.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Planted {
    M12RenewsExpired,
    M16ExpiredAcquires,
    M23ReleaseWithoutToken,
    M24ReleaseWithoutSession,
    M26TokenNotBumped,
    M27TokenReset,
    M28TokenBumpedOnRepeat,
    DeadRowKept,
    TokensAsNumbers,
    VersionNotRaised,
    ForcedWithoutToken,
    NobodyTold,
}

#[cfg(feature = "planted")]
impl Planted {
    /// Every bug that the store can be given, and the case of the suite that catches it.
    pub const ALL: &[(Self, &str)] = &[
        (Self::M12RenewsExpired, "C2_an_expired_session_is_never_revived"),
        (Self::M16ExpiredAcquires, "C3_an_expired_session_gets_nothing"),
        (Self::M23ReleaseWithoutToken, "C4_a_release_with_another_token_frees_nothing"),
        (Self::M24ReleaseWithoutSession, "C4_a_release_by_another_session_frees_nothing"),
        (Self::M26TokenNotBumped, "C6_tokens_rise_over_release_expiry_and_close"),
        (Self::M27TokenReset, "C6_tokens_rise_over_release_expiry_and_close"),
        (Self::M28TokenBumpedOnRepeat, "C7_acquiring_again_answers_the_same_token"),
        (Self::DeadRowKept, "C2_a_clock_that_steps_back_revives_nothing"),
        (Self::VersionNotRaised, "C8_each_lease_is_one_step"),
        (Self::ForcedWithoutToken, "C13_a_forced_release_hits_no_other_term"),
        (Self::NobodyTold, "C12_a_watch_tells_of_releases_and_closes"),
    ];

    /// The line as it should be, and as it is with the bug.
    const fn lines(self) -> (&'static str, &'static str) {
        match self {
            Self::M12RenewsExpired => ("if tonumber(s[1]) <= now then", "if false then"),
            Self::M16ExpiredAcquires => (
                "local me = live(id)\nif not me then\n  return false\nend\nlocal outcomes",
                "local me = live(id) or { '0', '0', '0' }\nlocal outcomes",
            ),
            Self::M23ReleaseWithoutToken => {
                ("if l[2] == id and l[1] == ARGV[i + 1] then", "if l[2] == id then")
            }
            Self::M24ReleaseWithoutSession => {
                ("if l[2] == id and l[1] == ARGV[i + 1] then", "if l[2] and l[1] == ARGV[i + 1] then")
            }
            Self::M26TokenNotBumped => (
                "  redis.call('HINCRBY', key, 'tok', 1)\n  return",
                "  redis.call('HSETNX', key, 'tok', 1)\n  return",
            ),
            Self::M27TokenReset => (
                "redis.call('HDEL', P .. 'l:' .. name, 'ses', 'acq')",
                "redis.call('DEL', P .. 'l:' .. name)",
            ),
            Self::M28TokenBumpedOnRepeat => {
                ("outcomes[#outcomes + 1] = 'W' .. l[1]", "outcomes[#outcomes + 1] = 'W' .. raise(key, l[1])")
            }
            Self::DeadRowKept => ("    end_session(id)\n    return nil", "    return nil"),
            Self::TokensAsNumbers => (
                "return redis.call('HGET', key, 'tok')\nend",
                "return int(tonumber(redis.call('HGET', key, 'tok')))\nend",
            ),
            Self::VersionNotRaised => {
                ("redis.call('HINCRBY', P .. 's:' .. id, 'ver', 1)\n        outcomes", "outcomes")
            }
            Self::ForcedWithoutToken => ("if l[1] ~= ARGV[3] then", "if false then"),
            Self::NobodyTold => ("'PUBLISH', P .. 'freed'", "'PUBLISH', P .. 'nowhere'"),
        }
    }
}
