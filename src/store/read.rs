//! Reading: one session for its writer, lists and exports for people. Readers need no lock.

use super::{StoreError, schema};
use crate::base::{EntryId, Millis, MsgId, RunId, SessionId, json::tolerant};
use crate::engine::QueueKind;
use crate::records::{RunRow, SessionRow};
use crate::transcript::{Entry, OpenCall, User, entry::PROJECTION_VERSION};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run that did not end by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRun {
    /// The run.
    pub run: RunId,
    /// Process groups of its running calls: call, group, start time of its leader.
    pub processes: Vec<(u16, u32, u64)>,
}

/// A session as its writer needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Its row, if there is one.
    pub session: Option<SessionRow>,
    /// The entries of its active branch, from the root to the leaf.
    pub branch: Vec<Entry>,
    /// Calls without a stored result.
    pub calls: Vec<OpenCall>,
    /// Accepted messages without a place in the transcript, in order.
    pub queue: Vec<(MsgId, QueueKind, Arc<User>)>,
    /// How many accepted messages have no place in the transcript, whoever is to read them.
    pub waiting: u64,
    /// The active writer that did not end by itself, if there is one.
    pub open_run: Option<OpenRun>,
    /// Rows that could not be read and were left out, with what is wrong with each.
    pub damaged: Vec<String>,
}

/// A connection that cannot write.
#[derive(Debug)]
pub struct Reader {
    db: Connection,
    path: PathBuf,
}

impl Reader {
    /// Opens the database for reading only; `None` if there is none yet, or only the empty file
    /// of one whose making was interrupted.
    ///
    /// # Errors
    /// What the disk or the database says, or that its schema is newer than ours.
    pub fn open(path: &Path) -> Result<Option<Reader>, StoreError> {
        if !schema::is_there(path)? {
            return Ok(None);
        }
        let sql = |e: rusqlite::Error| StoreError::from_sqlite(path, &e);
        let db =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(sql)?;
        db.busy_timeout(std::time::Duration::from_secs(5)).map_err(sql)?;
        let made = schema::check_current(&db, path, &schema::AGENT)?;
        Ok(made.then(|| Reader { db, path: path.to_owned() }))
    }

    fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|e| StoreError::from_sqlite(&self.path, &e))
    }

    /// Every session, the latest first.
    ///
    /// # Errors
    /// What the database says.
    pub fn sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        self.sql(sessions(&self.db))
    }

    /// One session by its key.
    ///
    /// # Errors
    /// What the database says.
    pub fn session(&self, key: &str) -> Result<Option<Loaded>, StoreError> {
        let loaded = self.sql(load(&self.db, key))?;
        Ok(loaded.session.is_some().then_some(loaded))
    }

    /// The runs of a session, the latest first.
    ///
    /// # Errors
    /// What the database says.
    pub fn runs(&self, session: &SessionId) -> Result<Vec<RunRow>, StoreError> {
        self.sql(runs(&self.db, session))
    }

    /// The latest runs of all sessions, the latest first.
    ///
    /// # Errors
    /// What the database says.
    pub fn latest_runs(&self, most: u32) -> Result<Vec<RunRow>, StoreError> {
        self.sql(latest(&self.db, most))
    }

    /// The latest runs of one conversation, the latest first.
    ///
    /// # Errors
    /// What the database says.
    pub fn runs_of(&self, key: &str, most: u32) -> Result<Vec<RunRow>, StoreError> {
        self.sql(runs_of(&self.db, key, most))
    }

    /// The run of that name, else those whose names begin so, `most` at most, by name.
    ///
    /// # Errors
    /// What the database says.
    pub fn runs_named(&self, name: &str, most: u32) -> Result<Vec<RunRow>, StoreError> {
        match self.run(name)? {
            Some(run) => Ok(vec![run]),
            None => self.sql(beginning(&self.db, name, most)),
        }
    }

    /// The runs of a session that were accepted and have not begun, with the message of each, in
    /// the order of their acceptance.
    ///
    /// # Errors
    /// What the database says.
    pub fn not_begun(&self, session: &SessionId) -> Result<Vec<(RunId, MsgId)>, StoreError> {
        self.sql(not_begun(&self.db, session))
    }

    /// One run by its name.
    ///
    /// # Errors
    /// What the database says.
    pub fn run(&self, name: &str) -> Result<Option<RunRow>, StoreError> {
        self.sql(run(&self.db, name))
    }
}

