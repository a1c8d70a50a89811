//! Fenced writers: writes to tables of your own that a stale owner cannot make.
//!
//! # A table with a token
//! It has a column for the highest token that each of its rows has accepted. A write carries its term's token, and is one
//! conditional update: it changes the row, and records the token, only if the token is at least the recorded one.
//!
//! ```no_run
//! use simba_backend::FencingToken;
//! use simba_sql::mysql::fence::{FencedTable, Written};
//!
//! # async fn example(db: &mut mysql_async::Conn, token: FencingToken)
//! # -> Result<(), simba_sql::mysql::fence::FenceError> {
//! // create table ledger (id varchar(32) primary key, last_batch bigint, fencing_token bigint)
//! let ledger = FencedTable::new("ledger", "id");
//! ledger.ensure(db, "eu".into()).await?;
//! match ledger.write(db, "eu".into(), token, vec![("last_batch", 41.into())]).await? {
//!     Written::Accepted => {}
//!     Written::Stale { highest } => panic!("term {highest} has begun: stop"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The statement that it runs, for use from other languages:
//!
//! ```sql
//! update ledger set last_batch = ?, fencing_token = ? where id = ? and coalesce(fencing_token, 0) <= ?;
//! ```
//!
//! The count of *changed* rows is no answer there: a repeated write of the same values changes none.
//!
//! # The lease itself
//! Where the tables stand in the same database as the leases, [`check_lease`] in the transaction of the work needs no
//! column: nobody else gets the lease before that transaction ends.

use std::fmt::Write as _;

use mysql_async::{Params, Row, Transaction, Value, prelude::Queryable};
use simba_backend::{FencingToken, LeaseName, Namespace};

pub use crate::fence::Written;

/// Why a fenced write could not be judged. Nothing was written.
pub type FenceError = crate::fence::FenceError<mysql_async::Error>;

/// A table with a column for the highest accepted token of each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedTable {
    table: String,
    key: String,
    token: String,
}

impl FencedTable {
    /// The table `table`, whose rows are told apart by the column `key`. The token is kept in the column
    /// `fencing_token`. Names are taken as they are; quotes and blanks in them are no danger.
    #[must_use]
    pub fn new(table: &str, key: &str) -> Self {
        Self { table: table.to_owned(), key: key.to_owned(), token: "fencing_token".to_owned() }
    }

    /// Keeps the token in another column.
    #[must_use]
    pub fn token_column(mut self, column: &str) -> Self {
        column.clone_into(&mut self.token);
        self
    }

    /// Makes the row of `key` if it is not there, with the other columns at their defaults.
    ///
    /// # Errors
    /// [`FenceError`]: for instance if another column has no default and must not be null.
    pub async fn ensure(&self, db: &mut impl Queryable, key: Value) -> Result<(), FenceError> {
        let (table, column) = (quoted(&self.table), quoted(&self.key));
        let sql =
            format!("insert into {table} ({column}) values (?) on duplicate key update {column} = {column}");
        Ok(db.exec_drop(sql, Params::Positional(vec![key])).await?)
    }

    /// Sets columns of the row of `key` if `token` is at least the highest that it has accepted.
    ///
    /// It is atomic by itself, and may also stand in a transaction of the caller's: rolled back, neither the values nor
    /// the token remain.
    ///
    /// # Cancel safety
    /// Dropped, it may or may not have written; it can be repeated with the same token.
    ///
    /// # Errors
    /// A [`FenceError`] proves nothing about the token. A stale token is an answer, not an error.
    pub async fn write(
        &self,
        db: &mut impl Queryable,
        key: Value,
        token: FencingToken,
        set: Vec<(&str, Value)>,
    ) -> Result<Written, FenceError> {
        // The kind of the token's column first: a real one would round, one of text would compare as text.
        let _highest = self.highest(db, key.clone()).await?;
        let (table, column, fence) = (quoted(&self.table), quoted(&self.key), quoted(&self.token));
        // The count of changed rows is no answer: a repeated write of the same values changes none. What
        // `last_insert_id` was given comes back with the answer if the row was taken, and 0 if it was not.
        let mut sql = format!("update {table} set {fence} = last_insert_id(?)");
        let mut values = vec![Value::from(token.as_i64())];
        for (name, value) in set {
            if name.eq_ignore_ascii_case(&self.token) || name.eq_ignore_ascii_case(&self.key) {
                return Err(FenceError::Reserved { column: name.to_owned() });
            }
            write!(sql, ", {} = ?", quoted(name)).unwrap_or_default();
            values.push(value);
        }
        // Conditions are judged on the row as it was.
        write!(sql, " where {column} = ? and coalesce({fence}, 0) <= ?").unwrap_or_default();
        values.extend([key.clone(), Value::from(token.as_i64())]);
        let result = db.exec_iter(sql, Params::Positional(values)).await?;
        let taken = result.last_insert_id();
        result.drop_result().await?;
        if taken == Some(token.get()) {
            return Ok(Written::Accepted);
        }
        match self.highest(db, key).await? {
            Some(highest) if highest > token => Ok(Written::Stale { highest }),
            _ => Err(FenceError::NotWritten { table: self.table.clone() }),
        }
    }

