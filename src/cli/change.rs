//! `stepclaw sessions reset` and `delete`: they write, so they take the state directory's lock,
//! and say who has it if somebody does (decisions 6).

use super::args::Reason;
use super::words::count;
use super::{Done, FAILED, Failed, USAGE, print_all};
use crate::base::{MsgId, RunId, SessionKey};
use crate::config::{self, Config};
use crate::engine::replay::Interruption;
use crate::engine::reset::ResetReason;
use crate::engine::{Cause, Termination};
use crate::reactor::Clock;
use crate::records::SessionRow;
use crate::store::{
    Change, Commit, Denied, Loaded, Manage, OpenRun, Part, Reader, StateLock, StoreError,
    Synchronous, agent_db, execute_all, open,
};
use crate::tools::run::end_survivor;
use crate::transcript::{Door, ModelName};
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, IsTerminal, Write as _};
use std::path::Path;

/// A conversation that nobody else writes to while this is held.
struct Held {
    _lock: StateLock,
    loaded: Loaded,
    row: SessionRow,
    /// Runs that wait, with the message of each.
    not_begun: Vec<(RunId, MsgId)>,
    door: Door,
    clock: Clock,
}

pub(super) fn reset(
    state: &Path,
    config: &Config,
    key: &str,
    reason: Reason,
    as_json: bool,
) -> Done {
    let key = SessionKey::parse(key).map_err(|e| Failed::new(USAGE, e.to_string()))?;
    let reason = match reason {
        Reason::New => ResetReason::New,
        Reason::Reset => ResetReason::Reset,
    };
    let change = |held: &mut Held| {
        let entry = Box::new(held.door.reset_entry(reason.word(), held.clock.now()));
        let runs = held.not_begun.clone();
        let termination = Termination::Aborted { cause: Cause::User };
        // What waits was meant for what went before.
        vec![Change::Drop { runs, termination }, Change::Reset { entry }]
    };
    let held = changed(state, config, &key, "reset", change)?;
    let revision = held.row.revision + 1;
    let dropped = held.not_begun.len() as u64;
    let text = if as_json {
        let value = json!({
            "ok": true, "key": key.as_str(), "sessionId": held.row.session_id,
            "revision": revision, "reason": reason.word(), "dropped": dropped,
            "closed": held.loaded.open_run.as_ref().map(|open| open.run.as_str()),
        });
        format!("{value:#}\n")
    } else {
        let gone = match dropped {
            0 => String::new(),
            n => format!("; {} dropped", count(n, "waiting message", "waiting messages")),
        };
        format!("{key} begins anew (revision {revision}){gone}\n")
    };
    print_all(text.as_bytes())
}

pub(super) fn delete(state: &Path, config: &Config, key: &str, yes: bool, as_json: bool) -> Done {
    let key = SessionKey::parse(key).map_err(|e| Failed::new(USAGE, e.to_string()))?;
    if !yes {
        confirm(state, &key)?;
    }
    let held = changed(state, config, &key, "delete", |_| vec![Change::Delete])?;
    let (entries, waiting) = (held.row.entries, held.loaded.waiting);
    let text = if as_json {
        let value = json!({
            "ok": true, "key": key.as_str(), "sessionId": held.row.session_id,
            "entries": entries, "waiting": waiting,
        });
        format!("{value:#}\n")
    } else {
        let waiting = match waiting {
            0 => String::new(),
            n => format!(" and {}", count(n, "waiting message", "waiting messages")),
        };
        let entries = count(entries, "entry", "entries");
        format!("{key} is deleted, with {entries}{waiting}; `stepclaw runs` still knows its runs\n")
    };
    print_all(text.as_bytes())
}

/// Asks on a terminal. Without one there is nobody to ask.
fn confirm(state: &Path, key: &SessionKey) -> Result<(), Failed> {
    if !std::io::stdin().is_terminal() {
        let text = format!("{key} would be deleted for good: say --yes if that is meant");
        return Err(Failed::new(USAGE, text));
    }
    // Nobody is asked what could not be done anyway.
    if let Some(owner) = StateLock::owner(state) {
        return Err(StoreError::Locked { dir: state.to_owned(), owner }.into());
    }
    let entries = match Reader::open(&agent_db(state, key.agent())) {
        Ok(None) => return Err(missing(key)),
        Ok(Some(reader)) => {
            let rows = reader.sessions()?;
            let row = rows.into_iter().find(|row| row.key == key.as_str());
            count(row.ok_or_else(|| missing(key))?.entries, "entry", "entries")
        }
        // The command itself brings it up to date.
        Err(StoreError::Older { .. }) => "all that it holds".to_owned(),
        Err(error) => return Err(error.into()),
    };
    let _ = write!(std::io::stderr(), "Delete {key} with {entries}? [y/N] ");
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failed::new(FAILED, "nothing was deleted")),
    }
}

