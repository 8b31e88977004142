//! Commits: what one pass produced, in one transaction, each session's part behind the fence.

use super::{Admit, Admitted, Manage, StoreError, admit, manage};
use crate::base::{Millis, RunId, SessionId};
use crate::engine::{Cause, FenceRefusal, QueueKind, Termination};
use crate::transcript::{EntryKind, Message, OpenCall, User, Write, entry::PROJECTION_VERSION};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::path::Path;

/// One session's part of a commit.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The session.
    pub session: SessionId,
    /// Its key, for the first commit of a session.
    pub key: String,
    /// Where its tools work, for the first commit of a session.
    pub cwd: String,
    /// The revision that the writer has read; another one means that the session was reset.
    pub revision: u32,
    /// The run that writes: it must be the active writer, or claim that within this commit.
    /// `None` for a permitted foreign append (an announcement), which may only add messages.
    pub writer: Option<RunId>,
    /// The active writer in the snapshot on which a claim rests: the compare of its
    /// compare-and-set. Of no matter where nothing is claimed.
    pub seen: Option<RunId>,
    /// What to write, in order.
    pub writes: Vec<Write>,
    /// When.
    pub at: Millis,
}

/// Why a part was not committed; the others were.
#[derive(Clone, Debug)]
pub enum Denied {
    /// The fence refused: a coordination error, never retried (semantics 7.4).
    Fenced(FenceRefusal),
    /// This part failed.
    Failed(StoreError),
}

/// The result of one part.
pub type Committed = Result<(), Denied>;

/// Why a part ends early.
pub(super) enum Stop {
    Denied(Denied),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Stop {
        Stop::Sql(error)
    }
}

/// One part of a transaction.
#[derive(Clone, Debug)]
pub enum Part {
    /// What a run writes, or a permitted foreign append.
    Commit(Box<Commit>),
    /// A client's message is accepted.
    Admit(Box<Admit>),
    /// A session as a whole is changed.
    Manage(Box<Manage>),
}

/// What became of a part that was committed.
#[derive(Clone, PartialEq, Debug)]
pub enum Fact {
    /// It is written.
    Written,
    /// The answer to an admission.
    Admitted(Admitted),
}

/// The result of one part.
pub type PartResult = Result<Fact, Denied>;

/// Commits one session's parts each; see [`execute_all`].
pub fn commit_all(db: &mut Connection, path: &Path, parts: &[Commit]) -> Vec<Committed> {
    let parts: Vec<Part> = parts.iter().cloned().map(|p| Part::Commit(Box::new(p))).collect();
    execute_all(db, path, &parts).into_iter().map(|r| r.map(|_| ())).collect()
}

/// Commits every part in one transaction. If the transaction itself fails, every part has failed
/// and nothing was written.
pub fn execute_all(db: &mut Connection, path: &Path, parts: &[Part]) -> Vec<PartResult> {
    let failed = |error: &rusqlite::Error| {
        let error = StoreError::from_sqlite(path, error);
        parts.iter().map(|_| Err(Denied::Failed(error.clone()))).collect()
    };
    let behavior = rusqlite::TransactionBehavior::Immediate;
    let mut tx = match db.transaction_with_behavior(behavior) {
        Ok(tx) => tx,
        Err(error) => return failed(&error),
    };
    let mut results = Vec::with_capacity(parts.len());
    for part in parts {
        match one(&mut tx, path, part) {
            Ok(result) => results.push(result),
            Err(error) => return failed(&error),
        }
    }
    match tx.commit() {
        Ok(()) => results,
        Err(error) => failed(&error),
    }
}

fn part(db: &Connection, part: &Part) -> Result<Fact, Stop> {
    match part {
        Part::Commit(commit) => execute(db, commit).map(|()| Fact::Written),
        Part::Admit(admit) => admit::admit(db, admit).map(Fact::Admitted),
        Part::Manage(manage) => manage::manage(db, manage).map(|()| Fact::Written),
    }
}

