//! The tables: printed, applied, checked.

use rusqlite::{Connection, OptionalExtension};

/// The version of the tables that this code reads and writes.
pub const VERSION: u32 = 1;

const SQL: &str = include_str!("schema.sql");

/// The statements that make the tables, for people who apply them by hand.
///
/// ```
/// assert!(simba_sql::sqlite::schema::sql().contains("create table simba_lease"));
/// ```
#[must_use]
pub const fn sql() -> &'static str {
    SQL
}

/// What a file holds of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The tables of this version.
    Present,
    /// None of them.
    Missing,
    /// Those of another version, as the file names it.
    Other(String),
}

/// Looks at a connection's database.
pub(crate) fn find(conn: &Connection) -> rusqlite::Result<Found> {
    let there = conn
        .query_row("select 1 from sqlite_schema where type = 'table' and name = 'simba_meta'", [], |_| Ok(()))
        .optional()?;
    if there.is_none() {
        return Ok(Found::Missing);
    }
    let version: Option<String> = conn
        .query_row("select value from simba_meta where key = 'schema'", [], |row| row.get(0))
        .optional()?;
    Ok(match version {
        Some(version) if version == VERSION.to_string() => Found::Present,
        Some(version) => Found::Other(version),
        None => Found::Other("none".to_owned()),
    })
}
