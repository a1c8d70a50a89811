//! The tables and procedures: printed, applied, checked.

use simba_backend::Schema;

/// The version of the tables and procedures that this code calls.
pub const VERSION: u32 = 1;

const SQL: &str = include_str!("schema.sql");

/// Rights for a user of the database that holds the tables. Procedures run with the rights of whoever calls them.
const GRANTS: &str = "\
-- The rights that leases need, and no more; run them in the database that holds the tables.
create user simba identified by 'choose the password yourself';
grant select on simba_meta to simba;
grant select, insert, update, delete on simba_session to simba;
grant select, insert, update on simba_lease to simba;
grant execute on procedure simba_live to simba;
grant execute on procedure simba_reap to simba;
grant execute on procedure simba_open to simba;
grant execute on procedure simba_keep_alive to simba;
grant execute on procedure simba_take to simba;
grant execute on procedure simba_acquire to simba;
grant execute on procedure simba_release to simba;
grant execute on procedure simba_close to simba;
grant execute on procedure simba_force_release to simba;
grant execute on procedure simba_inspect to simba;
";

/// The statements that make the tables and procedures, for people who apply them by hand.
///
/// ```
/// assert!(simba_sql::mysql::schema::sql().contains("create table if not exists simba_lease"));
/// ```
#[must_use]
pub const fn sql() -> &'static str {
    SQL
}

pub(crate) fn schema() -> Schema {
    Schema { version: VERSION, sql: SQL.to_owned(), grants: Some(GRANTS.to_owned()) }
}

/// The statements one by one: `delimiter` is a word of the prompt, not of the server.
pub(crate) fn statements() -> Vec<&'static str> {
    let mut found = Vec::new();
    for (index, part) in SQL.split("delimiter").enumerate() {
        let (mark, body) = match index {
            0 => (";", part),
            _ => part.trim_start_matches(' ').split_once('\n').unwrap_or((";", "")),
        };
        found.extend(body.split(mark).map(str::trim).filter(|sql| !is_comment(sql)));
    }
    found
}

fn is_comment(sql: &str) -> bool {
    sql.lines().all(|line| line.trim().is_empty() || line.starts_with("--"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_statements_are_those_of_the_prompt() {
        let all = super::statements();
        assert_eq!(all.iter().filter(|sql| sql.contains("create table if not exists")).count(), 3);
        assert_eq!(all.iter().filter(|sql| sql.contains("create procedure")).count(), 10);
        assert!(all.last().is_some_and(|sql| sql.contains("insert ignore into simba_meta")));
        assert!(all.iter().all(|sql| !sql.contains("$$") && !sql.contains("delimiter")));
    }
}