/// One part in its savepoint. An error of the savepoint itself spoils the whole transaction; so
/// does one after which the database has given up the transaction by itself, as it may when the
/// disk is full: then that error is the reason, and not that the savepoint is gone.
fn one(tx: &mut Transaction<'_>, path: &Path, what: &Part) -> rusqlite::Result<PartResult> {
    let mut savepoint = tx.savepoint()?;
    match part(&savepoint, what) {
        Ok(fact) => {
            savepoint.commit()?;
            Ok(Ok(fact))
        }
        Err(Stop::Sql(error)) if savepoint.is_autocommit() => Err(error),
        Err(stop) => {
            savepoint.rollback()?;
            savepoint.commit()?;
            Ok(Err(match stop {
                Stop::Denied(denied) => denied,
                Stop::Sql(error) => Denied::Failed(StoreError::from_sqlite(path, &error)),
            }))
        }
    }
}

/// The session's row as the transaction sees it.
struct Row {
    revision: u32,
    active: Option<String>,
    leaf: Option<String>,
    entries: i64,
}

fn row(db: &Connection, session: &str) -> rusqlite::Result<Option<Row>> {
    let sql = "SELECT revision, active_run, leaf, entry_count FROM sessions WHERE session_id = ?1";
    db.prepare_cached(sql)?
        .query_row([session], |r| {
            Ok(Row { revision: r.get(0)?, active: r.get(1)?, leaf: r.get(2)?, entries: r.get(3)? })
        })
        .optional()
}

fn execute(db: &Connection, part: &Commit) -> Result<(), Stop> {
    let accepts = part.writes.iter().any(|w| matches!(w, Write::Accept { .. }));
    let mut row = match row(db, part.session.as_str())? {
        Some(row) => row,
        None => {
            // The key may have been given to another session since its snapshot was read.
            if holder(db, &part.key)?.is_some() {
                return Err(fenced(FenceRefusal::SessionChanged));
            }
            if !accepts {
                return Err(fenced(FenceRefusal::SessionEntryMissing));
            }
            reserve(db, part)?
        }
    };
    let before = (row.leaf.clone(), row.entries);
    if row.revision != part.revision {
        let claims = part.writes.iter().any(|w| matches!(w, Write::Claim));
        return Err(fenced(if claims {
            FenceRefusal::RevisionChanged
        } else {
            FenceRefusal::SessionRebound { by: row.active.map(RunId::new) }
        }));
    }
    let mut writer = Fence { active: row.active.take(), part };
    for write in &part.writes {
        writer.check(write)?;
        apply(db, part, write, &mut row, &mut writer)?;
    }
    if before != (row.leaf.clone(), row.entries) {
        let sql = "UPDATE sessions SET leaf = ?2, entry_count = ?3, updated_at = ?4 \
                   WHERE session_id = ?1";
        let at = sql_ms(part.at);
        db.prepare_cached(sql)?.execute(params![
            part.session.as_str(),
            row.leaf,
            row.entries,
            at
        ])?;
    }
    Ok(())
}

/// The session that has a key.
pub(super) fn holder(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT session_id FROM sessions WHERE session_key = ?1";
    db.prepare_cached(sql)?.query_row([key], |r| r.get(0)).optional()
}

pub(super) fn fenced(why: FenceRefusal) -> Stop {
    Stop::Denied(Denied::Fenced(why))
}

/// The first commit of a session makes its row.
fn reserve(db: &Connection, part: &Commit) -> rusqlite::Result<Row> {
    let sql = "INSERT INTO sessions(session_id, session_key, revision, version, cwd, created_at, \
               updated_at, started_at, interaction_at) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?6, ?6, ?6)";
    db.prepare_cached(sql)?.execute(params![
        part.session.as_str(),
        part.key,
        part.revision,
        PROJECTION_VERSION,
        part.cwd,
        sql_ms(part.at)
    ])?;
    Ok(Row { revision: part.revision, active: None, leaf: None, entries: 0 })
}

/// The fence: who may write what at this point of the transaction.
struct Fence<'a> {
    active: Option<String>,
    part: &'a Commit,
}

