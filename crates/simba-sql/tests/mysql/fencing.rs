//! The fenced writers: the kit, columns that cannot compare, and the lease in the user's own transaction.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use simba_backend::FencingToken;
use simba_services::MariaDb;
use simba_sql::mysql::{
    fence::{self, FenceError, FencedTable, LeaseCheck, check_lease},
    mysql_async::{Conn, TxOpts, prelude::Queryable},
};
use simba_tck::{
    failed,
    fencing::{FencedResource, Written, judge},
    rig::{PLENTY, again, name, wait},
};

use crate::{connect, node};

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).expect("a token")
}

/// A row of a table, and a connection for each call, as several processes have.
struct Ledger {
    server: Arc<MariaDb>,
    database: String,
}

impl Ledger {
    fn new(server: &Arc<MariaDb>, number: usize) -> Self {
        let database = format!("ledger{number}");
        server.create_database(&database);
        let sql = "create table ledger (id varchar(32) primary key, value text, fencing_token bigint);
                   insert into ledger (id) values ('main')";
        assert_eq!(server.sql(&database, sql), "");
        Self { server: Arc::clone(server), database }
    }

    fn open(&self) -> Conn {
        connect(&self.server.url(&self.database))
    }
}

impl FencedResource for Ledger {
    fn write(&self, token: FencingToken, value: &str) -> Result<Written, String> {
        let mut db = self.open();
        let table = FencedTable::new("ledger", "id");
        let written = wait(table.write(&mut db, "main".into(), token, vec![("value", value.into())]));
        Ok(match written.map_err(|error| error.to_string())? {
            fence::Written::Accepted => Written::Accepted,
            fence::Written::Stale { .. } => Written::Refused,
        })
    }

    fn read(&self) -> Result<Option<String>, String> {
        let row: Option<Option<String>> =
            wait(self.open().query_first("select value from ledger")).map_err(|error| error.to_string())?;
        Ok(row.flatten())
    }
}

#[test]
fn the_fenced_table_passes_the_fencing_kit() {
    let server = Arc::new(MariaDb::start());
    let number = AtomicUsize::new(0);
    let judged = judge(|| Box::new(Ledger::new(&server, number.fetch_add(1, Ordering::Relaxed))));
    assert_eq!(failed(&judged), [] as [&str; 0], "{judged:#?}");
}

#[test]
fn what_cannot_be_judged_is_an_error_and_not_a_stale_token() {
    let server = MariaDb::start();
    server.create_database("t");
    let mut db = connect(&server.url("t"));
    wait(async {
        for kind in ["double", "varchar(20)", "decimal(30,0)"] {
            let make = format!(
                "drop table if exists t; create table t (id int, v int, fencing_token {kind}); insert into t values (1, 0, 0)"
            );
            db.query_drop(make).await.expect("a table");
            let written =
                FencedTable::new("t", "id").write(&mut db, 1.into(), token(10), vec![("v", 9.into())]).await;
            assert!(matches!(written, Err(FenceError::TokenColumn { .. })), "{kind}: {written:?}");
        }
        db.query_drop("drop table t; create table t (id int, v int, fencing_token bigint)")
            .await
            .expect("a table");
        let table = FencedTable::new("t", "id");
        let absent = table.write(&mut db, 1.into(), token(1), Vec::new()).await;
        assert!(matches!(absent, Err(FenceError::NoRow { .. })));
        db.query_drop("insert into t values (1, 0, null), (1, 0, null)").await.expect("rows");
        let many = table.write(&mut db, 1.into(), token(1), Vec::new()).await;
        assert!(matches!(many, Err(FenceError::ManyRows { .. })));
        db.query_drop("truncate t; insert into t values (1, 0, null)").await.expect("a row");
        for column in ["id", "FENCING_TOKEN"] {
            let reserved = table.write(&mut db, 1.into(), token(1), vec![(column, 7.into())]).await;
            assert!(matches!(reserved, Err(FenceError::Reserved { .. })));
        }
        let odd = "create table `drop table t; --` (`a ``b` int primary key, `set` text, `to ken` bigint)";
        db.query_drop(odd).await.expect("a table");
        let odd = FencedTable::new("drop table t; --", "a `b").token_column("to ken");
        odd.ensure(&mut db, 1.into()).await.expect("a row");
        odd.ensure(&mut db, 1.into()).await.expect("the same row");
        let written = odd.write(&mut db, 1.into(), token(1 << 62), vec![("set", "'; --".into())]).await;
        assert_eq!(written.expect("an answer"), fence::Written::Accepted);
        // The same write again changes no row, and is accepted all the same.
        let written = odd.write(&mut db, 1.into(), token(1 << 62), vec![("set", "'; --".into())]).await;
        assert_eq!(written.expect("an answer"), fence::Written::Accepted);
        let stale = odd.write(&mut db, 1.into(), token((1 << 62) - 1), vec![("set", "x".into())]).await;
        assert_eq!(stale.expect("an answer"), fence::Written::Stale { highest: token(1 << 62) });
    });
}

/// The owner's transaction has checked the lease and is still open: nobody gets the lease before it ends.
#[test]
fn a_lease_that_a_transaction_has_checked_stays_until_the_transaction_ends() {
    let server = MariaDb::start();
    server.create_database("leases");
    let url = server.url("leases");
    let (a, b) = (node(&url), node(&url));
    let first = a.take("job", PLENTY).expect("a lease");
    let mut db = connect(&url);
    wait(async {
        let mut work = db.start_transaction(TxOpts::default()).await.expect("a transaction");
        let check = check_lease(&mut work, None, &name("job"), token(first)).await.expect("an answer");
        assert_eq!(check, LeaseCheck::Owned);
        // The owner can renew meanwhile.
        a.store.keep_alive(a.session, None, PLENTY).await.expect("a keep-alive");
        assert!(a.store.evict(a.session, PLENTY).await.expect("an end"));
        // The session is over, and still the lease does not change hands.
        let refused = b.store.acquire(b.session, &[name("job")], PLENTY).await.expect("an answer");
        assert!(!format!("{refused:?}").contains("Won"), "{refused:?}");
        work.commit().await.expect("a commit");
    });
    let second = again("a take", |limit| b.take("job", limit));
    assert!(second > first);
    wait(async {
        for (number, found) in
            [(first, LeaseCheck::Over), (second, LeaseCheck::Owned), (second + 1, LeaseCheck::Over)]
        {
            let mut work = db.start_transaction(TxOpts::default()).await.expect("a transaction");
            let check = check_lease(&mut work, None, &name("job"), token(number)).await.expect("an answer");
            assert_eq!(check, found, "token {number}");
            work.rollback().await.expect("an end");
        }
        let mut work = db.start_transaction(TxOpts::default()).await.expect("a transaction");
        let never = check_lease(&mut work, None, &name("never"), token(1)).await.expect("an answer");
        assert_eq!(never, LeaseCheck::Over);
        work.rollback().await.expect("an end");
    });
}
