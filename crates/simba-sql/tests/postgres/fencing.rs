//! The fenced writers: the kit, columns that cannot compare, and the lease in the user's own transaction.

use std::sync::Arc;

use simba_backend::FencingToken;
use simba_services::Postgres;
use simba_sql::postgres::{
    fence::{self, FenceError, FencedTable, LeaseCheck, check_lease},
    tokio_postgres::Client,
};
use simba_tck::{
    failed,
    fencing::{FencedResource, Written, judge},
    rig::{PLENTY, name, wait},
};

use crate::{connect, node};

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).expect("a token")
}

/// A row of a table, and a connection for each call, as several processes have.
struct Ledger {
    server: Arc<Postgres>,
    database: String,
}

impl Ledger {
    fn new(server: &Arc<Postgres>, number: usize) -> Self {
        let database = format!("ledger{number}");
        server.create_database(&database);
        let sql = "create table ledger (id text primary key, value text, fencing_token bigint);
                   insert into ledger (id) values ('main')";
        assert_eq!(server.sql(&database, sql), "");
        Self { server: Arc::clone(server), database }
    }

    fn open(&self) -> Client {
        connect(&self.server.url(&self.database))
    }
}

impl FencedResource for Ledger {
    fn write(&self, token: FencingToken, value: &str) -> Result<Written, String> {
        let db = self.open();
        let table = FencedTable::new("ledger", "id");
        let written = wait(table.write(&db, &"main", token, &[("value", &value)]));
        Ok(match written.map_err(|error| error.to_string())? {
            fence::Written::Accepted => Written::Accepted,
            fence::Written::Stale { .. } => Written::Refused,
        })
    }

    fn read(&self) -> Result<Option<String>, String> {
        let row = wait(self.open().query_one("select value from ledger", &[]));
        row.and_then(|row| row.try_get(0)).map_err(|error| error.to_string())
    }
}

#[test]
fn the_fenced_table_passes_the_fencing_kit() {
    let server = Arc::new(Postgres::start_with(&["fsync=off"]));
    let number = std::sync::atomic::AtomicUsize::new(0);
    let next = || number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let judged = judge(|| Box::new(Ledger::new(&server, next())));
    assert_eq!(failed(&judged), [] as [&str; 0], "{judged:#?}");
}

#[test]
fn what_cannot_be_judged_is_an_error_and_not_a_stale_token() {
    let server = Postgres::start_with(&["fsync=off"]);
    let db = connect(&server.url("postgres"));
    wait(async {
        for kind in ["real", "text", "numeric"] {
            let make = format!(
                "drop table if exists t; create table t (id int, v int, fencing_token {kind}); insert into t values (1, 0)"
            );
            db.batch_execute(&make).await.expect("a table");
            let written = FencedTable::new("t", "id").write(&db, &1, token(10), &[("v", &9)]).await;
            assert!(written.is_err(), "{kind}: {written:?}");
        }
        db.batch_execute("drop table t; create table t (id int, v int, fencing_token bigint)")
            .await
            .expect("a table");
        let table = FencedTable::new("t", "id");
        assert!(matches!(table.write(&db, &1, token(1), &[]).await, Err(FenceError::NoRow { .. })));
        db.batch_execute("insert into t values (1, 0), (1, 0)").await.expect("rows");
        assert!(matches!(table.write(&db, &1, token(1), &[]).await, Err(FenceError::ManyRows { .. })));
        for column in ["id", "fencing_token"] {
            assert!(matches!(
                table.write(&db, &1, token(1), &[(column, &7)]).await,
                Err(FenceError::Reserved { .. })
            ));
        }
        let odd = "create table \"drop table t; --\" (\"a \"\"b\" int primary key, \"set\" text, \"to ken\" bigint)";
        db.batch_execute(odd).await.expect("a table");
        let odd = FencedTable::new("drop table t; --", "a \"b").token_column("to ken");
        odd.ensure(&db, &1).await.expect("a row");
        odd.ensure(&db, &1).await.expect("the same row");
        let written = odd.write(&db, &1, token(1 << 62), &[("set", &"'; --")]).await.expect("an answer");
        assert_eq!(written, fence::Written::Accepted);
        let stale = odd.write(&db, &1, token((1 << 62) - 1), &[("set", &"x")]).await.expect("an answer");
        assert_eq!(stale, fence::Written::Stale { highest: token(1 << 62) });
    });
}

/// The owner's transaction has checked the lease and is still open: nobody gets the lease before it ends.
#[test]
fn a_lease_that_a_transaction_has_checked_stays_until_the_transaction_ends() {
    let server = Postgres::start_with(&["fsync=off"]);
    let url = server.url("postgres");
    let (a, b) = (node(&url), node(&url));
    let first = a.take("job", PLENTY).expect("a lease");
    let mut db = connect(&url);
    wait(async {
        let work = db.transaction().await.expect("a transaction");
        let check = check_lease(&work, None, &name("job"), token(first)).await.expect("an answer");
        assert_eq!(check, LeaseCheck::Owned);
        assert!(a.store.evict(a.session, PLENTY).await.expect("an end"));
        // The session is over, and still the lease does not change hands.
        let names = [name("job")];
        let refused = b.store.acquire(b.session, &names, PLENTY).await.expect("an answer");
        assert!(!format!("{refused:?}").contains("Won"), "{refused:?}");
        work.commit().await.expect("a commit");
    });
    let second = b.take("job", PLENTY).expect("a lease");
    assert!(second > first);
    wait(async {
        for (number, found) in
            [(first, LeaseCheck::Over), (second, LeaseCheck::Owned), (second + 1, LeaseCheck::Over)]
        {
            let work = db.transaction().await.expect("a transaction");
            let check = check_lease(&work, None, &name("job"), token(number)).await.expect("an answer");
            assert_eq!(check, found, "token {number}");
        }
        let work = db.transaction().await.expect("a transaction");
        let never = check_lease(&work, None, &name("never"), token(1)).await.expect("an answer");
        assert_eq!(never, LeaseCheck::Over);
    });
}
