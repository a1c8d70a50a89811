//! The fenced writer against the fencing kit.
#![cfg(feature = "sqlite")]

use std::{path::PathBuf, sync::Arc, time::Duration};

use simba_backend::FencingToken;
use simba_sql::sqlite::{
    fence::{self, FencedTable},
    rusqlite::Connection,
};
use simba_tck::{
    failed,
    fencing::{FencedResource, Written, judge},
};

/// A row of a table, and a connection for each call, as several processes have.
struct Ledger {
    path: PathBuf,
    _folder: Arc<tempfile::TempDir>,
}

impl Ledger {
    fn new() -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        let ledger = Self { path: folder.path().join("ledger.db"), _folder: folder };
        let db = Connection::open(&ledger.path).expect("a file");
        db.execute_batch(
            "pragma journal_mode = wal;
             create table ledger (id text primary key, value text, fencing_token integer);
             insert into ledger (id) values ('main');",
        )
        .expect("a table");
        ledger
    }

    fn open(&self) -> Result<Connection, String> {
        let db = Connection::open(&self.path).map_err(|e| e.to_string())?;
        db.busy_timeout(Duration::from_secs(30)).map_err(|e| e.to_string())?;
        Ok(db)
    }
}

impl FencedResource for Ledger {
    fn write(&self, token: FencingToken, value: &str) -> Result<Written, String> {
        let table = FencedTable::new("ledger", "id");
        let written =
            table.write(&self.open()?, &"main", token, &[("value", &value)]).map_err(|e| e.to_string())?;
        Ok(match written {
            fence::Written::Accepted => Written::Accepted,
            fence::Written::Stale { .. } => Written::Refused,
        })
    }

    fn read(&self) -> Result<Option<String>, String> {
        self.open()?.query_row("select value from ledger", [], |row| row.get(0)).map_err(|e| e.to_string())
    }
}

#[test]
fn the_fenced_table_passes_the_fencing_kit() {
    let judged = judge(|| Box::new(Ledger::new()));
    assert_eq!(failed(&judged), [] as [&str; 0], "{judged:#?}");
}
