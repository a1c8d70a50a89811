//! The scripts: their text, and how one is run.

use redis::{ErrorKind, FromRedisValue, RedisError, Script, ServerErrorKind, aio::MultiplexedConnection};

use crate::{config::RedisConfig, planted::bent};

const PRELUDE: &str = include_str!("scripts/prelude.lua");

/// Every script of the store.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) open: Text,
    pub(crate) keep_alive: Text,
    pub(crate) acquire: Text,
    pub(crate) release: Text,
    pub(crate) close: Text,
    pub(crate) force_release: Text,
    pub(crate) inspect: Text,
}

/// A script and the hash that the server knows it by.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    text: String,
    hash: String,
}

impl Text {
    pub(crate) fn new(text: String) -> Self {
        let hash = Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// Runs it. A server that does not know the script has not run it, and gets it in full.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        mut connection: MultiplexedConnection,
        key: String,
        args: Vec<String>,
    ) -> Result<T, RedisError> {
        let short = redis::cmd("EVALSHA")
            .arg(&self.hash)
            .arg(1)
            .arg(&key)
            .arg(&args)
            .query_async(&mut connection)
            .await;
        match short {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                redis::cmd("EVAL")
                    .arg(&self.text)
                    .arg(1)
                    .arg(&key)
                    .arg(&args)
                    .query_async(&mut connection)
                    .await
            }
            answer => answer,
        }
    }
}

impl Scripts {
    pub(crate) fn new(config: &RedisConfig) -> Self {
        let make = |text: &str| Text::new(bent(format!("{PRELUDE}\n{text}"), config));
        Self {
            open: make(include_str!("scripts/open.lua")),
            keep_alive: make(include_str!("scripts/keep_alive.lua")),
            acquire: make(include_str!("scripts/acquire.lua")),
            release: make(include_str!("scripts/release.lua")),
            close: make(include_str!("scripts/close.lua")),
            force_release: make(include_str!("scripts/force_release.lua")),
            inspect: make(include_str!("scripts/inspect.lua")),
        }
    }
}
