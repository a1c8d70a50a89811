//! One connection: opened with every check, and re-opened when the file under it has changed.

use std::{
    fs::Metadata,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use simba_backend::{Failure, SchemaState};

use super::{
    config::SqliteConfig,
    failure::{at_commit, before, denied, timed_out, unsuitable},
    planted::planted,
    schema,
    worker::Limit,
};

/// Whether a commit is synced to the disk before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It is: what it wrote must survive a loss of power.
    Synced,
    /// It is not: a loss of power ends the sessions that it speaks of anyway.
    Relaxed,
}

/// Whether a call may make the file and its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Create {
    Yes,
    No,
}

/// A connection that is opened when it is first needed.
pub(crate) struct Link {
    config: Arc<SqliteConfig>,
    open: Option<Open>,
    /// When the running statement is broken off, on [`super::worker::wait_clock`].
    stop_at: Arc<AtomicU64>,
}

struct Open {
    conn: Connection,
    file: (u64, u64),
    durability: Durability,
}

impl Link {
    pub(crate) fn new(config: Arc<SqliteConfig>) -> Self {
        Self { config, open: None, stop_at: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Runs `act` in one immediate transaction. The write lock is held when it begins, so that it reads the clock
    /// at the right time, and a fault of it leaves nothing behind.
    pub(crate) fn write<T>(
        &mut self,
        create: Create,
        durability: Durability,
        limit: Limit,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        self.stop_at.store(limit.at(), Ordering::Relaxed);
        let result = self.write_open(create, durability, limit, act);
        self.stop_at.store(u64::MAX, Ordering::Relaxed);
        result
    }

    fn write_open<T>(
        &mut self,
        create: Create,
        durability: Durability,
        limit: Limit,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        let path = Arc::clone(&self.config);
        let path = path.path();
        let open = self.opened(create, limit)?;
        if open.durability != durability {
            set_durability(&open.conn, durability).map_err(|e| before(path, &e))?;
            open.durability = durability;
        }
        let tx = begin(&open.conn, path, limit)?;
        // Looked at again under the lock, for which the call may have waited long.
        if identity(path) != Some(open.file) {
            return Err(unsuitable(format!(
                "{} was replaced or deleted while the call waited; nothing was changed, and the next call uses what \
                 is there then",
                path.display()
            )));
        }
        let result = act(&tx).map_err(|e| before(path, &e))?;
        tx.commit().map_err(|e| at_commit(path, &e))?;
        Ok(result)
    }

    /// Runs `act` on a consistent view, without the right to write being needed.
    pub(crate) fn read<T>(
        &mut self,
        limit: Limit,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        self.stop_at.store(limit.at(), Ordering::Relaxed);
        let config = Arc::clone(&self.config);
        let result = self.opened(Create::No, limit).and_then(|open| {
            let tx = open.conn.unchecked_transaction().map_err(|e| before(config.path(), &e))?;
            act(&tx).map_err(|e| before(config.path(), &e))
        });
        self.stop_at.store(u64::MAX, Ordering::Relaxed);
        result
    }

    /// The connection, made anew if the path names another file than before.
    fn opened(&mut self, create: Create, limit: Limit) -> Result<&mut Open, Failure> {
        let present = identity(self.config.path());
        if self.open.as_ref().is_some_and(|open| Some(open.file) != present) {
            self.open = None;
        }
        if self.open.is_none() {
            let create = create == Create::Yes && self.config.create;
            self.open = Some(connect(&self.config, create, limit, &self.stop_at)?);
        }
        self.open.as_mut().ok_or_else(|| unsuitable("the connection is not open"))
    }
}

/// Which file the path names now.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|m| (m.dev(), m.ino()))
}

/// Begins an immediate transaction. The database's own back-off grows to a tenth of a second, far above the time
/// that a handover takes; this one tries every millisecond at the least.
fn begin<'c>(conn: &'c Connection, path: &Path, limit: Limit) -> Result<Transaction<'c>, Failure> {
    retry_busy(path, limit, || Transaction::new_unchecked(conn, TransactionBehavior::Immediate))
}

