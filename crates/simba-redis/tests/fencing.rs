//! The fenced writer against the fencing kit.

use std::sync::{Arc, LazyLock};

use simba_backend::FencingToken;
use simba_redis::{
    fence::{self, Written as Fenced},
    redis::{AsyncCommands, Client, RedisResult, aio::MultiplexedConnection},
};
use simba_services::Redis;
use simba_tck::{
    failed,
    fencing::{FencedResource, Written, judge},
};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// A hash, and a connection for each call, as several processes have.
struct Ledger {
    client: Client,
    _server: Arc<Redis>,
}

impl Ledger {
    fn new() -> Self {
        let server = Arc::new(Redis::start());
        Self { client: Client::open(server.url()).expect("a URL"), _server: server }
    }

    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        self.client.get_multiplexed_async_connection().await
    }
}

impl FencedResource for Ledger {
    fn write(&self, token: FencingToken, value: &str) -> Result<Written, String> {
        let written = RUNTIME.block_on(async {
            fence::write(&mut self.connection().await?, "ledger", token, &[("value", value)]).await
        });
        Ok(match written.map_err(|error| error.to_string())? {
            Fenced::Accepted => Written::Accepted,
            Fenced::Stale { .. } => Written::Refused,
        })
    }

    fn read(&self) -> Result<Option<String>, String> {
        let read = RUNTIME.block_on(async { self.connection().await?.hget("ledger", "value").await });
        read.map_err(|error| error.to_string())
    }
}

#[test]
fn the_fenced_hash_passes_the_fencing_kit() {
    let judged = judge(|| Box::new(Ledger::new()));
    assert_eq!(failed(&judged), [] as [&str; 0], "{judged:#?}");
}

/// Neighbours that are one and the same as numbers of Lua, and numbers whose order as text is another one.
#[test]
fn tokens_of_every_size_are_compared_exactly() {
    let ledger = Ledger::new();
    let token = |value| FencingToken::new(value).expect("a token");
    let sizes = [9, 10, 99, 100, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 62) + 1, (1 << 63) - 1];
    for pair in sizes.windows(2) {
        let (low, high) = (token(pair[0]), token(pair[1]));
        assert_eq!(ledger.write(high, "high"), Ok(Written::Accepted), "{high}");
        assert_eq!(ledger.write(low, "low"), Ok(Written::Refused), "{low} after {high}");
        assert_eq!(ledger.write(high, "again"), Ok(Written::Accepted), "{high} again");
        assert_eq!(ledger.read(), Ok(Some("again".to_owned())));
    }
}

/// What somebody else wrote into the field is never taken for a token.
#[test]
fn a_field_that_holds_no_token_lets_nobody_write() {
    let ledger = Ledger::new();
    let late = FencingToken::new(1_234).expect("a token");
    for strange in ["", "x", "zzz", "-1", "0", "007", "007000", "9999999999999999999999"] {
        let set: RedisResult<()> = RUNTIME
            .block_on(async { ledger.connection().await?.hset("ledger", "fencing_token", strange).await });
        set.expect("a plain write");
        let written = ledger.write(late, "late");
        assert_ne!(written, Ok(Written::Accepted), "over {strange:?}");
        assert_eq!(ledger.read(), Ok(None), "over {strange:?}");
    }
}