pub(super) const SESSION: &str = "SELECT session_key, session_id, revision, active_run, cwd, \
                       created_at, updated_at, \
                       entry_count, started_at, interaction_at, interrupted, \
                       queue_settings, parent_key, meta, leaf FROM sessions";

pub(super) fn session_row(r: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        key: r.get(0)?,
        session_id: SessionId::new(r.get::<_, String>(1)?),
        revision: r.get(2)?,
        active_run: r.get(3)?,
        cwd: r.get(4)?,
        created_at: millis(r, 5)?,
        updated_at: millis(r, 6)?,
        entries: unsigned(r, 7)?,
        started_at: millis(r, 8)?,
        interaction_at: millis(r, 9)?,
        interrupted: r.get(10)?,
        queue_settings: text(r, 11)?,
        parent_key: text(r, 12)?,
        meta: text(r, 13)?,
        leaf: text(r, 14)?,
    })
}

pub(super) fn unsigned(r: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(r.get::<_, i64>(column)?).unwrap_or(0))
}

/// A text column whose bytes need not be text: what is not is replaced, so that one bad byte
/// spoils one value and not the session.
pub(super) fn text(r: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    let bytes = r.get_ref(column)?.as_bytes_or_null().unwrap_or_default();
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

pub(super) fn millis(r: &Row<'_>, column: usize) -> rusqlite::Result<Millis> {
    Ok(Millis(unsigned(r, column)?))
}

fn sessions(db: &Connection) -> rusqlite::Result<Vec<SessionRow>> {
    let sql = format!(
        "{SESSION} WHERE session_key NOT LIKE 'deleted:%' ORDER BY updated_at DESC, session_key"
    );
    db.prepare(&sql)?.query_map([], session_row)?.collect()
}

pub(super) const RUN: &str = "SELECT run_id, session_key, runs.session_id, accepted_at, \
                   claimed_at, ended_at, termination, into_run, phases, turn, request FROM runs \
                   LEFT JOIN sessions ON sessions.session_id = runs.session_id \
                   AND session_key NOT LIKE 'deleted:%'";

pub(super) fn run_row(r: &Row<'_>) -> rusqlite::Result<RunRow> {
    let at = |column| {
        let ms: Option<i64> = r.get(column)?;
        Ok::<_, rusqlite::Error>(ms.map(|ms| Millis(u64::try_from(ms).unwrap_or(0))))
    };
    let value = |text: Option<String>| text.and_then(|t| serde_json::from_str(&t).ok());
    let termination = text(r, 6)?.and_then(|t| serde_json::from_str(&t).ok());
    Ok(RunRow {
        run_id: r.get(0)?,
        key: r.get(1)?,
        session_id: SessionId::new(r.get::<_, String>(2)?),
        accepted_at: millis(r, 3)?,
        started_at: at(4)?,
        ended_at: at(5)?,
        termination,
        into_run: r.get(7)?,
        phases: value(text(r, 8)?),
        turn: value(text(r, 9)?),
        request: r.get(10)?,
    })
}

fn runs(db: &Connection, session: &SessionId) -> rusqlite::Result<Vec<RunRow>> {
    let sql = format!("{RUN} WHERE runs.session_id = ?1 ORDER BY accepted_at DESC, run_id DESC");
    db.prepare_cached(&sql)?.query_map([session.as_str()], run_row)?.collect()
}

/// The latest runs of all sessions.
fn latest(db: &Connection, most: u32) -> rusqlite::Result<Vec<RunRow>> {
    let sql = format!("{RUN} ORDER BY accepted_at DESC, run_id DESC LIMIT ?1");
    db.prepare_cached(&sql)?.query_map([most], run_row)?.collect()
}

/// The latest runs of one conversation.
fn runs_of(db: &Connection, key: &str, most: u32) -> rusqlite::Result<Vec<RunRow>> {
    let sql =
        format!("{RUN} WHERE session_key = ?1 ORDER BY accepted_at DESC, run_id DESC LIMIT ?2");
    db.prepare_cached(&sql)?.query_map(params![key, most], run_row)?.collect()
}

/// Runs whose names begin so. The comparisons find them by the index of names: no character is
/// higher than the one that is appended.
fn beginning(db: &Connection, name: &str, most: u32) -> rusqlite::Result<Vec<RunRow>> {
    let sql = format!(
        "{RUN} WHERE run_id >= ?1 AND run_id < ?1 || char(1114111) \
         AND substr(run_id, 1, length(?1)) = ?1 ORDER BY run_id LIMIT ?2"
    );
    db.prepare_cached(&sql)?.query_map(params![name, most], run_row)?.collect()
}

fn not_begun(db: &Connection, session: &SessionId) -> rusqlite::Result<Vec<(RunId, MsgId)>> {
    // A run without a message can be ended all the same: no message has the highest name.
    let sql = "SELECT runs.run_id, coalesce(msg_id, 9223372036854775807) FROM runs LEFT JOIN queue \
               ON queue.session_id = runs.session_id AND queue.run_id = runs.run_id \
               WHERE runs.session_id = ?1 AND ended_at IS NULL AND claimed_at IS NULL \
               ORDER BY accepted_at, queue.n";
    let row = |r: &Row<'_>| Ok((RunId::new(r.get::<_, String>(0)?), MsgId(unsigned(r, 1)?)));
    db.prepare_cached(sql)?.query_map([session.as_str()], row)?.collect()
}

/// One run by its name.
pub(super) fn run(db: &Connection, run: &str) -> rusqlite::Result<Option<RunRow>> {
    db.prepare_cached(&format!("{RUN} WHERE run_id = ?1"))?.query_row([run], run_row).optional()
}

/// A session with all its writer needs.
pub(super) fn load(db: &Connection, key: &str) -> rusqlite::Result<Loaded> {
    let sql = format!("{SESSION} WHERE session_key = ?1");
    let session = db.prepare_cached(&sql)?.query_row([key], session_row).optional()?;
    let mut loaded = Loaded {
        session: None,
        branch: vec![],
        calls: vec![],
        queue: vec![],
        waiting: 0,
        open_run: None,
        damaged: vec![],
    };
    let Some(session) = session else { return Ok(loaded) };
    let id = session.session_id.as_str();
    known_version(db, id)?;
    loaded.branch = branch(db, id, &mut loaded.damaged)?;
    loaded.queue = queue(db, id, &mut loaded.damaged)?;
    let sql = "SELECT count(*) FROM queue WHERE session_id = ?1";
    loaded.waiting = db.prepare_cached(sql)?.query_row([id], |r| unsigned(r, 0))?;
    let (calls, processes) = calls(db, id, &mut loaded.damaged)?;
    loaded.calls = calls;
    loaded.open_run =
        session.active_run.as_deref().map(|run| OpenRun { run: RunId::new(run), processes });
    loaded.session = Some(session);
    Ok(loaded)
}

/// A projection that a newer program wrote is not read half.
fn known_version(db: &Connection, session: &str) -> rusqlite::Result<()> {
    let sql = "SELECT version FROM sessions WHERE session_id = ?1";
    let version: u32 = db.prepare_cached(sql)?.query_row([session], |r| r.get(0))?;
    if version <= PROJECTION_VERSION {
        return Ok(());
    }
    Err(rusqlite::Error::InvalidColumnType(
        0,
        format!(
            "session {session} has version {version}, this program knows {PROJECTION_VERSION}: a \
             newer stepclaw wrote it"
        ),
        rusqlite::types::Type::Integer,
    ))
}

/// An entry's columns before its body is read.
struct Raw {
    id: String,
    parent: Option<String>,
    at: Millis,
    body: String,
}

/// The active branch: from the leaf up to the root, and then turned round. A body that cannot be
/// read is left out and named; the chain goes on through the columns beside it.
fn branch(
    db: &Connection,
    session: &str,
    damaged: &mut Vec<String>,
) -> rusqlite::Result<Vec<Entry>> {
    let leaf: Option<String> =
        db.query_row("SELECT leaf FROM sessions WHERE session_id = ?1", [session], |r| r.get(0))?;
    let sql = "SELECT id, parent_id, at, body FROM entries WHERE session_id = ?1 ORDER BY n";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([session])?;
    let mut raws: Vec<Raw> = Vec::new();
    while let Some(r) = rows.next()? {
        raws.push(Raw {
            id: text(r, 0)?.unwrap_or_default(),
            parent: text(r, 1)?,
            at: millis(r, 2)?,
            body: text(r, 3)?.unwrap_or_default(),
        });
    }
    let on_branch = ancestors(&raws, leaf, damaged);
    let mut entries = Vec::with_capacity(raws.len());
    for (raw, _) in raws.into_iter().zip(on_branch).filter(|(_, on)| *on) {
        match tolerant(&raw.body) {
            Ok(read) => {
                if read.replaced > 0 {
                    damaged.push(format!("entry {}: {} lone surrogates", raw.id, read.replaced));
                }
                let parent = raw.parent.map(EntryId::new);
                entries.push(Entry::restore(EntryId::new(raw.id), parent, raw.at, read.value));
            }
            Err(error) => damaged.push(format!("entry {}: {error}", raw.id)),
        }
    }
    Ok(entries)
}

/// Which rows are on the way from the leaf to the root. Parents come before their children, so one
/// pass from the end finds them; a straight chain needs no look-up at all.
fn ancestors(raws: &[Raw], leaf: Option<String>, damaged: &mut Vec<String>) -> Vec<bool> {
    let mut on = vec![false; raws.len()];
    let end = raws.iter().rposition(|r| Some(&r.id) == leaf.as_ref());
    if let Some(end) = end.filter(|_| straight(raws)) {
        on[..=end].fill(true);
        return on;
    }
    let index: BTreeMap<&str, usize> =
        raws.iter().enumerate().map(|(i, r)| (r.id.as_str(), i)).collect();
    let mut at = end;
    if at.is_none() && leaf.is_some() {
        damaged.push("the last entry is missing".to_owned());
        at = raws.len().checked_sub(1);
    }
    while let Some(i) = at {
        if std::mem::replace(&mut on[i], true) {
            break;
        }
        let Some(parent) = raws[i].parent.as_deref() else { break };
        at = index.get(parent).copied();
        if at.is_none() {
            // The chain goes on with the row before: a lost row must not end the history.
            damaged.push(format!("entry {parent}: it is missing"));
            at = i.checked_sub(1);
        }
    }
    on
}

fn straight(raws: &[Raw]) -> bool {
    let linked = |pair: &[Raw]| pair[1].parent.as_deref() == Some(pair[0].id.as_str());
    raws.first().is_none_or(|r| r.parent.is_none()) && raws.windows(2).all(linked)
}

fn queue(
    db: &Connection,
    session: &str,
    damaged: &mut Vec<String>,
) -> rusqlite::Result<Vec<(MsgId, QueueKind, Arc<User>)>> {
    // The message of a run that has not ended is that run's; what others left is anybody's.
    let sql = "SELECT msg_id, kind, body FROM queue LEFT JOIN runs ON runs.run_id = queue.run_id \
               WHERE queue.session_id = ?1 AND (queue.run_id IS NULL OR ended_at IS NOT NULL) \
               ORDER BY n";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([session])?;
    let mut queue = Vec::new();
    while let Some(r) = rows.next()? {
        let id = MsgId(unsigned(r, 0)?);
        let kind = match r.get_ref(1)?.as_str().unwrap_or_default() {
            "steer" => QueueKind::Steer,
            "prompt" => QueueKind::Prompt,
            _ => QueueKind::FollowUp,
        };
        match tolerant(&text(r, 2)?.unwrap_or_default()) {
            Ok(read) => queue.push((id, kind, Arc::new(read.value))),
            Err(error) => damaged.push(format!("waiting message {}: {error}", id.0)),
        }
    }
    Ok(queue)
}

type OpenCalls = (Vec<OpenCall>, Vec<(u16, u32, u64)>);

fn calls(db: &Connection, session: &str, damaged: &mut Vec<String>) -> rusqlite::Result<OpenCalls> {
    let sql = "SELECT idx, call_id, name, checked, launched, stored, pgid, started, output \
               FROM calls WHERE session_id = ?1 ORDER BY idx";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([session])?;
    let (mut calls, mut processes) = (Vec::new(), Vec::new());
    while let Some(r) = rows.next()? {
        let idx: u16 = r.get(0)?;
        let check = match tolerant(&text(r, 3)?.unwrap_or_default()) {
            Ok(read) => read.value,
            Err(error) => {
                damaged.push(format!("call {idx}: {error}"));
                crate::transcript::Check::Rejected("The stored call could not be read.".into())
            }
        };
        let output = text(r, 8)?.and_then(|text| match tolerant(&text) {
            Ok(read) => Some(Arc::new(read.value)),
            Err(error) => {
                damaged.push(format!("output of call {idx}: {error}"));
                None
            }
        });
        if let (Some(pgid), None) = (r.get::<_, Option<u32>>(6)?, &output) {
            processes.push((idx, pgid, unsigned(r, 7)?));
        }
        calls.push(OpenCall {
            id: text(r, 1)?.unwrap_or_default(),
            name: text(r, 2)?.unwrap_or_default(),
            check,
            launched: r.get(4)?,
            output,
            stored: r.get(5)?,
        });
    }
    Ok((calls, processes))
}