fn retry_busy<T>(
    path: &Path,
    limit: Limit,
    mut act: impl FnMut() -> rusqlite::Result<T>,
) -> Result<T, Failure> {
    let mut pause = Duration::from_micros(200);
    loop {
        match act() {
            Ok(done) => return Ok(done),
            Err(error) if is_busy(&error) && !limit.is_over() => {
                thread::sleep(pause.min(limit.left()));
                pause = (pause * 2).min(Duration::from_millis(1));
            }
            Err(error) => return Err(before(path, &error)),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn set_durability(conn: &Connection, durability: Durability) -> rusqlite::Result<()> {
    conn.execute_batch(match durability {
        Durability::Synced => "pragma synchronous = full",
        Durability::Relaxed => "pragma synchronous = normal",
    })
}

/// Opens the file, after looking at everything that makes it unfit.
fn connect(
    config: &SqliteConfig,
    create: bool,
    limit: Limit,
    stop_at: &Arc<AtomicU64>,
) -> Result<Open, Failure> {
    let path = config.path();
    check_file(path, create)?;
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let mut conn = Connection::open_with_flags(path, flags).map_err(|e| before(path, &e))?;
    prepare(&mut conn, config, stop_at).map_err(|e| before(path, &e))?;
    if conn.is_readonly("main").map_err(|e| before(path, &e))? {
        return Err(denied(format!(
            "{} is read-only for this user; leases need the right to write the file and its folder",
            path.display()
        )));
    }
    let mode: String =
        retry_busy(path, limit, || conn.query_row("pragma journal_mode = wal", [], |row| row.get(0)))?;
    if mode != "wal" {
        return Err(unsuitable(format!(
            "{} cannot use a write-ahead log (its journal mode stays {mode}); put the file on an ordinary local disk",
            path.display()
        )));
    }
    set_durability(&conn, Durability::Synced).map_err(|e| before(path, &e))?;
    ensure_schema(&conn, config, create, limit)?;
    let file = identity(path).ok_or_else(|| unsuitable(format!("{} is gone again", path.display())))?;
    Ok(Open { conn, file, durability: Durability::Synced })
}

fn prepare(conn: &mut Connection, config: &SqliteConfig, stop_at: &Arc<AtomicU64>) -> rusqlite::Result<()> {
    // Waiting for the lock is ours: see `begin`.
    conn.busy_timeout(Duration::ZERO)?;
    let stop_at = Arc::clone(stop_at);
    conn.progress_handler(
        1_000,
        Some(move || super::worker::wait_clock() > stop_at.load(Ordering::Relaxed)),
    )?;
    if let Some(pages) = config.max_pages {
        conn.query_row(&format!("pragma max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    conn.execute_batch("pragma trusted_schema = off")
}

fn ensure_schema(
    conn: &Connection,
    config: &SqliteConfig,
    create: bool,
    limit: Limit,
) -> Result<(), Failure> {
    let path = config.path();
    let fail = |e: rusqlite::Error| before(path, &e);
    let mut found = retry_busy(path, limit, || schema::find(conn))?;
    if found == SchemaState::Missing && create {
        // Whoever comes second waits for the lock, and finds the tables made.
        let tx = begin(conn, path, limit)?;
        found = schema::find(&tx).map_err(fail)?;
        if found == SchemaState::Missing {
            tx.execute_batch(&planted_schema(config)).map_err(fail)?;
            tx.commit().map_err(fail)?;
            found = SchemaState::Present;
        }
    }
    match found {
        SchemaState::Present | SchemaState::NotNeeded => Ok(()),
        SchemaState::Missing => Err(unsuitable(format!(
            "{} has no tables of Simba; apply them with `simba schema apply`, or let a client that may create them \
             open it once",
            path.display()
        ))),
        SchemaState::Other(version) => Err(unsuitable(format!(
            "{} holds tables of version {version}, and this program needs version {}; use a program of that \
             version, or another file",
            path.display(),
            schema::VERSION
        ))),
    }
}

fn planted_schema(config: &SqliteConfig) -> String {
    let sql = schema::sql();
    if planted!(config, M30NoTriggers) {
        let end = sql.find("-- The version of a session rises").unwrap_or(sql.len());
        return format!("{} insert into simba_meta (key, value) values ('schema', '1');", &sql[..end]);
    }
    if planted!(config, M55NamesFolded) {
        return sql.replacen(
            "name        text primary key not null",
            "name text collate nocase primary key not null",
            1,
        );
    }
    sql.to_owned()
}

/// What can be said of the file before the database looks at it, in better words than its own.
pub(crate) fn check_file(path: &Path, create: bool) -> Result<(), Failure> {
    let shown = path.display();
    match path.metadata() {
        Ok(meta) => check_present(path, &meta)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            if !folder.is_dir() {
                return Err(unsuitable(format!(
                    "{shown} cannot be made: its folder {} does not exist; make it first",
                    folder.display()
                )));
            }
            if !create {
                return Err(unsuitable(format!(
                    "{shown} does not exist; name an existing store, or let `simba run` or `simba schema apply` make it"
                )));
            }
            refuse_network(folder)?;
        }
        Err(error) => {
            return Err(denied(format!(
                "{shown} cannot be looked at ({error}); check the rights on its folders"
            )));
        }
    }
    Ok(())
}

fn check_present(path: &Path, meta: &Metadata) -> Result<(), Failure> {
    let shown = path.display();
    let kind = meta.file_type();
    if kind.is_dir() {
        return Err(unsuitable(format!(
            "{shown} is a directory; give the path of a file in it, such as {shown}/simba.db"
        )));
    }
    if kind.is_socket() || kind.is_fifo() || kind.is_char_device() || kind.is_block_device() {
        return Err(unsuitable(format!("{shown} is not an ordinary file; give the path of one")));
    }
    if meta.nlink() > 1 {
        return Err(unsuitable(format!(
            "{shown} has a second name (a hard link), and SQLite would keep a log for each; remove the other name"
        )));
    }
    refuse_network(path)?;
    if let Err(error) = accessat(CWD, path, Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS) {
        return Err(denied(format!(
            "{shown} cannot be read and written by this user ({error}); leases need the rights to do both"
        )));
    }
    check_header(path)
}

/// Looks at the first page, through the database's own code: closing a descriptor of ours would drop every lock
/// that this process holds on the file, and the next process to leave would delete the log under it.
fn check_header(path: &Path) -> Result<(), Failure> {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let looked = Connection::open_with_flags(uri, flags)
        .and_then(|conn| conn.query_row("pragma schema_version", [], |_| Ok(())));
    match looked {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Err(before(path, &error)),
        // Whatever else is wrong is found, and told better, when the file is opened.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Magic numbers of file systems whose locks and whose clock other hosts share: from linux/magic.h and the sources
/// of the kernel's own file systems.
const NETWORK: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x564c, "NCP"),
    (0x7375_7245, "Coda"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
];

fn refuse_network(path: &Path) -> Result<(), Failure> {
    let Ok(stat) = rustix::fs::statfs(path) else { return Ok(()) };
    match network_name(u64::try_from(stat.f_type).unwrap_or(0) & 0xffff_ffff) {
        None => Ok(()),
        Some(name) => Err(unsuitable(format!(
            "{} lies on a network file system ({name}); SQLite leases are for the processes of one host. Put the \
             file on a local disk, or use a store that is made for several hosts",
            path.display()
        ))),
    }
}

fn network_name(magic: u64) -> Option<&'static str> {
    NETWORK.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name)
}

/// The file that is written and watched so that a release is heard of at once.
pub(crate) fn wake_path(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wake");
    name.into()
}

/// Refuses a call whose time was over before it came to it.
pub(crate) fn check_limit(path: &Path, limit: Limit) -> Result<(), Failure> {
    if limit.is_over() { Err(timed_out(path)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xff53_4d42), Some("CIFS"));
        assert_eq!(network_name(0xef53), None, "ext4");
    }
}