    /// Records `token` for the row of `key`, as a guard of whatever else the transaction writes: after
    /// [`Written::Stale`] roll it back. A later owner's write waits until the transaction ends.
    ///
    /// # Errors
    /// As in [`write`](Self::write).
    pub async fn admit(
        &self,
        transaction: &mut Transaction<'_>,
        key: Value,
        token: FencingToken,
    ) -> Result<Written, FenceError> {
        self.write(transaction, key, token, Vec::new()).await
    }

    /// The highest token that the row of `key` has accepted, if any.
    ///
    /// # Errors
    /// As in [`write`](Self::write).
    pub async fn highest(
        &self,
        db: &mut impl Queryable,
        key: Value,
    ) -> Result<Option<FencingToken>, FenceError> {
        let (table, column, token) = (quoted(&self.table), quoted(&self.key), quoted(&self.token));
        let sql = format!(
            "select cast({token} as char), (select data_type from information_schema.columns where table_schema = \
             database() and table_name = ? and column_name = ?) from {table} where {column} = ? limit 2"
        );
        let values = vec![Value::from(&self.table), Value::from(&self.token), key];
        let rows: Vec<Row> = db.exec(sql, Params::Positional(values)).await?;
        let row = match rows.as_slice() {
            [] => return Err(FenceError::NoRow { table: self.table.clone() }),
            [row] => row,
            _ => return Err(FenceError::ManyRows { table: self.table.clone(), column: self.key.clone() }),
        };
        let kind = row.get::<Option<String>, _>(1).flatten().unwrap_or_else(|| "unknown".to_owned());
        if !matches!(&*kind.to_ascii_lowercase(), "bigint" | "int" | "mediumint") {
            return Err(FenceError::TokenColumn {
                table: self.table.clone(),
                column: self.token.clone(),
                kind,
            });
        }
        Ok(row.get::<Option<String>, _>(0).flatten().and_then(|text| text.parse().ok()))
    }
}

/// An identifier that means exactly this text.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// What a lease is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a stale owner has to stop"]
pub enum LeaseCheck {
    /// The term with this token has the lease, and nobody else gets it before the transaction ends.
    Owned,
    /// That term is over: roll the transaction back.
    Over,
}

/// Checks the lease in the transaction of the work, in the database of the leases, and keeps it where it is until the
/// transaction ends: a taker then finds it held. Call it first, and keep the transaction short: a release of the lease
/// waits for it.
///
/// # Errors
/// Those of the database.
pub async fn check_lease(
    transaction: &mut Transaction<'_>,
    namespace: Option<&Namespace>,
    name: &LeaseName,
    token: FencingToken,
) -> Result<LeaseCheck, mysql_async::Error> {
    let key = namespace.map_or_else(|| name.to_string(), |namespace| format!("{namespace}/{name}"));
    let sql = "select token, session from simba_lease where name = ? for update";
    let values = Params::Positional(vec![Value::from(key)]);
    let Some((present, Some(session))): Option<(i64, Option<Vec<u8>>)> =
        transaction.exec_first(sql, values).await?
    else {
        return Ok(LeaseCheck::Over);
    };
    // A session without a row is over, and its leases are free. Its row is not locked, or the owner could not renew; with
    // the lease's row locked nobody else gets the lease, also if the session has ended meanwhile.
    let sql = "select count(*) from simba_session where id = ?";
    let values = Params::Positional(vec![Value::from(session)]);
    let live: Option<i64> = transaction.exec_first(sql, values).await?;
    Ok(if present == token.as_i64() && live == Some(1) { LeaseCheck::Owned } else { LeaseCheck::Over })
}