impl Fence<'_> {
    fn holds(&self) -> bool {
        let writer = self.part.writer.as_ref().map(RunId::as_str);
        writer.is_some() && writer == self.active.as_deref()
    }

    fn check(&self, write: &Write) -> Result<(), Stop> {
        let free = match write {
            // Accepting a run, or a message for it, is not writing as the session's writer.
            Write::Accept { .. } | Write::QueuePut { .. } => true,
            Write::Claim => self.part.writer.is_some(),
            Write::Put(_) | Write::QueueTake(_) => self.part.writer.is_none(),
            Write::CallsOpen(_)
            | Write::CallsLaunched(_)
            | Write::CallProcess { .. }
            | Write::CallKnown { .. }
            | Write::CallStored(_)
            | Write::Phases(_)
            | Write::EndJoined { .. }
            | Write::End { .. } => false,
        };
        if free || self.holds() {
            return Ok(());
        }
        let by = self.active.as_deref().map(RunId::new);
        Err(fenced(FenceRefusal::SessionRebound { by }))
    }
}

fn apply(
    db: &Connection,
    part: &Commit,
    write: &Write,
    row: &mut Row,
    fence: &mut Fence<'_>,
) -> Result<(), Stop> {
    let session = part.session.as_str();
    match write {
        Write::Accept { run, entry, at } => accept(db, session, run, *entry, *at)?,
        Write::Claim => claim(db, part, fence)?,
        Write::Put(entry) => put(db, part, entry, row)?,
        Write::QueuePut { id, kind, body } => {
            // A message that was admitted before keeps its place, and the run it came with.
            let sql = "INSERT INTO queue(session_id, msg_id, kind, body) VALUES(?1, ?2, ?3, ?4) \
                       ON CONFLICT(session_id, msg_id) DO UPDATE SET kind = excluded.kind";
            let kind = kind_name(*kind);
            db.prepare_cached(sql)?.execute(params![session, sql_id(id.0), kind, json(body)])?;
        }
        Write::QueueTake(id) => {
            let sql = "DELETE FROM queue WHERE session_id = ?1 AND msg_id = ?2";
            db.prepare_cached(sql)?.execute(params![session, sql_id(id.0)])?;
        }
        Write::CallsOpen(calls) => open_calls(db, part, calls)?,
        Write::CallsLaunched(calls) => {
            let sql = "UPDATE calls SET launched = 1 WHERE session_id = ?1 AND idx = ?2";
            for call in calls {
                db.prepare_cached(sql)?.execute(params![session, call])?;
            }
        }
        Write::CallProcess { call, pgid, started } => {
            let sql = "UPDATE calls SET pgid = ?3, started = ?4 WHERE session_id = ?1 AND idx = ?2";
            db.prepare_cached(sql)?.execute(params![session, call, pgid, sql_id(*started)])?;
        }
        Write::CallKnown { call, output } => {
            let sql = "UPDATE calls SET output = ?3 WHERE session_id = ?1 AND idx = ?2";
            db.prepare_cached(sql)?.execute(params![session, call, json(output)])?;
        }
        Write::CallStored(call) => stored(db, session, *call)?,
        Write::Phases(phases) => {
            let run = part.writer.as_ref().map(RunId::as_str);
            let sql = "UPDATE runs SET phases = ?2 WHERE run_id = ?1";
            db.prepare_cached(sql)?.execute(params![run, phases])?;
        }
        Write::EndJoined { run, termination, at } => {
            let into = part.writer.as_ref().map(RunId::as_str);
            end_run(db, run.as_str(), termination, *at, into)?;
        }
        Write::End { termination, at } => end(db, part, termination, *at, fence)?,
    }
    Ok(())
}

/// The writer's own end: the session has no writer any more.
fn end(
    db: &Connection,
    part: &Commit,
    termination: &Termination,
    at: Millis,
    fence: &mut Fence<'_>,
) -> rusqlite::Result<()> {
    let run = part.writer.as_ref().map_or("", RunId::as_str);
    end_run(db, run, termination, at, None)?;
    // What was stopped by a restart is what the next start takes up again.
    let interrupted = *termination == Termination::Aborted { cause: Cause::Restart };
    let sql = "UPDATE sessions SET active_run = NULL, updated_at = ?2, interrupted = ?3 \
               WHERE session_id = ?1";
    db.prepare_cached(sql)?.execute(params![part.session.as_str(), sql_ms(at), interrupted])?;
    fence.active = None;
    Ok(())
}

