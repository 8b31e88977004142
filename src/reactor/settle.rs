//! Opening a session whose last owner did not end in good order: survivors of its tools are ended,
//! its open calls get their results, its run its end, all before anything new begins.

use super::clock::entropy;
use super::links::Links;
use crate::base::{Millis, MsgId, RunId, SessionId, id};
use crate::engine::replay::{Interruption, Known};
use crate::model::catalog::{Backend, Resolved};
use crate::records::SessionRow;
use crate::store::{Commit, Loaded, OpenRun};
use crate::tools::run::end_survivor;
use crate::transcript::{Door, Entry, ModelName, OpenCall, User, Write};
use std::sync::Arc;

/// A session that is whole.
pub(super) struct Whole {
    pub session: SessionId,
    pub revision: u32,
    pub branch: Vec<Entry>,
    pub door: Door,
    /// Messages whose run ended before it committed them.
    pub left: Vec<(MsgId, Arc<User>)>,
    /// The active writer.
    pub writer: Option<RunId>,
    pub notices: Vec<String>,
    pub seed: u64,
    /// Its model.
    pub model: Resolved,
    /// How many entries it has.
    pub entries: u64,
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

/// What makes a loaded session whole: the session as it will be, and the part that closes what a
/// dead owner left open, if it left something.
pub(super) fn settle(
    links: &Links,
    loaded: Loaded,
    key: &str,
    model: Resolved,
) -> (Whole, Option<Commit>) {
    let now = links.clock.now();
    let seed = u64::from_be_bytes(entropy());
    let mut notices: Vec<String> =
        loaded.damaged.iter().map(|what| format!("left out, damaged: {what}")).collect();
    let mut branch = loaded.branch;
    let mut door = Door::resume(model_name(&model), seed, loaded.calls.clone(), vec![]);
    let mut commit = None;
    let mut entries = loaded.session.as_ref().map_or(0, |session| session.entries);
    if let (Some(session), Some(open)) = (&loaded.session, &loaded.open_run) {
        notices.extend(end_survivors(open, &loaded.calls));
        let unknown = loaded.calls.iter().filter(|c| c.known() == Known::Launched).count();
        // The door was resumed with what was loaded: it fits.
        let writes = door.close_interrupted(Interruption::ProcessStopped, now).unwrap_or_default();
        let before = branch.len();
        branch.extend(writes.iter().filter_map(|write| match write {
            Write::Put(entry) => Some(entry.clone()),
            _ => None,
        }));
        entries += u64::try_from(branch.len() - before).unwrap_or(0);
        notices.push(format!(
            "run {} was interrupted; it is closed now{}",
            open.run,
            if unknown > 0 { ", with calls whose outcome is unknown" } else { "" }
        ));
        commit = Some(closing(session, open, key, writes, now));
    }
    let fresh = || SessionId::new(id::uuid_v7(now, entropy()));
    let (session, revision) =
        loaded.session.map_or_else(|| (fresh(), 0), |s| (s.session_id, s.revision));
    let left = loaded.queue.into_iter().map(|(id, _, body)| (id, body)).collect();
    // The run's ids are its own: what was drawn for the closing is not drawn again.
    let seed = u64::from_be_bytes(entropy());
    let door = Door::new(model_name(&model), seed);
    let writer = None;
    let whole =
        Whole { session, revision, branch, door, left, writer, notices, seed, model, entries };
    (whole, commit)
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
