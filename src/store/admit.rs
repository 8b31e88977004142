//! Admission: a client's message is accepted durably, once for one request (semantics 7.3).

use super::read;
use super::write::{Stop, holder, json, sql_id, sql_ms};
use crate::base::{Millis, MsgId, RunId, SessionId};
use crate::records::RunRow;
use crate::transcript::{User, entry::PROJECTION_VERSION};
use rusqlite::{Connection, params};
use std::sync::Arc;

/// A message that asks for a run.
#[derive(Clone, Debug)]
pub struct Admit {
    /// The conversation.
    pub key: String,
    /// The id of its session, if this is its first message.
    pub fresh: SessionId,
    /// Where its tools work, likewise.
    pub cwd: String,
    /// The run, by the client's idempotency key.
    pub run: RunId,
    /// The identity of the request: the same key with another one is a conflict.
    pub request: String,
    /// How it waits for its turn, for those who take it up after a restart.
    pub turn: String,
    /// The message's name.
    pub msg: MsgId,
    /// What it says.
    pub body: Arc<User>,
    /// Whether it is a person's doing, as heartbeats and schedules are not (semantics 7.5).
    pub interaction: bool,
    /// When.
    pub at: Millis,
}

/// The answer to an admission.
#[derive(Clone, PartialEq, Debug)]
pub enum Admitted {
    /// It is accepted now.
    New(Box<Seen>),
    /// It was accepted before, and what has become of it.
    Known(Box<RunRow>),
    /// The same key came with another request.
    Conflict,
}

/// The session as an accepted message found it.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Its id.
    pub session: SessionId,
    /// Its revision.
    pub revision: u32,
    /// When the conversation began: at its creation or its last reset.
    pub started_at: Millis,
    /// The last interaction before this one.
    pub interaction_at: Millis,
    /// Whether it has no entry yet.
    pub empty: bool,
    /// What `/queue` set for it.
    pub queue_settings: Option<String>,
}

/// Accepts a message, or says what is known of its key.
pub(super) fn admit(db: &Connection, admit: &Admit) -> Result<Admitted, Stop> {
    if let Some(known) = read::run(db, admit.run.as_str())? {
        let same = known.request.as_deref() == Some(&admit.request)
            && known.key.as_deref().is_none_or(|key| key == admit.key);
        return Ok(if same { Admitted::Known(Box::new(known)) } else { Admitted::Conflict });
    }
    if holder(db, &admit.key)?.is_none() {
        create(db, admit)?;
    }
    let seen = seen(db, &admit.key)?;
    let session = seen.session.as_str();
    let at = sql_ms(admit.at);
    let sql = "INSERT INTO runs(run_id, session_id, entry, accepted_at, request, turn) \
               VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
    let entry = json(&crate::engine::Entry::Prompt);
    let run = admit.run.as_str();
    db.prepare_cached(sql)?.execute(params![run, session, entry, at, admit.request, admit.turn])?;
    let sql = "INSERT INTO queue(session_id, msg_id, kind, body, run_id) \
               VALUES(?1, ?2, 'followup', ?3, ?4)";
    let body = json(&admit.body);
    db.prepare_cached(sql)?.execute(params![session, sql_id(admit.msg.0), body, run])?;
    if admit.interaction {
        let sql = "UPDATE sessions SET interaction_at = ?2 WHERE session_id = ?1";
        db.prepare_cached(sql)?.execute(params![session, at])?;
    }
    Ok(Admitted::New(Box::new(seen)))
}

fn create(db: &Connection, admit: &Admit) -> rusqlite::Result<()> {
    let sql = "INSERT INTO sessions(session_id, session_key, version, cwd, created_at, updated_at, \
               started_at, interaction_at) VALUES(?1, ?2, ?3, ?4, ?5, ?5, ?5, ?5)";
    let (session, at) = (admit.fresh.as_str(), sql_ms(admit.at));
    let row = params![session, admit.key, PROJECTION_VERSION, admit.cwd, at];
    db.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

/// Freshness is judged by the times before this message is recorded (semantics 7.5).
fn seen(db: &Connection, key: &str) -> rusqlite::Result<Seen> {
    let sql = "SELECT session_id, revision, started_at, interaction_at, entry_count, \
               queue_settings FROM sessions WHERE session_key = ?1";
    db.prepare_cached(sql)?.query_row([key], |r| {
        Ok(Seen {
            session: SessionId::new(r.get::<_, String>(0)?),
            revision: r.get(1)?,
            started_at: read::millis(r, 2)?,
            interaction_at: read::millis(r, 3)?,
            empty: r.get::<_, i64>(4)? == 0,
            queue_settings: r.get(5)?,
        })
    })
}
