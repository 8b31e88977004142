//! What changes a session as a whole: waiting runs that are dropped, resets, deletion, settings.

use super::make::{self, Make};
use super::write::{Stop, end_run, fenced, put_entry, sql_id, sql_ms};
use crate::base::{Millis, MsgId, RunId};
use crate::engine::{FenceRefusal, Termination};
use crate::transcript::Entry;
use rusqlite::{Connection, OptionalExtension, params};

/// One change of one session.
#[derive(Clone, Debug)]
pub struct Manage {
    /// The conversation.
    pub key: String,
    /// When.
    pub at: Millis,
    /// What.
    pub what: Change,
}

/// A change of a session as a whole. None of them is made while a run writes, except `Drop`, which
/// only touches runs that never began, and `Settings`.
#[derive(Clone, Debug)]
pub enum Change {
    /// Accepted runs end without having begun; their messages wait no longer.
    Drop {
        /// The runs, with the message of each.
        runs: Vec<(RunId, MsgId)>,
        /// How they end.
        termination: Termination,
    },
    /// The conversation begins anew under the same id: an entry marks the place, and the revision
    /// tells late writers (semantics 7.5).
    Reset {
        /// The reset entry.
        entry: Box<Entry>,
    },
    /// The session goes, with all it holds. What is known of its runs stays: the same key must
    /// not run twice (decisions 1).
    Delete,
    /// What `/queue` set; `None` takes it back.
    Settings(Option<String>),
    /// An interrupted run will not be taken up again.
    GivenUp,
    /// A session is made; one that is there stays as it is.
    Make(Box<Make>),
    /// Words from outside, as an entry of no run, while nothing runs.
    Inject(Box<Entry>),
    /// What is set for it: from what was read to what it is to be.
    Meta {
        /// What was read.
        before: Option<String>,
        /// What it is to be.
        after: Option<String>,
    },
}

pub(super) struct Held {
    pub session: String,
    pub active: Option<String>,
}

/// Makes a change.
pub(super) fn manage(db: &Connection, manage: &Manage) -> Result<(), Stop> {
    if let Change::Make(new) = &manage.what {
        return make::make(db, manage, new);
    }
    let held = held(db, &manage.key)?;
    if held.is_none()
        && let Change::Drop { runs, termination } = &manage.what
    {
        // Their session was deleted meanwhile, which has ended them: there is nothing to refuse.
        for (run, _) in runs {
            end_run(db, run.as_str(), termination, manage.at, None)?;
        }
        return Ok(());
    }
    let held = held.ok_or_else(|| fenced(FenceRefusal::SessionEntryMissing))?;
    let session = held.session.as_str();
    match &manage.what {
        Change::Drop { runs, termination } => {
            for (run, msg) in runs {
                end_run(db, run.as_str(), termination, manage.at, None)?;
                let sql = "DELETE FROM queue WHERE session_id = ?1 AND msg_id = ?2";
                db.prepare_cached(sql)?.execute(params![session, sql_id(msg.0)])?;
            }
        }
        Change::Reset { entry } => {
            unheld(&held)?;
            put_entry(db, session, entry)?;
            let sql = "UPDATE sessions SET revision = revision + 1, started_at = ?2, \
                       updated_at = ?2, interrupted = 0 WHERE session_id = ?1";
            db.prepare_cached(sql)?.execute(params![session, sql_ms(manage.at)])?;
        }
        Change::Delete => {
            unheld(&held)?;
            delete(db, session, manage.at)?;
        }
        Change::Settings(settings) => {
            let sql = "UPDATE sessions SET queue_settings = ?2 WHERE session_id = ?1";
            db.prepare_cached(sql)?.execute(params![session, settings])?;
        }
        Change::Make(_) => {}
        Change::Inject(entry) => make::inject(db, manage, entry)?,
        Change::Meta { before, after } => {
            make::meta(db, session, before.as_deref(), after.as_deref())?;
        }
        Change::GivenUp => {
            let sql = "UPDATE sessions SET interrupted = 0 WHERE session_id = ?1";
            db.prepare_cached(sql)?.execute([session])?;
        }
    }
    Ok(())
}

pub(super) fn held(db: &Connection, key: &str) -> rusqlite::Result<Option<Held>> {
    let sql = "SELECT session_id, active_run FROM sessions WHERE session_key = ?1";
    db.prepare_cached(sql)?
        .query_row([key], |r| Ok(Held { session: r.get(0)?, active: r.get(1)? }))
        .optional()
}

pub(super) fn unheld(held: &Held) -> Result<(), Stop> {
    match &held.active {
        None => Ok(()),
        Some(by) => {
            let by = Some(RunId::new(by.as_str()));
            Err(fenced(FenceRefusal::SessionRebound { by }))
        }
    }
}

fn delete(db: &Connection, session: &str, at: Millis) -> rusqlite::Result<()> {
    let sql = "SELECT run_id FROM runs WHERE session_id = ?1 AND ended_at IS NULL";
    let open: Vec<String> =
        db.prepare_cached(sql)?.query_map([session], |r| r.get(0))?.collect::<Result<_, _>>()?;
    let termination = Termination::Aborted { cause: crate::engine::Cause::User };
    for run in open {
        end_run(db, &run, &termination, at, None)?;
    }
    for table in ["entries", "calls", "queue"] {
        db.execute(&format!("DELETE FROM {table} WHERE session_id = ?1"), [session])?;
    }
    // The row stays for the runs that refer to it, under a key that no conversation can have; the
    // revision refuses a writer that comes late.
    let sql = "UPDATE sessions SET session_key = 'deleted:' || session_id, active_run = NULL, \
               revision = revision + 1, leaf = NULL, entry_count = 0, cwd = '', interrupted = 0, \
               queue_settings = NULL, parent_key = NULL, meta = NULL \
               WHERE session_id = ?1";
    db.prepare_cached(sql)?.execute([session])?;
    Ok(())
}
