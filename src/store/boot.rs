//! What a start must know of all sessions, without reading those that are at rest.

use super::read::{millis, text, unsigned};
use crate::base::{Millis, MsgId, RunId, json::tolerant};
use crate::transcript::User;
use rusqlite::{Connection, Row};
use std::sync::Arc;

/// What was under way when the last process ended.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Boot {
    /// A message name that is higher than every one in use.
    pub next_msg: u64,
    /// Accepted runs that never began, in the order of their acceptance.
    pub waiting: Vec<Restored>,
    /// Sessions whose last run did not end by itself.
    pub interrupted: Vec<Interrupted>,
    /// Accepted runs whose message cannot be read, with what is wrong.
    pub damaged: Vec<(String, RunId, MsgId, String)>,
}

/// A run that waits for its turn.
#[derive(Clone, PartialEq, Debug)]
pub struct Restored {
    /// The conversation.
    pub key: String,
    /// The run.
    pub run: RunId,
    /// When it was accepted.
    pub accepted_at: Millis,
    /// How it waits.
    pub turn: Option<String>,
    /// The identity of its request.
    pub request: String,
    /// Its message.
    pub msg: MsgId,
    /// What that says.
    pub body: Arc<User>,
}

/// A session whose last run was cut off.
#[derive(Clone, PartialEq, Debug)]
pub struct Interrupted {
    /// The conversation.
    pub key: String,
    /// The run: the active writer, or the last one, if it was closed already.
    pub run: RunId,
    /// How it waited for its turn, which tells what kind of run it was.
    pub turn: Option<String>,
    /// It had heard something of its model: what stopped it was not the run itself.
    pub began: bool,
    /// It is still the active writer.
    pub open: bool,
    /// It has calls without a result, or one whose outcome is not known.
    pub unsure: bool,
}

/// Reads it, by the indexes of what is open.
pub(super) fn boot(db: &Connection) -> rusqlite::Result<Boot> {
    let next_msg =
        db.query_row("SELECT coalesce(max(msg_id), 0) + 1 FROM queue", [], |r| unsigned(r, 0))?;
    let mut boot = Boot { next_msg, ..Boot::default() };
    waiting(db, &mut boot)?;
    interrupted(db, &mut boot)?;
    Ok(boot)
}

fn waiting(db: &Connection, boot: &mut Boot) -> rusqlite::Result<()> {
    let sql = "SELECT session_key, runs.run_id, accepted_at, turn, request, msg_id, body \
               FROM runs JOIN sessions ON sessions.session_id = runs.session_id \
               LEFT JOIN queue ON queue.session_id = runs.session_id \
               AND queue.run_id = runs.run_id \
               WHERE ended_at IS NULL AND claimed_at IS NULL AND request IS NOT NULL \
               ORDER BY accepted_at, queue.n";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(r) = rows.next()? {
        let (key, run) = (r.get::<_, String>(0)?, RunId::new(r.get::<_, String>(1)?));
        let msg = MsgId(r.get::<_, Option<i64>>(5)?.and_then(|n| n.try_into().ok()).unwrap_or(0));
        let body: Option<String> = text(r, 6)?;
        match body.as_deref().map(tolerant::<User>) {
            Some(Ok(read)) => boot.waiting.push(Restored {
                key,
                run,
                accepted_at: millis(r, 2)?,
                turn: r.get(3)?,
                request: r.get(4)?,
                msg,
                body: Arc::new(read.value),
            }),
            Some(Err(error)) => boot.damaged.push((key, run, msg, error.to_string())),
            None => boot.damaged.push((key, run, msg, "its message is missing".to_owned())),
        }
    }
    Ok(())
}

fn interrupted(db: &Connection, boot: &mut Boot) -> rusqlite::Result<()> {
    // An active writer is found by one index, a closed one that was stopped by the other.
    let sql = "SELECT session_key, session_id, active_run FROM sessions \
               WHERE active_run IS NOT NULL \
               UNION ALL \
               SELECT session_key, session_id, (SELECT run_id FROM runs \
                 WHERE runs.session_id = sessions.session_id AND claimed_at IS NOT NULL \
                 ORDER BY accepted_at DESC LIMIT 1) \
               FROM sessions WHERE interrupted != 0 AND active_run IS NULL";
    let mut found: Vec<(String, String, String)> = Vec::new();
    let row = |r: &Row<'_>| Ok((r.get(0)?, r.get(1)?, r.get::<_, Option<String>>(2)?));
    for line in db.prepare(sql)?.query_map([], row)? {
        let (key, session, run) = line?;
        found.extend(run.map(|run| (key, session, run)));
    }
    for (key, session, run) in found {
        boot.interrupted.push(one(db, key, &session, &run)?);
    }
    Ok(())
}

fn one(db: &Connection, key: String, session: &str, run: &str) -> rusqlite::Result<Interrupted> {
    let sql = "SELECT turn, ended_at IS NULL FROM runs WHERE run_id = ?1";
    let (turn, open) = db
        .prepare_cached(sql)?
        .query_row([run], |r| Ok((r.get(0)?, r.get(1)?)))
        .unwrap_or((None, true));
    let began = "SELECT 1 FROM entries WHERE session_id = ?1 AND run_id = ?2 \
                 AND body LIKE '%\"role\":\"assistant\"%' LIMIT 1";
    let unsure = "SELECT 1 FROM calls WHERE session_id = ?1 LIMIT 1";
    Ok(Interrupted {
        began: db.prepare_cached(began)?.exists([session, run])?,
        unsure: db.prepare_cached(unsure)?.exists([session])?,
        key,
        run: RunId::new(run),
        turn,
        open,
    })
}
