//! What the fenced writers of all dialects answer.

use std::fmt;

use simba_backend::FencingToken;

/// What became of a fenced write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a stale owner has to stop"]
pub enum Written {
    /// The row was changed, and the token is recorded.
    Accepted,
    /// A later term has written already. Nothing was changed: the caller is no longer the owner and has to stop.
    Stale {
        /// The highest token that the row has accepted.
        highest: FencingToken,
    },
}

/// Why a fenced write could not be judged. Nothing was written.
#[derive(Debug)]
#[non_exhaustive]
pub enum FenceError<E> {
    /// There is no row of this key.
    NoRow {
        /// The table.
        table: String,
    },
    /// Several rows have this key, so that there is no one token to compare with.
    ManyRows {
        /// The table.
        table: String,
        /// The key column.
        column: String,
    },
    /// The token column holds something other than whole numbers.
    TokenColumn {
        /// The table.
        table: String,
        /// The token column.
        column: String,
        /// What the column holds, in the database's words.
        kind: String,
    },
    /// The columns to set name the key or the token.
    Reserved {
        /// The column as it was given.
        column: String,
    },
    /// A guard needs a transaction.
    NoTransaction,
    /// The row is there and its token is not higher, but the database did not change it: a view, a trigger that
    /// ignores the change, or a row that was made at this very moment.
    NotWritten {
        /// The table.
        table: String,
    },
    /// The database failed; a busy database can be tried again with the same token.
    Database(E),
}

impl<E: fmt::Display> fmt::Display for FenceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRow { table } => {
                write!(f, "the table {table:?} has no row of this key; make it once with `ensure`")
            }
            Self::ManyRows { table, column } => write!(
                f,
                "several rows of the table {table:?} have this value in {column:?}; use a column that is unique"
            ),
            Self::TokenColumn { table, column, kind } => write!(
                f,
                "the token column {column:?} of the table {table:?} holds {kind} values, which tokens cannot be \
                 compared with safely; declare it `bigint` (in SQLite `integer`)"
            ),
            Self::Reserved { column } => {
                write!(f, "the column {column:?} cannot be set here: it is the row's key or its token")
            }
            Self::NoTransaction => write!(
                f,
                "a guard protects only what is written in the same transaction; begin one, or use `write`"
            ),
            Self::NotWritten { table } => write!(
                f,
                "the table {table:?} did not take the write; it must be an ordinary table without a trigger that \
                 ignores changes; try again"
            ),
            Self::Database(error) => write!(f, "the fenced write failed in the database: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for FenceError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            Self::NoRow { .. }
            | Self::ManyRows { .. }
            | Self::TokenColumn { .. }
            | Self::Reserved { .. }
            | Self::NoTransaction
            | Self::NotWritten { .. } => None,
        }
    }
}

impl<E> From<E> for FenceError<E> {
    fn from(error: E) -> Self {
        Self::Database(error)
    }
}
