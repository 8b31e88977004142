//! Sessions that are made without a message: empty ones, children, forks; and words that are put
//! into one from outside.

use super::manage::{held, unheld};
use super::write::{Denied, Stop, fenced, holder, put_entry, sql_ms};
use super::{Manage, StoreError};
use crate::base::{Millis, SessionId};
use crate::engine::FenceRefusal;
use crate::records::Fork;
use crate::transcript::{Entry, EntryKind, Message, entry::PROJECTION_VERSION};
use rusqlite::{Connection, params};
use std::collections::BTreeSet;

/// A session that is to be made.
#[derive(Clone, Debug)]
pub struct Make {
    /// Its id.
    pub session: SessionId,
    /// Where its tools work.
    pub cwd: String,
    /// The conversation that it belongs to.
    pub parent: Option<String>,
    /// What is set for it, as JSON.
    pub meta: Option<String>,
    /// What of its parent it begins with.
    pub fork: Option<Fork>,
}

/// Makes a session; one that is there already is left as it is.
pub(super) fn make(db: &Connection, manage: &Manage, make: &Make) -> Result<(), Stop> {
    if holder(db, &manage.key)?.is_some() {
        return Ok(());
    }
    if let Some(parent) = &make.parent
        && holder(db, parent)?.is_none()
    {
        return Err(fenced(FenceRefusal::SessionEntryMissing));
    }
    let sql = "INSERT INTO sessions(session_id, session_key, version, cwd, created_at, updated_at, \
               started_at, interaction_at, parent_key, meta) \
               VALUES(?1, ?2, ?3, ?4, ?5, ?5, ?5, ?5, ?6, ?7)";
    let (session, at) = (make.session.as_str(), sql_ms(manage.at));
    let row =
        params![session, manage.key, PROJECTION_VERSION, make.cwd, at, make.parent, make.meta];
    db.prepare_cached(sql)?.execute(row)?;
    match (&make.fork, &make.parent) {
        (Some(fork), Some(parent)) => copy(db, session, parent, fork, manage.at),
        _ => Ok(()),
    }
}

/// Copies the parent's conversation since its last reset. The copy is another conversation: it has
/// neither the runs nor the idempotency keys of its parent.
fn copy(db: &Connection, session: &str, parent: &str, fork: &Fork, at: Millis) -> Result<(), Stop> {
    let (from, active): (String, Option<String>) = db.query_row(
        "SELECT session_id, active_run FROM sessions WHERE session_key = ?1",
        [parent],
        |r| Ok((r.get(0)?, r.get(1)?)),
    )?;
    let sql = "SELECT n, id, run_id, body FROM entries WHERE session_id = ?1 ORDER BY n";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([&from])?;
    let (mut first, mut last, mut found) = (0i64, None, false);
    let mut open = BTreeSet::new();
    while let Some(r) = rows.next()? {
        let (n, id): (i64, String) = (r.get(0)?, r.get(1)?);
        let run: Option<String> = r.get(2)?;
        if active.is_some() && run == active {
            break;
        }
        let body = super::read::text(r, 3)?.unwrap_or_default();
        match serde_json::from_str(&body) {
            Ok(EntryKind::Reset { .. }) => {
                (first, last) = (n + 1, None);
                open.clear();
                continue;
            }
            Ok(EntryKind::Message { message }) => pair(&message, &mut open),
            _ => {}
        }
        last = Some((n, id.clone()));
        if matches!(fork, Fork::Through(through) if *through == id) {
            found = true;
            break;
        }
    }
    drop(rows);
    if let Fork::Through(through) = fork {
        if !found {
            return Err(refused(format!("there is no entry {through} in {parent}")));
        }
        if !open.is_empty() {
            return Err(refused(format!("entry {through} has a call without its result")));
        }
    }
    let Some((last, leaf)) = last else { return Ok(()) };
    let sql = "INSERT INTO entries(session_id, id, parent_id, at, body) \
               SELECT ?1, id, CASE n WHEN ?3 THEN NULL ELSE parent_id END, at, body FROM entries \
               WHERE session_id = ?2 AND n BETWEEN ?3 AND ?4 ORDER BY n";
    let first: i64 = db
        .prepare_cached("SELECT min(n) FROM entries WHERE session_id = ?1 AND n >= ?2")?
        .query_row(params![from, first], |r| r.get(0))?;
    let copied = db.prepare_cached(sql)?.execute(params![session, from, first, last])?;
    let sql = "UPDATE sessions SET leaf = ?2, entry_count = ?3, updated_at = ?4 \
               WHERE session_id = ?1";
    let count = i64::try_from(copied).unwrap_or(i64::MAX);
    db.prepare_cached(sql)?.execute(params![session, leaf, count, sql_ms(at)])?;
    Ok(())
}

/// Keeps which calls have no result yet.
fn pair(message: &Message, open: &mut BTreeSet<String>) {
    match message {
        Message::Assistant(reply) => {
            open.clear();
            open.extend(reply.calls().map(|(id, _, _)| id.to_owned()));
        }
        Message::ToolResult(result) => {
            open.remove(&result.tool_call_id);
        }
        Message::User(_)
        | Message::Custom(_)
        | Message::BashExecution(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_) => {}
    }
}

/// Puts an entry at the end of a session in which nothing runs.
pub(super) fn inject(db: &Connection, manage: &Manage, entry: &Entry) -> Result<(), Stop> {
    let held = held(db, &manage.key)?;
    let held = held.ok_or_else(|| fenced(FenceRefusal::SessionEntryMissing))?;
    unheld(&held)?;
    put_entry(db, &held.session, entry)?;
    let sql = "UPDATE sessions SET updated_at = ?2 WHERE session_id = ?1";
    db.prepare_cached(sql)?.execute(params![held.session, sql_ms(manage.at)])?;
    Ok(())
}

/// Sets what is set for a session, as JSON; what it was must be what the caller has read.
pub(super) fn meta(
    db: &Connection,
    session: &str,
    before: Option<&str>,
    after: Option<&str>,
) -> Result<(), Stop> {
    let sql = "UPDATE sessions SET meta = ?2 WHERE session_id = ?1 AND meta IS ?3";
    match db.prepare_cached(sql)?.execute(params![session, after, before])? {
        1 => Ok(()),
        _ => Err(refused("its settings were changed meanwhile".to_owned())),
    }
}

fn refused(why: String) -> Stop {
    Stop::Denied(Denied::Failed(StoreError::Refused(why)))
}
