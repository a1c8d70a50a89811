//! Fenced writers: writes to tables of your own that a stale owner cannot make.
//!
//! # A table with a token
//! It has a column for the highest token that each of its rows has accepted. A write carries its term's token, and is one
//! conditional update: it changes the row, and records the token, only if the token is at least the recorded one. The
//! table may lie in any database.
//!
//! ```no_run
//! use simba_backend::FencingToken;
//! use simba_sql::postgres::fence::{FencedTable, Written};
//!
//! # async fn example(db: &tokio_postgres::Client, token: FencingToken)
//! # -> Result<(), simba_sql::postgres::fence::FenceError> {
//! // create table ledger (id text primary key, last_batch bigint, fencing_token bigint)
//! let ledger = FencedTable::new("ledger", "id");
//! ledger.ensure(db, &"eu").await?;
//! match ledger.write(db, &"eu", token, &[("last_batch", &41_i64)]).await? {
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
//! update ledger set last_batch = $3, fencing_token = $1
//! where id = $2 and coalesce(fencing_token, 0) <= $1;
//! ```
//!
//! # The lease itself
//! Where the tables stand in the same database as the leases, [`check_lease`] in the transaction of the work needs no
//! column: nobody else gets the lease before that transaction ends.

use std::fmt::Write as _;

use simba_backend::{FencingToken, LeaseName, Namespace};
use tokio_postgres::{GenericClient, Transaction, types::ToSql};

pub use crate::fence::Written;

/// Why a fenced write could not be judged. Nothing was written.
pub type FenceError = crate::fence::FenceError<tokio_postgres::Error>;

type Value<'a> = &'a (dyn ToSql + Sync);

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
    pub async fn ensure(&self, db: &impl GenericClient, key: Value<'_>) -> Result<(), FenceError> {
        let (table, column) = (quoted(&self.table), quoted(&self.key));
        let sql = format!("insert into {table} ({column}) values ($1) on conflict do nothing");
        db.execute(&sql, &[key]).await?;
        Ok(())
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
        db: &impl GenericClient,
        key: Value<'_>,
        token: FencingToken,
        set: &[(&str, Value<'_>)],
    ) -> Result<Written, FenceError> {
        let sql = self.update(set)?;
        let number = token.as_i64();
        let fixed: [Value<'_>; 2] = [&number, key];
        let values: Vec<Value<'_>> = fixed.into_iter().chain(set.iter().map(|(_, value)| *value)).collect();
        if db.execute(&sql, &values).await? == 1 {
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
        transaction: &Transaction<'_>,
        key: Value<'_>,
        token: FencingToken,
    ) -> Result<Written, FenceError> {
        self.write(transaction, key, token, &[]).await
    }

    /// The highest token that the row of `key` has accepted, if any.
    ///
    /// # Errors
    /// As in [`write`](Self::write).
    pub async fn highest(
        &self,
        db: &impl GenericClient,
        key: Value<'_>,
    ) -> Result<Option<FencingToken>, FenceError> {
        let (table, column, token) = (quoted(&self.table), quoted(&self.key), quoted(&self.token));
        let sql = format!(
            "select pg_typeof(fenced.{token})::text, fenced.{token}::text from {table} as fenced \
             where fenced.{column} = $1 limit 2"
        );
        let rows = db.query(&sql, &[key]).await?;
        let row = match rows.as_slice() {
            [] => return Err(FenceError::NoRow { table: self.table.clone() }),
            [row] => row,
            _ => return Err(FenceError::ManyRows { table: self.table.clone(), column: self.key.clone() }),
        };
        let kind: String = row.try_get(0)?;
        if !matches!(&*kind, "bigint" | "integer") {
            return Err(FenceError::TokenColumn {
                table: self.table.clone(),
                column: self.token.clone(),
                kind,
            });
        }
        let text: Option<String> = row.try_get(1)?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    fn update(&self, set: &[(&str, Value<'_>)]) -> Result<String, FenceError> {
        let (table, key, token) = (quoted(&self.table), quoted(&self.key), quoted(&self.token));
        let mut sql = format!("update {table} as fenced set {token} = $1::bigint");
        for (index, (column, _)) in set.iter().enumerate() {
            if *column == self.token || *column == self.key {
                return Err(FenceError::Reserved { column: (*column).to_owned() });
            }
            write!(sql, ", {} = ${}", quoted(column), index + 3).unwrap_or_default();
        }
        write!(
            sql,
            " where fenced.{key} = $2 and pg_typeof(fenced.{token})::text in ('bigint', 'integer') \
             and coalesce(fenced.{token}, 0) <= $1::bigint \
             and (select count(*) from {table} as same where same.{key} = $2) = 1"
        )
        .unwrap_or_default();
        Ok(sql)
    }
}

/// An identifier that means exactly this text.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
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
/// Those of the database; in a transaction that is not read committed also that the lease was changed meanwhile.
pub async fn check_lease(
    transaction: &Transaction<'_>,
    namespace: Option<&Namespace>,
    name: &LeaseName,
    token: FencingToken,
) -> Result<LeaseCheck, tokio_postgres::Error> {
    let key = namespace.map_or_else(|| name.to_string(), |namespace| format!("{namespace}/{name}"));
    // A session without a row is over, and its leases are free.
    let found = transaction
        .query_opt(
            "select l.token = $2 and exists (select from simba_session s where s.id = l.session) \
             from simba_lease l where l.name = $1 for share of l",
            &[&key, &token.as_i64()],
        )
        .await?;
    let owned = found.map(|row| row.try_get::<_, Option<bool>>(0)).transpose()?.flatten().unwrap_or(false);
    Ok(if owned { LeaseCheck::Owned } else { LeaseCheck::Over })
}
