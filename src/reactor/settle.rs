//! Opening a session whose last owner did not end in good order: survivors of its tools are ended,
//! its open calls get their results, its run its end, all before anything new begins.

use super::ReactorError;
use super::clock::entropy;
use super::links::Links;
use crate::base::{Millis, MsgId, SessionId, id};
use crate::engine::QueueKind;
use crate::engine::replay::{Interruption, Known};
use crate::model::catalog::{Backend, Resolved};
use crate::store::{Commit, Loaded, OpenRun, SessionRow};
use crate::tools::run::end_survivor;
use crate::transcript::{Door, Entry, ModelName, OpenCall, User, Write};
use std::sync::Arc;

/// A session that is whole.
pub(super) struct Whole {
    pub session: SessionId,
    pub revision: u32,
    pub branch: Vec<Entry>,
    pub door: Door,
    pub waiting: Vec<(MsgId, QueueKind, Arc<User>)>,
    pub notices: Vec<String>,
    pub seed: u64,
}

/// The protocol's name in messages.
fn api(model: &Resolved) -> &'static str {
    match model.backend {
        Backend::Scripted => "scripted",
        Backend::OpenAi { .. } => "openai-completions",
    }
}

/// The model's name as closing messages carry it.
pub(super) fn model_name(model: &Resolved) -> ModelName {
    ModelName {
        api: api(model).to_owned(),
        provider: model.provider.clone(),
        model: model.model.clone(),
    }
}

/// Closes what a dead owner left open.
pub(super) fn settle(
    links: &Links,
    loaded: Loaded,
    key: &str,
    model: &Resolved,
    commit: impl FnOnce(&Links, Commit) -> Result<(), ReactorError>,
) -> Result<Whole, ReactorError> {
    let now = links.clock.now();
    let seed = u64::from_be_bytes(entropy());
    let mut notices: Vec<String> =
        loaded.damaged.iter().map(|what| format!("left out, damaged: {what}")).collect();
    let mut branch = loaded.branch;
    let name = model_name(model);
    let mut door = Door::resume(name, seed, loaded.calls.clone(), loaded.queue.clone());
    if let (Some(session), Some(open)) = (&loaded.session, &loaded.open_run) {
        notices.extend(end_survivors(open, &loaded.calls));
        let unknown = loaded.calls.iter().filter(|c| c.known() == Known::Launched).count();
        // The door was resumed with what was loaded: it fits.
        let writes = door.close_interrupted(Interruption::ProcessStopped, now).unwrap_or_default();
        branch.extend(writes.iter().filter_map(|write| match write {
            Write::Put(entry) => Some(entry.clone()),
            _ => None,
        }));
        notices.push(format!(
            "run {} was interrupted; it is closed now{}",
            open.run,
            if unknown > 0 { ", with calls whose outcome is unknown" } else { "" }
        ));
        commit(links, closing(session, open, key, writes, now))?;
    }
    let fresh = || SessionId::new(id::uuid_v7(now, entropy()));
    let (session, revision) =
        loaded.session.map_or_else(|| (fresh(), 0), |s| (s.session_id, s.revision));
    let waiting = loaded.queue;
    // The run's ids are its own: what was drawn for the closing is not drawn again.
    let seed = u64::from_be_bytes(entropy());
    Ok(Whole { session, revision, branch, door, waiting, notices, seed })
}

/// The closing is written in the name of the dead run, which still is the active writer.
fn closing(
    session: &SessionRow,
    open: &OpenRun,
    key: &str,
    writes: Vec<Write>,
    at: Millis,
) -> Commit {
    Commit {
        session: session.session_id.clone(),
        key: key.to_owned(),
        cwd: session.cwd.clone(),
        revision: session.revision,
        writer: Some(open.run.clone()),
        seen: Some(open.run.clone()),
        writes,
        at,
    }
}

/// Process groups of the dead owner's foreground calls that are still alive and still the same.
fn end_survivors(open: &OpenRun, calls: &[OpenCall]) -> Vec<String> {
    let mut notices = Vec::new();
    for (call, pgid, started) in &open.processes {
        if end_survivor(*pgid, *started) {
            let name = calls.get(usize::from(*call)).map_or("a tool", |c| c.name.as_str());
            notices.push(format!("ended process group {pgid}, left behind by {name}"));
        }
    }
    notices
}