/// A run ends once: what has an end keeps it.
pub(super) fn end_run(
    db: &Connection,
    run: &str,
    termination: &Termination,
    at: Millis,
    into: Option<&str>,
) -> rusqlite::Result<()> {
    let sql = "UPDATE runs SET ended_at = ?2, termination = ?3, into_run = ?4 \
               WHERE run_id = ?1 AND ended_at IS NULL";
    let termination = json(termination);
    db.prepare_cached(sql)?.execute(params![run, sql_ms(at), termination, into])?;
    Ok(())
}

fn accept(
    db: &Connection,
    session: &str,
    run: &RunId,
    entry: crate::engine::Entry,
    at: Millis,
) -> Result<(), Stop> {
    let sql = "INSERT INTO runs(run_id, session_id, entry, accepted_at) VALUES(?1, ?2, ?3, ?4) \
               ON CONFLICT DO NOTHING";
    let done = db.prepare_cached(sql)?.execute(params![
        run.as_str(),
        session,
        json(&entry),
        sql_ms(at)
    ])?;
    // A run that was admitted before it came to its turn is accepted already.
    let sql = "SELECT 1 FROM runs WHERE run_id = ?1 AND session_id = ?2 AND request IS NOT NULL \
               AND claimed_at IS NULL AND ended_at IS NULL";
    if done == 0 && !db.prepare_cached(sql)?.exists(params![run.as_str(), session])? {
        let error = StoreError::DuplicateRun(run.to_string());
        return Err(Stop::Denied(Denied::Failed(error)));
    }
    Ok(())
}

/// The compare-and-set: the active writer must be the one of the snapshot on which the claim
/// rests, and the run one that was accepted and has not ended.
fn claim(db: &Connection, part: &Commit, fence: &mut Fence<'_>) -> Result<(), Stop> {
    let run = part.writer.as_ref().map(RunId::as_str);
    let session = part.session.as_str();
    let sql = "SELECT 1 FROM runs WHERE run_id = ?1 AND session_id = ?2 AND ended_at IS NULL";
    if !db.prepare_cached(sql)?.exists(params![run, session])? {
        return Err(fenced(FenceRefusal::RunOver));
    }
    let seen = part.seen.as_ref().map(RunId::as_str);
    let sql = "UPDATE sessions SET active_run = ?2, interrupted = 0 \
               WHERE session_id = ?1 AND revision = ?3 AND active_run IS ?4";
    let swapped = seen == fence.active.as_deref()
        && db.prepare_cached(sql)?.execute(params![session, run, part.revision, seen])? == 1;
    if !swapped {
        let by = fence.active.as_deref().map(RunId::new);
        return Err(fenced(FenceRefusal::ClaimNotPersisted { by }));
    }
    if let Some(old) = fence.active.as_deref().filter(|old| Some(*old) != run) {
        // The old writer ends as superseded in the transaction that takes its place.
        let by = part.writer.clone();
        end_run(db, old, &Termination::Superseded { by }, part.at, None)?;
    }
    let sql = "UPDATE runs SET claimed_at = ?2 WHERE run_id = ?1";
    db.prepare_cached(sql)?.execute(params![run, sql_ms(part.at)])?;
    fence.active = run.map(str::to_owned);
    Ok(())
}

