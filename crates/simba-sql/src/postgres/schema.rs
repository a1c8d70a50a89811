//! The tables and functions: printed, applied, checked.

use simba_backend::Schema;

/// The version of the tables and functions that this code calls.
pub const VERSION: u32 = 1;

const SQL: &str = include_str!("schema.sql");

/// Rights for a role that exists already. Functions run with the rights of whoever calls them.
const GRANTS: &str = "\
-- The rights that leases need, and no more, for the role simba; run them in the schema that holds the tables.
create role simba login; -- choose how it proves who it is: \\password simba
grant select on simba_meta to simba;
grant select, insert, update, delete on simba_session to simba;
grant select, insert, update on simba_lease to simba;
grant execute on all functions in schema public to simba;
";

/// The statements that make the tables and functions, for people who apply them by hand.
///
/// ```
/// assert!(simba_sql::postgres::schema::sql().contains("create table simba_lease"));
/// ```
#[must_use]
pub const fn sql() -> &'static str {
    SQL
}

pub(crate) fn schema() -> Schema {
    Schema { version: VERSION, sql: SQL.to_owned(), grants: Some(GRANTS.to_owned()) }
}

/// Makes them in one transaction, if they are missing. A lock that only this uses lets one of many do it.
pub(crate) fn apply() -> String {
    format!(
        "begin isolation level read committed;\n\
         select pg_advisory_xact_lock(7821402657123);\n\
         create or replace function pg_temp.simba_apply() returns void language plpgsql as $apply$\nbegin\n\
         if to_regclass('simba_meta') is null then\nexecute $schema$\n{SQL}\n$schema$;\nend if;\nend $apply$;\n\
         select pg_temp.simba_apply();\n\
         commit;"
    )
}
