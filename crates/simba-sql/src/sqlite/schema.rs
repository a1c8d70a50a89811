//! The tables: printed, applied, checked.

use rusqlite::{Connection, OptionalExtension};
use simba_backend::{Schema, SchemaState};

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

/// The tables, as every store tells of its own. A file has no users to give rights to.
#[must_use]
pub fn schema() -> Schema {
    Schema { version: VERSION, sql: SQL.to_owned(), grants: None }
}

/// Looks at a connection's database.
pub(crate) fn find(conn: &Connection) -> rusqlite::Result<SchemaState> {
    let there = conn
        .query_row("select 1 from sqlite_schema where type = 'table' and name = 'simba_meta'", [], |_| Ok(()))
        .optional()?;
    if there.is_none() {
        return Ok(SchemaState::Missing);
    }
    let version: Option<String> = conn
        .query_row("select value from simba_meta where key = 'schema'", [], |row| row.get(0))
        .optional()?;
    Ok(match version {
        Some(version) if version == VERSION.to_string() => SchemaState::Present,
        Some(version) => SchemaState::Other(version),
        None => SchemaState::Other("none".to_owned()),
    })
}
