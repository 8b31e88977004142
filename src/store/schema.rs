//! Opening, versions and migrations. A newer schema is refused by name before anything is touched.

use super::{StoreError, create_private};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

/// The schema of an agent's database that this program writes.
pub const SCHEMA_VERSION: i64 = AGENT.version();

/// Marks an agent's databases in the file's header: the letters "step".
pub(super) const APPLICATION_ID: i64 = 0x7374_6570;

/// What is said about one kind of database.
pub(super) struct Kind {
    /// Its mark in the file's header.
    pub application: i64,
    /// Its migrations, in order: number n takes schema n to n + 1.
    pub migrations: &'static [&'static str],
}

/// An agent's.
pub(super) const AGENT: Kind = Kind { application: APPLICATION_ID, migrations: MIGRATIONS };

impl Kind {
    /// The schema that this program writes.
    const fn version(&self) -> i64 {
        self.migrations.len() as i64
    }
}

/// How long a call waits for another program that has the database, ms.
const BUSY_MS: u64 = 5_000;

/// Pages in the log after which it is written back.
const LOG_PAGES: i64 = 250;

/// When a commit is on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Synchronous {
    /// When it returns: nothing acknowledged is lost, also when power fails.
    #[default]
    Full,
    /// Soon: nothing acknowledged is lost when the process dies; the last commits may be when
    /// power fails. The database is whole either way.
    Normal,
}