fn missing(key: &SessionKey) -> Failed {
    Failed::new(FAILED, format!("there is no conversation {key}"))
}

/// Takes the lock, closes what a dead process left open, and makes the changes, all of it in one
/// transaction.
fn changed(
    state: &Path,
    config: &Config,
    key: &SessionKey,
    verb: &str,
    changes: impl FnOnce(&mut Held) -> Vec<Change>,
) -> Result<Held, Failed> {
    let path = agent_db(state, key.agent());
    if !path.exists() {
        return Err(missing(key));
    }
    let who = format!("stepclaw sessions {verb} (process {})", std::process::id());
    let lock = StateLock::take(state, &who)?;
    let synchronous = match config.store.synchronous {
        config::Synchronous::Full => Synchronous::Full,
        config::Synchronous::Normal => Synchronous::Normal,
    };
    let mut db = open(&path, synchronous)?;
    let mut held = hold(lock, &path, key)?;
    let at = held.clock.now();
    let mut parts = closing(&mut held)?;
    parts.extend(
        changes(&mut held)
            .into_iter()
            .map(|what| Part::Manage(Box::new(Manage { key: key.as_str().to_owned(), at, what }))),
    );
    for result in execute_all(&mut db, &path, &parts) {
        match result {
            Ok(_) => {}
            Err(Denied::Fenced(why)) => return Err(Failed::new(FAILED, why.to_string())),
            Err(Denied::Failed(error)) => return Err(error.into()),
        }
    }
    if let Some(open) = &held.loaded.open_run {
        eprintln!("stepclaw: run {} was interrupted; it is closed now", open.run);
    }
    Ok(held)
}

fn hold(lock: StateLock, path: &Path, key: &SessionKey) -> Result<Held, Failed> {
    let reader = Reader::open(path)?.ok_or_else(|| missing(key))?;
    let mut loaded = reader.session(key.as_str())?.ok_or_else(|| missing(key))?;
    let row = loaded.session.take().ok_or_else(|| missing(key))?;
    let not_begun = reader.not_begun(&row.session_id)?;
    // Ids of entries only have to differ. Nothing that is written here carries a model's name.
    let seed = RandomState::new().hash_one(std::process::id());
    let (calls, queue) = (loaded.calls.clone(), loaded.queue.clone());
    let door = Door::resume(ModelName::default(), seed, calls, queue);
    Ok(Held { _lock: lock, loaded, row, not_begun, door, clock: Clock::start() })
}

/// The end of a run whose process has died, as the next run would write it: its calls get their
/// results, and nothing is run again (decisions 7). We hold the lock, so it is dead.
fn closing(held: &mut Held) -> Result<Vec<Part>, Failed> {
    let Some(open) = &held.loaded.open_run else { return Ok(vec![]) };
    end_survivors(open);
    let at = held.clock.now();
    let writes = held
        .door
        .close_interrupted(Interruption::ProcessStopped, at)
        .map_err(|e| Failed::new(FAILED, format!("run {} cannot be closed: {e}", open.run)))?;
    let commit = Commit {
        session: held.row.session_id.clone(),
        key: held.row.key.clone(),
        cwd: held.row.cwd.clone(),
        revision: held.row.revision,
        writer: Some(open.run.clone()),
        seen: Some(open.run.clone()),
        writes,
        at,
    };
    Ok(vec![Part::Commit(Box::new(commit))])
}

/// Process groups that the dead process left behind.
fn end_survivors(open: &OpenRun) {
    for (_, pgid, started) in &open.processes {
        if end_survivor(*pgid, *started) {
            eprintln!("stepclaw: ended process group {pgid}, left behind by run {}", open.run);
        }
    }
}