/// An entry follows whatever is the leaf now: a permitted foreign append in between only makes the
/// chain longer.
fn put(
    db: &Connection,
    part: &Commit,
    entry: &crate::transcript::Entry,
    row: &mut Row,
) -> Result<(), Stop> {
    let session = part.session.as_str();
    let user = match &entry.kind {
        EntryKind::Message { message: Message::User(user) } => Some(user),
        _ => None,
    };
    let key = user.and_then(|user| user.idempotency_key.as_deref());
    if let (Some(user), Some(key)) = (user, key)
        && stored_under(db, session, key, user)?
    {
        return Ok(());
    }
    let run = part.writer.as_ref().map(RunId::as_str);
    insert_entry(db, session, entry, row.leaf.as_deref(), run, key)?;
    row.leaf = Some(entry.id.to_string());
    row.entries += 1;
    Ok(())
}

fn insert_entry(
    db: &Connection,
    session: &str,
    entry: &crate::transcript::Entry,
    leaf: Option<&str>,
    run: Option<&str>,
    key: Option<&str>,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO entries(session_id, id, parent_id, at, run_id, idem, body) \
               VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let (id, at, body) = (entry.id.as_str(), sql_ms(entry.timestamp), json(&entry.kind));
    db.prepare_cached(sql)?.execute(params![session, id, leaf, at, run, key, body])?;
    Ok(())
}

/// An entry of no run, at the end of the session.
pub(super) fn put_entry(
    db: &Connection,
    session: &str,
    entry: &crate::transcript::Entry,
) -> rusqlite::Result<()> {
    let Some(row) = row(db, session)? else { return Ok(()) };
    insert_entry(db, session, entry, row.leaf.as_deref(), None, None)?;
    let sql = "UPDATE sessions SET leaf = ?2, entry_count = entry_count + 1 WHERE session_id = ?1";
    db.prepare_cached(sql)?.execute(params![session, entry.id.as_str()])?;
    Ok(())
}

/// Whether the message is stored under its key already. When it was sent again is no content.
fn stored_under(db: &Connection, session: &str, key: &str, user: &User) -> Result<bool, Stop> {
    let sql = "SELECT body FROM entries WHERE session_id = ?1 AND idem = ?2";
    let known: Option<String> =
        db.prepare_cached(sql)?.query_row([session, key], |r| r.get(0)).optional()?;
    let Some(known) = known else { return Ok(false) };
    match serde_json::from_str(&known) {
        Ok(EntryKind::Message { message: Message::User(old) }) if old.content == user.content => {
            Ok(true)
        }
        _ => Err(Stop::Denied(Denied::Failed(StoreError::KeyConflict(key.to_owned())))),
    }
}

fn open_calls(db: &Connection, part: &Commit, calls: &[OpenCall]) -> rusqlite::Result<()> {
    let session = part.session.as_str();
    db.prepare_cached("DELETE FROM calls WHERE session_id = ?1")?.execute([session])?;
    let sql = "INSERT INTO calls(session_id, idx, run_id, call_id, name, checked) \
               VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
    let run = part.writer.as_ref().map_or("", RunId::as_str);
    for (i, call) in calls.iter().enumerate() {
        let i = i64::try_from(i).unwrap_or(i64::MAX);
        db.prepare_cached(sql)?.execute(params![
            session,
            i,
            run,
            call.id,
            call.name,
            json(&call.check)
        ])?;
    }
    Ok(())
}

/// A call whose result is an entry; when it was the last one, nothing is open any more.
fn stored(db: &Connection, session: &str, call: u16) -> rusqlite::Result<()> {
    let sql = "UPDATE calls SET stored = 1 WHERE session_id = ?1 AND idx = ?2";
    db.prepare_cached(sql)?.execute(params![session, call])?;
    let sql = "DELETE FROM calls WHERE session_id = ?1 AND NOT EXISTS \
               (SELECT 1 FROM calls WHERE session_id = ?1 AND stored = 0)";
    db.prepare_cached(sql)?.execute([session])?;
    Ok(())
}

pub(super) fn kind_name(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::Prompt => "prompt",
        QueueKind::Steer => "steer",
        QueueKind::FollowUp => "followup",
    }
}

pub(super) fn sql_ms(at: Millis) -> i64 {
    sql_id(at.0)
}

pub(super) fn sql_id(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Our own types have text keys and no fallible parts: writing them cannot fail.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| format!("{{\"unwritable\":\"{e}\"}}"))
}