/// Every migration, in order: number n takes schema n to n + 1.
pub(super) const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE sessions(
  session_id TEXT PRIMARY KEY,
  session_key TEXT NOT NULL UNIQUE,
  revision INTEGER NOT NULL DEFAULT 0,
  active_run TEXT,
  leaf TEXT,
  version INTEGER NOT NULL,
  cwd TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  entry_count INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE entries(
  n INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions(session_id),
  id TEXT NOT NULL,
  parent_id TEXT,
  at INTEGER NOT NULL,
  run_id TEXT,
  idem TEXT,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX entries_by_id ON entries(session_id, id);
CREATE INDEX entries_by_session ON entries(session_id, n);
CREATE UNIQUE INDEX entries_by_key ON entries(session_id, idem) WHERE idem IS NOT NULL;
CREATE TABLE runs(
  run_id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions(session_id),
  entry TEXT NOT NULL,
  accepted_at INTEGER NOT NULL,
  claimed_at INTEGER,
  ended_at INTEGER,
  termination TEXT
) STRICT;
CREATE INDEX runs_open ON runs(session_id) WHERE ended_at IS NULL;
CREATE INDEX runs_by_session ON runs(session_id, accepted_at);
CREATE TABLE calls(
  session_id TEXT NOT NULL REFERENCES sessions(session_id),
  idx INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  name TEXT NOT NULL,
  checked TEXT NOT NULL,
  launched INTEGER NOT NULL DEFAULT 0,
  stored INTEGER NOT NULL DEFAULT 0,
  pgid INTEGER,
  started INTEGER,
  output TEXT,
  PRIMARY KEY(session_id, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE queue(
  n INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions(session_id),
  msg_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX queue_by_id ON queue(session_id, msg_id);
",
    "
ALTER TABLE sessions ADD COLUMN started_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN interaction_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN interrupted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN queue_settings TEXT;
ALTER TABLE sessions ADD COLUMN parent_key TEXT;
UPDATE sessions SET started_at = created_at, interaction_at = updated_at;
CREATE INDEX sessions_active ON sessions(session_key) WHERE active_run IS NOT NULL;
CREATE INDEX sessions_interrupted ON sessions(session_key) WHERE interrupted != 0;
ALTER TABLE runs ADD COLUMN request TEXT;
ALTER TABLE runs ADD COLUMN turn TEXT;
ALTER TABLE runs ADD COLUMN into_run TEXT;
ALTER TABLE runs ADD COLUMN phases TEXT;
CREATE INDEX runs_waiting ON runs(accepted_at) WHERE ended_at IS NULL AND claimed_at IS NULL;
ALTER TABLE queue ADD COLUMN run_id TEXT;
",
    "
ALTER TABLE sessions ADD COLUMN meta TEXT;
",
];

/// Opens an agent's database for writing, creating and migrating it as needed.
///
/// # Errors
/// `Newer` or `Foreign` before anything is touched; otherwise what the disk or the database says.
pub fn open(path: &Path, synchronous: Synchronous) -> Result<Connection, StoreError> {
    open_kind(path, synchronous, &AGENT)
}

/// The same for any kind of database.
pub(super) fn open_kind(
    path: &Path,
    synchronous: Synchronous,
    kind: &Kind,
) -> Result<Connection, StoreError> {
    if let Some(dir) = path.parent() {
        create_private(dir)?;
    }
    is_there(path)?;
    check_header(path, kind)?;
    let sql = |e: rusqlite::Error| StoreError::from_sqlite(path, &e);
    let mut db = Connection::open(path).map_err(sql)?;
    check(&db, path, kind)?;
    db.busy_timeout(Duration::from_millis(BUSY_MS)).map_err(sql)?;
    // The log is kept at the end: the next start goes on with it, and ending costs no sync.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(sql)?;
    db.set_prepared_statement_cache_capacity(64);
    let sync = match synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    db.pragma_update(None, "synchronous", sync).map_err(sql)?;
    // A small machine: half a megabyte of pages is plenty for what one session touches.
    db.pragma_update(None, "cache_size", -512).map_err(sql)?;
    // The next start reads the log once from its beginning: it is kept short.
    db.pragma_update(None, "wal_autocheckpoint", LOG_PAGES).map_err(sql)?;
    let version = version(&db).map_err(sql)?;
    if version < kind.version() {
        migrate(&mut db, version, kind).map_err(sql)?;
    }
    db.pragma_update(None, "journal_mode", "WAL").map_err(sql)?;
    Ok(db)
}

fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Whether there is a file. What is something else, as a pipe that would be waited for, is refused
/// before it is opened.
pub(super) fn is_there(path: &Path) -> Result<bool, StoreError> {
    match std::fs::metadata(path) {
        Ok(what) if what.is_file() => Ok(true),
        Ok(_) => Err(StoreError::NoFile { path: path.to_owned() }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::from_io(path, &e)),
    }
}

/// Reads the version from the file's header, without the database's help: not even its lock file
/// is touched. Migrations write the header in place, before the log is used.
fn check_header(path: &Path, kind: &Kind) -> Result<(), StoreError> {
    let io = |e: std::io::Error| StoreError::from_io(path, &e);
    let mut header = [0u8; 100];
    match File::open(path).and_then(|mut file| file.read_exact(&mut header)) {
        // None, or not a whole header: what it is, the database will say.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => Ok(()),
        Err(e) => Err(io(e)),
        Ok(()) if !header.starts_with(b"SQLite format 3\0") => {
            let detail = "file is not a database".to_owned();
            Err(StoreError::Corrupt { path: path.to_owned(), detail })
        }
        Ok(()) => {
            let word = |at: usize| -> i64 {
                let [a, b, c, d] = [0, 1, 2, 3].map(|n| header[at + n]);
                u32::from_be_bytes([a, b, c, d]).into()
            };
            let (found, application) = (word(60), word(68));
            if application != 0 && application != kind.application {
                return Err(StoreError::Foreign { path: path.to_owned() });
            }
            if found > kind.version() {
                let (path, known) = (path.to_owned(), kind.version());
                return Err(StoreError::Newer { path, found, known });
            }
            Ok(())
        }
    }
}

/// Refuses a database whose tables are not those that this program reads.
pub(super) fn check_current(db: &Connection, path: &Path, kind: &Kind) -> Result<bool, StoreError> {
    let made = check(db, path, kind)?;
    let found = version(db).map_err(|e| StoreError::from_sqlite(path, &e))?;
    let known = kind.version();
    if made && found < known {
        return Err(StoreError::Older { path: path.to_owned(), found, known });
    }
    Ok(made)
}

/// Refuses a database that a newer program or another one wrote; tells whether it has tables.
fn check(db: &Connection, path: &Path, kind: &Kind) -> Result<bool, StoreError> {
    let sql = |e: rusqlite::Error| StoreError::from_sqlite(path, &e);
    let application: i64 =
        db.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(sql)?;
    let tables: i64 =
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(sql)?;
    if tables > 0 && application != kind.application {
        return Err(StoreError::Foreign { path: path.to_owned() });
    }
    let found = version(db).map_err(sql)?;
    if found > kind.version() {
        let (path, known) = (path.to_owned(), kind.version());
        return Err(StoreError::Newer { path, found, known });
    }
    Ok(tables > 0)
}

/// In one transaction, and in place: the log comes into use after it.
fn migrate(db: &mut Connection, from: i64, kind: &Kind) -> rusqlite::Result<()> {
    db.pragma_update(None, "journal_mode", "DELETE")?;
    let tx = db.transaction()?;
    for sql in kind.migrations.iter().skip(usize::try_from(from).unwrap_or(0)) {
        tx.execute_batch(sql)?;
    }
    tx.pragma_update(None, "application_id", kind.application)?;
    tx.pragma_update(None, "user_version", kind.version())?;
    tx.commit()
}
