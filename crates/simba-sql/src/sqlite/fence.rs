//! A fenced writer: writes to a table of your own that a stale owner cannot make.
//!
//! The table has a column for the highest token that each of its rows has accepted. A write carries its term's
//! token, and is one conditional update: it changes the row, and records the token, only if the token is at least
//! the recorded one. A retry within a term carries the same token and is accepted again.
//!
//! ```
//! use simba_backend::FencingToken;
//! use simba_sql::sqlite::fence::{FencedTable, Written};
//! use simba_sql::sqlite::rusqlite::Connection;
//!
//! let db = Connection::open_in_memory()?;
//! db.execute_batch("create table ledger (id text primary key, last_batch integer, fencing_token integer)")?;
//! let ledger = FencedTable::new("ledger", "id");
//! ledger.ensure(&db, &"eu")?;
//!
//! let (seven, eight) = (FencingToken::new(7).unwrap(), FencingToken::new(8).unwrap());
//! assert_eq!(ledger.write(&db, &"eu", seven, &[("last_batch", &41)])?, Written::Accepted);
//! assert_eq!(ledger.write(&db, &"eu", eight, &[("last_batch", &42)])?, Written::Accepted);
//! // The paused owner of the earlier term wakes up.
//! assert_eq!(ledger.write(&db, &"eu", seven, &[("last_batch", &99)])?, Written::Stale { highest: eight });
//! # Ok::<(), simba_sql::sqlite::fence::FenceError>(())
//! ```
//!
//! The statement that it runs, for use from other languages:
//!
//! ```sql
//! update ledger set last_batch = ?, fencing_token = :token
//! where id = ? and (fencing_token is null or fencing_token <= :token);
//! ```
//!
//! Declare the token column `integer`. A `real` column rounds tokens above 2^53 and a `text` column compares them
//! as text, so that both would let a stale owner in; this writer refuses them.

use std::fmt::Write as _;

use rusqlite::{Connection, ToSql};
use simba_backend::FencingToken;

pub use crate::fence::Written;

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
    /// `FenceError::Database`, for instance if another column has no default and must not be null.
    pub fn ensure(&self, db: &Connection, key: &dyn ToSql) -> Result<(), FenceError> {
        let (table, column) = (quoted(&self.table), quoted(&self.key));
        let sql = format!(
            "insert into {table} ({column}) \
             select ?1 where not exists (select 1 from {table} as fenced where fenced.{column} = ?1)"
        );
        db.prepare_cached(&sql)?.execute([key])?;
        Ok(())
    }

    /// Sets columns of the row of `key` if `token` is at least the highest that it has accepted.
    ///
    /// It is atomic by itself, and may also stand in a transaction of the caller's: rolled back, neither the
    /// values nor the token remain.
    ///
    /// # Errors
    /// A [`FenceError`]: nothing was written, and it proves nothing about the token. A stale token is an answer,
    /// not an error.
    pub fn write(
        &self,
        db: &Connection,
        key: &dyn ToSql,
        token: FencingToken,
        set: &[(&str, &dyn ToSql)],
    ) -> Result<Written, FenceError> {
        let sql = self.update(set)?;
        let number = token.as_i64();
        let fixed: [&dyn ToSql; 2] = [&number, key];
        let values: Vec<&dyn ToSql> = fixed.into_iter().chain(set.iter().map(|(_, value)| *value)).collect();
        let changed = db.prepare_cached(&sql)?.execute(values.as_slice())?;
        if changed == 1 { Ok(Written::Accepted) } else { self.explain(db, key, token) }
    }

    /// Records `token` for the row of `key`, as a guard of whatever else the caller's transaction writes: after
    /// [`Written::Stale`] roll it back.
    ///
    /// # Errors
    /// `FenceError::NoTransaction` outside a transaction, where a later owner's write could come in between;
    /// else as in [`write`](Self::write).
    pub fn admit(
        &self,
        db: &Connection,
        key: &dyn ToSql,
        token: FencingToken,
    ) -> Result<Written, FenceError> {
        if db.is_autocommit() {
            return Err(FenceError::NoTransaction);
        }
        self.write(db, key, token, &[])
    }

    /// The highest token that the row of `key` has accepted, if any.
    ///
    /// # Errors
    /// As in [`write`](Self::write).
    pub fn highest(&self, db: &Connection, key: &dyn ToSql) -> Result<Option<FencingToken>, FenceError> {
        let row = self.look(db, key)?;
        Ok(row.token.and_then(FencingToken::from_i64))
    }

    /// Columns are named through the table's alias wherever that is possible: a bare quoted name that is not a
    /// column would silently be a text.
    fn update(&self, set: &[(&str, &dyn ToSql)]) -> Result<String, FenceError> {
        let (table, key, token) = (quoted(&self.table), quoted(&self.key), quoted(&self.token));
        let mut sql = format!("update {table} as fenced set {token} = ?1");
        for (index, (column, _)) in set.iter().enumerate() {
            if column.eq_ignore_ascii_case(&self.token) || column.eq_ignore_ascii_case(&self.key) {
                return Err(FenceError::Reserved { column: (*column).to_owned() });
            }
            write!(sql, ", {} = ?{}", quoted(column), index + 3).unwrap_or_default();
        }
        write!(
            sql,
            " where fenced.{key} = ?2 \
             and typeof(fenced.{token}) in ('integer', 'null') and coalesce(fenced.{token}, 0) <= ?1 \
             and (select count(*) from {table} as same where same.{key} = ?2) = 1"
        )
        .unwrap_or_default();
        Ok(sql)
    }

    /// Why an update changed nothing.
    fn explain(&self, db: &Connection, key: &dyn ToSql, token: FencingToken) -> Result<Written, FenceError> {
        let row = self.look(db, key)?;
        match row.token.and_then(FencingToken::from_i64) {
            Some(highest) if highest > token => Ok(Written::Stale { highest }),
            _ => Err(FenceError::NotWritten { table: self.table.clone() }),
        }
    }

    fn look(&self, db: &Connection, key: &dyn ToSql) -> Result<Row, FenceError> {
        let (table, column, token) = (quoted(&self.table), quoted(&self.key), quoted(&self.token));
        let sql = format!(
            "select fenced.{token}, typeof(fenced.{token}) from {table} as fenced where fenced.{column} = ?1 limit 2"
        );
        let mut statement = db.prepare_cached(&sql)?;
        let mut rows = statement.query([key])?;
        let Some(first) = rows.next()? else {
            return Err(FenceError::NoRow { table: self.table.clone() });
        };
        let kind: String = first.get(1)?;
        if kind != "integer" && kind != "null" {
            return Err(FenceError::TokenColumn {
                table: self.table.clone(),
                column: self.token.clone(),
                kind,
            });
        }
        let row = Row { token: first.get(0)? };
        if rows.next()?.is_some() {
            return Err(FenceError::ManyRows { table: self.table.clone(), column: self.key.clone() });
        }
        Ok(row)
    }
}

