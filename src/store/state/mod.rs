//! The gateway's own database, `state.sqlite`: paired devices and their tokens, settings, the
//! audit ledger (`spec/store.md`, S22 to S26). Requests for pairing are in memory alone.

mod devices;
mod ledger;
mod worker;

pub use worker::{Answer, State};

use super::schema::{self, Kind};
use super::{StateLock, StoreError, Synchronous};
use crate::base::Millis;
use crate::gateway::audit::{Page, Query};
use crate::gateway::auth::{Device, Issuer};
use rusqlite::{Connection, OpenFlags};
use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The gateway's database: the letters "stgw".
const STATE: Kind = Kind { application: 0x7374_6777, migrations: MIGRATIONS };

const MIGRATIONS: &[&str] = &["
CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE devices(
  device_id TEXT PRIMARY KEY,
  public_key TEXT NOT NULL,
  display_name TEXT,
  platform TEXT,
  device_family TEXT,
  client_id TEXT,
  client_mode TEXT,
  browser_origin TEXT,
  remote_ip TEXT,
  label TEXT,
  roles TEXT NOT NULL,
  scopes TEXT NOT NULL,
  silent INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  approved_at INTEGER NOT NULL,
  last_seen_at INTEGER
) STRICT;
CREATE TABLE device_tokens(
  device_id TEXT NOT NULL REFERENCES devices(device_id),
  role TEXT NOT NULL,
  token TEXT NOT NULL,
  scopes TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  rotated_at INTEGER,
  revoked_at INTEGER,
  last_used_at INTEGER,
  issuer INTEGER,
  PRIMARY KEY(device_id, role)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit(
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id TEXT NOT NULL,
  source_id TEXT NOT NULL UNIQUE,
  schema_version INTEGER NOT NULL,
  source_sequence INTEGER NOT NULL,
  occurred_at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  action TEXT NOT NULL,
  status TEXT NOT NULL,
  error_code TEXT,
  actor_type TEXT NOT NULL,
  actor_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  session_key TEXT,
  session_id TEXT,
  run_id TEXT NOT NULL,
  tool_call_id TEXT,
  tool_name TEXT,
  direction TEXT,
  channel TEXT,
  conversation_kind TEXT,
  message_outcome TEXT,
  reason_code TEXT,
  delivery_kind TEXT,
  failure_stage TEXT,
  duration_ms INTEGER,
  result_count INTEGER,
  account_ref TEXT,
  conversation_ref TEXT,
  message_ref TEXT,
  target_ref TEXT
) STRICT;
CREATE INDEX audit_by_time ON audit(occurred_at);
CREATE INDEX audit_by_run ON audit(run_id, sequence);
"];

/// What a start finds.
#[derive(Debug, Default)]
pub struct Booted {
    /// The paired devices.
    pub devices: Vec<Device>,
    /// The shared secret that was the present one when the last process ended.
    pub issuer: Option<Issuer>,
    /// Rows that could not be read and were left out, with what is wrong with each.
    pub damaged: Vec<String>,
}

/// Where the database is inside a state directory.
#[must_use]
pub fn state_db(state_dir: &Path) -> PathBuf {
    state_dir.join("state.sqlite")
}

/// Opens the database for writing; its owner has the lock on the state directory.
fn open(path: &Path, synchronous: Synchronous) -> Result<Connection, StoreError> {
    if let Some(dir) = path.parent() {
        super::create_private(dir)?;
    }
    let io = |e: std::io::Error| StoreError::from_io(path, &e);
    if !schema::is_there(path)? {
        // The file belongs to its owner alone, from its first byte on (S23).
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(OWN).open(path).map_err(io)?;
    }
    let db = schema::open_kind(path, synchronous, &STATE)?;
    close_to_others(path).map_err(io)?;
    Ok(db)
}

/// The mode of the file, and of what the database keeps beside it.
const OWN: u32 = 0o600;

/// Closes a file that others could read, once it is known to be ours.
fn close_to_others(path: &Path) -> std::io::Result<()> {
    let beside = ["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{}{end}", path.display())));
    for file in beside.iter().filter(|file| file.exists()) {
        if std::fs::metadata(file)?.permissions().mode() & 0o077 != 0 {
            std::fs::set_permissions(file, Permissions::from_mode(OWN))?;
        }
    }
    Ok(())
}

/// A page of the ledger for a command, through a connection that cannot write; `None` if there is
/// no database yet. `now` decides what is too old to be shown.
///
/// # Errors
/// What the disk or the database says, or that its schema is another one than ours.
pub fn audit_page(path: &Path, query: &Query, now: Millis) -> Result<Option<Page>, StoreError> {
    if !schema::is_there(path)? {
        return Ok(None);
    }
    let sql = |e: rusqlite::Error| StoreError::from_sqlite(path, &e);
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(sql)?;
    db.busy_timeout(std::time::Duration::from_secs(5)).map_err(sql)?;
    if !schema::check_current(&db, path, &STATE)? {
        return Ok(None);
    }
    ledger::page(&db, query, now).map(Some).map_err(sql)
}

impl State {
    /// Opens the database, brings it up to date, drops what the ledger holds too long, and reads
    /// what a start needs. `answer` is called on the writer's thread and must not wait for anybody.
    ///
    /// # Errors
    /// `Newer` or `Foreign` before anything is touched; otherwise what the disk or the database
    /// says.
    pub fn open(
        state_dir: &Path,
        _lock: &StateLock,
        synchronous: Synchronous,
        now: Millis,
        answer: impl Fn(Answer) + Send + Sync + 'static,
    ) -> Result<(State, Booted), StoreError> {
        let path = state_db(state_dir);
        let mut db = open(&path, synchronous)?;
        let sql = |e: rusqlite::Error| StoreError::from_sqlite(&path, &e);
        let rows = ledger::prune_all(&mut db, now).map_err(sql)?;
        let booted = devices::load(&db).map_err(sql)?;
        Ok((State::new(path, db, rows, answer), booted))
    }
}