struct Row {
    token: Option<i64>,
}

/// An identifier that means exactly this text.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Why a fenced write could not be judged. Nothing was written.
pub type FenceError = crate::fence::FenceError<rusqlite::Error>;

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn token(value: u64) -> FencingToken {
        FencingToken::new(value).unwrap()
    }

    fn table(columns: &str) -> (Connection, FencedTable) {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&format!("create table t ({columns})")).unwrap();
        let fenced = FencedTable::new("t", "id");
        fenced.ensure(&db, &1).unwrap();
        (db, fenced)
    }

    fn value(db: &Connection) -> Option<i64> {
        db.query_row("select v from t where id = 1", [], |row| row.get(0)).unwrap()
    }

    const PLAIN: &str = "id integer primary key, v integer, fencing_token integer not null default 0";

    #[test]
    fn equal_tokens_are_accepted_and_lower_ones_change_nothing() {
        let (db, t) = table(PLAIN);
        for (number, v) in [(5, 10), (5, 10), (5, 11), (9, 12)] {
            assert_eq!(t.write(&db, &1, token(number), &[("v", &v)]).unwrap(), Written::Accepted);
        }
        let stale = t.write(&db, &1, token(8), &[("v", &99)]).unwrap();
        assert_eq!((stale, value(&db)), (Written::Stale { highest: token(9) }, Some(12)));
        assert_eq!(t.highest(&db, &1).unwrap(), Some(token(9)));
    }

    #[test]
    fn tokens_are_exact_at_the_edges_of_floats_and_signed_numbers() {
        for high in [(1 << 53) + 1, i64::MAX.unsigned_abs()] {
            let (db, t) = table(PLAIN);
            assert_eq!(t.write(&db, &1, token(high), &[("v", &1)]).unwrap(), Written::Accepted);
            let stale = t.write(&db, &1, token(high - 1), &[("v", &2)]).unwrap();
            assert_eq!((stale, value(&db)), (Written::Stale { highest: token(high) }, Some(1)));
            assert_eq!(t.write(&db, &1, token(high), &[("v", &3)]).unwrap(), Written::Accepted);
        }
    }

    /// A column of text compares "10" below "9", one of reals rounds: both would accept a stale token.
    #[test]
    fn a_token_column_that_cannot_compare_is_refused() {
        for kind in ["real", "text", "varchar(20)"] {
            let (db, t) =
                table(&format!("id integer primary key, v integer, fencing_token {kind} not null default 0"));
            let error = t.write(&db, &1, token(10), &[("v", &1)]).unwrap_err().to_string();
            assert!(error.contains("(in SQLite `integer`)"), "{kind}: {error}");
            assert_eq!(value(&db), None);
        }
        // Without a default the first token is stored, and the second write finds out what the column makes of it.
        let (db, t) = table("id integer primary key, v integer, fencing_token text");
        assert_eq!(t.write(&db, &1, token(10), &[]).unwrap(), Written::Accepted);
        assert!(matches!(t.write(&db, &1, token(9), &[]), Err(FenceError::TokenColumn { .. })));
    }

    #[test]
    fn what_cannot_be_judged_is_an_error_and_not_a_stale_token() {
        let (db, t) = table("id integer, v integer, fencing_token integer");
        assert!(matches!(t.write(&db, &2, token(1), &[]), Err(FenceError::NoRow { .. })));
        for column in ["fencing_token", "FENCING_TOKEN", "id"] {
            assert!(matches!(t.write(&db, &1, token(1), &[(column, &7)]), Err(FenceError::Reserved { .. })));
        }
        assert!(matches!(t.admit(&db, &1, token(1)), Err(FenceError::NoTransaction)));
        let misspelt = FencedTable::new("t", "id").token_column("fencin_token");
        assert!(matches!(misspelt.write(&db, &1, token(1), &[]), Err(FenceError::Database(_))));
        let misspelt = FencedTable::new("t", "di");
        assert!(matches!(misspelt.write(&db, &"di", token(1), &[]), Err(FenceError::Database(_))));
        db.execute_batch("insert into t (id, v) values (1, 5)").unwrap();
        assert!(matches!(t.write(&db, &1, token(1), &[("v", &7)]), Err(FenceError::ManyRows { .. })));
        assert_eq!(value(&db), None);
    }

    #[test]
    fn names_of_any_form_are_taken_as_they_are() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            r#"create table "drop table t; --" ("a ""b" integer primary key, "set" text, "to ken" integer)"#,
        )
        .unwrap();
        let t = FencedTable::new("drop table t; --", "a \"b").token_column("to ken");
        t.ensure(&db, &1).unwrap();
        t.ensure(&db, &1).unwrap();
        assert_eq!(t.write(&db, &1, token(1), &[("set", &"'; --")]).unwrap(), Written::Accepted);
        let text: String =
            db.query_row(r#"select "set" from "drop table t; --""#, [], |row| row.get(0)).unwrap();
        assert_eq!(text, "'; --");
    }

    #[test]
    fn a_rollback_takes_the_token_back_with_the_values() {
        let (mut db, t) = table(PLAIN);
        let tx = db.transaction().unwrap();
        assert_eq!(t.admit(&tx, &1, token(9)).unwrap(), Written::Accepted);
        tx.execute("update t set v = 1", []).unwrap();
        tx.rollback().unwrap();
        assert_eq!((t.highest(&db, &1).unwrap(), value(&db)), (None, None));
        assert_eq!(t.write(&db, &1, token(3), &[("v", &3)]).unwrap(), Written::Accepted);
    }

    /// In the order of the commits the tokens never fall.
    #[test]
    fn eight_writers_at_once_leave_the_highest_token_and_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resource.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(&format!(
            "pragma journal_mode = wal; create table t ({PLAIN}); create table log (token integer);
             create trigger tell after update on t begin insert into log values (new.fencing_token); end"
        ))
        .unwrap();
        let t = FencedTable::new("t", "id");
        t.ensure(&db, &1).unwrap();
        thread::scope(|scope| {
            for writer in 0..8_u64 {
                let (t, path) = (&t, &path);
                scope.spawn(move || {
                    let db = Connection::open(path).unwrap();
                    db.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
                    db.execute_batch("pragma synchronous = off").unwrap();
                    for round in 0..50_u64 {
                        let mine = token(1 + round * 8 + writer);
                        let written = t.write(&db, &1, mine, &[("v", &mine.as_i64())]).unwrap();
                        if let Written::Stale { highest } = written {
                            assert!(highest > mine);
                        }
                    }
                });
            }
        });
        assert_eq!((t.highest(&db, &1).unwrap(), value(&db)), (Some(token(400)), Some(400)));
        let log: Vec<i64> = db
            .prepare("select token from log order by rowid")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert!(log.is_sorted(), "tokens fell: {log:?}");
    }
}
