//! What the town remembers when its process dies: the real store's contract for whole sessions
//! (admission, the fence, changes, what a start must know), without its content.

use crate::base::{Millis, MsgId, RunId};
use crate::engine::lanes::Lane;
use crate::engine::recovery::{Candidate, CandidateKind};
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{Admission, Arrival, Change, Facts, Key, Outcome, Restored, Waits};
use crate::engine::turns::Partial;
use crate::engine::{Cause, Termination};
use crate::sim::Sabotage;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An accepted run. It outlives its session.
#[derive(Clone, Debug)]
pub(super) struct RunRow {
    pub key: Key,
    pub request: Arc<str>,
    pub waits: Waits,
    pub accepted_at: Millis,
    pub claimed: bool,
    /// The run that put its message into the transcript, where that was another one.
    pub host: Option<RunId>,
    pub ended: Option<(Termination, Option<RunId>)>,
    /// How often its message was put into a transcript.
    pub stored: u32,
}

/// A session's row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub id: u32,
    pub revision: u32,
    /// How often it began anew, whatever the revision says.
    pub resets: u32,
    pub active: Option<RunId>,
    pub last: Option<RunId>,
    pub interrupted: bool,
    pub started_at: Millis,
    pub interaction_at: Millis,
    pub empty: bool,
    pub settings: Partial,
    pub queue: Vec<(MsgId, RunId)>,
    /// Claims in a row that resumed something.
    pub resumes: u8,
}

/// Whose snapshot a writer rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hand {
    pub id: u32,
    pub revision: u32,
    pub resets: u32,
    pub seen: Option<RunId>,
}

/// Why a commit was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum No {
    Disk,
    Fence(Option<RunId>),
    /// The run is over.
    Over,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    pub rows: BTreeMap<Key, Row>,
    pub runs: BTreeMap<RunId, RunRow>,
    /// So many writes fail, as on a full disk.
    pub full: u8,
    pub sabotage: Option<Sabotage>,
    pub next_id: u32,
}

impl Store {
    fn is(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage)
    }

    fn fails(&mut self) -> bool {
        let fails = self.full > 0;
        self.full = self.full.saturating_sub(1);
        fails
    }

    pub(super) fn outcome(&self, run: &RunId) -> Option<Outcome> {
        let row = self.runs.get(run)?;
        Some(Outcome {
            accepted_at: row.accepted_at,
            started_at: None,
            ended_at: row.ended.as_ref().map(|_| row.accepted_at),
            termination: row.ended.as_ref().map(|(t, _)| t.clone()),
            into: row.ended.as_ref().and_then(|(_, into)| into.clone()),
        })
    }

    /// Accepts once for one request.
    pub(super) fn admit(&mut self, msg: MsgId, arrival: &Arrival, at: Millis) -> Admission {
        if self.fails() {
            return Admission::Failed("no space left on device".into());
        }
        if let Some(known) = self.runs.get(&arrival.run) {
            let same = known.request == arrival.request && known.key == arrival.key;
            let again = self.is(Sabotage::TownDoubleAdmit) && known.ended.is_some();
            if !same && !self.is(Sabotage::TownIgnoreIdentity) {
                return Admission::Conflict;
            }
            if !again && let Some(outcome) = self.outcome(&arrival.run) {
                return Admission::Known(outcome);
            }
        }
        if !self.rows.contains_key(&arrival.key) {
            self.create(&arrival.key, at);
        }
        let Some(row) = self.rows.get_mut(&arrival.key) else { return Admission::Conflict };
        let facts = Facts {
            started_at: row.started_at,
            interaction_at: row.interaction_at,
            empty: row.empty,
            queue: row.settings,
        };
        row.queue.push((msg, arrival.run.clone()));
        if arrival.interaction {
            row.interaction_at = at;
        }
        let run = RunRow {
            key: Arc::clone(&arrival.key),
            request: Arc::clone(&arrival.request),
            waits: arrival.wait.clone(),
            accepted_at: at,
            claimed: false,
            host: None,
            ended: None,
            stored: self.runs.get(&arrival.run).map_or(0, |r| r.stored),
        };
        self.runs.insert(arrival.run.clone(), run);
        Admission::New(facts)
    }

    fn create(&mut self, key: &Key, at: Millis) {
        self.next_id += 1;
        let row = Row {
            id: self.next_id,
            revision: 0,
            resets: 0,
            active: None,
            last: None,
            interrupted: false,
            started_at: at,
            interaction_at: at,
            empty: true,
            settings: Partial::default(),
            queue: vec![],
            resumes: 0,
        };
        self.rows.insert(Arc::clone(key), row);
    }

    /// The snapshot that a claim rests on.
    pub(super) fn snapshot(&self, key: &Key) -> Option<Hand> {
        let row = self.rows.get(key)?;
        let (id, revision, resets) = (row.id, row.revision, row.resets);
        Some(Hand { id, revision, resets, seen: row.active.clone() })
    }

    fn fence(&self, key: &Key, run: &RunId, hand: &Hand) -> Result<(), No> {
        if self.is(Sabotage::TownIgnoreFence) && self.rows.contains_key(key) {
            return Ok(());
        }
        let Some(row) = self.rows.get(key) else { return Err(No::Fence(None)) };
        let same = row.id == hand.id && row.revision == hand.revision;
        if same && row.active.as_ref() == Some(run) {
            return Ok(());
        }
        Err(No::Fence(row.active.clone()))
    }

    /// Takes the session for a run and puts its messages into the transcript.
    pub(super) fn claim(
        &mut self,
        key: &Key,
        run: &RunId,
        hand: &Hand,
        msgs: &[MsgId],
    ) -> Result<(), No> {
        if self.fails() {
            return Err(No::Disk);
        }
        if self.runs.get(run).is_some_and(|r| r.ended.is_some()) {
            return Err(No::Over);
        }
        let Some(row) = self.rows.get_mut(key) else { return Err(No::Fence(None)) };
        let same = row.id == hand.id && row.revision == hand.revision && row.active == hand.seen;
        if !same {
            return Err(No::Fence(row.active.clone()));
        }
        assert_eq!(row.resets, hand.resets, "2: a claim rests on what was before a reset");
        let old = row.active.replace(run.clone()).filter(|old| old != run);
        row.last = Some(run.clone());
        row.interrupted = false;
        let resumes = self.runs.get(run).is_some_and(|r| r.waits.attempt > 0);
        row.resumes = if resumes { row.resumes + 1 } else { 0 };
        if let Some(old) = old {
            self.end_writer(&old, &Termination::Superseded { by: Some(run.clone()) });
        }
        if let Some(row) = self.runs.get_mut(run) {
            assert!(!row.claimed, "15: run {run} starts a second time");
            row.claimed = true;
        }
        self.put(key, run, msgs);
        Ok(())
    }

    fn put(&mut self, key: &Key, by: &RunId, msgs: &[MsgId]) {
        let Some(row) = self.rows.get_mut(key) else { return };
        assert_eq!(row.active.as_ref(), Some(by), "2: an entry of a run that has not the session");
        row.empty = false;
        for msg in msgs {
            let at = row.queue.iter().position(|(m, _)| m == msg);
            assert!(at.is_some(), "5: message {} is stored and does not wait", msg.0);
            let Some((_, of)) = at.map(|at| row.queue.remove(at)) else { continue };
            if let Some(of_row) = self.runs.get_mut(&of) {
                of_row.stored += 1;
                of_row.host = Some(by.clone()).filter(|by| *by != of);
            }
        }
    }

    /// Messages of others join the transcript of the active writer.
    pub(super) fn join(
        &mut self,
        key: &Key,
        run: &RunId,
        hand: &Hand,
        msgs: &[MsgId],
    ) -> Result<(), No> {
        if self.fails() {
            return Err(No::Disk);
        }
        self.fence(key, run, hand)?;
        self.put(key, run, msgs);
        Ok(())
    }

    /// The end of the active writer and of those it has joined.
    pub(super) fn end(
        &mut self,
        key: &Key,
        run: &RunId,
        hand: &Hand,
        how: &Termination,
    ) -> Result<(), No> {
        if self.fails() {
            return Err(No::Disk);
        }
        self.fence(key, run, hand)?;
        let Some(row) = self.rows.get_mut(key) else { return Err(No::Fence(None)) };
        assert_eq!(row.active.as_ref(), Some(run), "2: an end of a run that has not the session");
        row.active = None;
        row.interrupted = *how == Termination::Aborted { cause: Cause::Restart };
        self.end_writer(run, how);
        Ok(())
    }

    fn end_writer(&mut self, run: &RunId, how: &Termination) {
        self.end_run(run, how, None);
        let hosted: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, r)| r.host.as_ref() == Some(run) && r.ended.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for other in hosted {
            self.end_run(&other, how, Some(run.clone()));
        }
    }

    fn end_run(&mut self, run: &RunId, how: &Termination, into: Option<RunId>) {
        if let Some(row) = self.runs.get_mut(run)
            && row.ended.is_none()
        {
            row.ended = Some((how.clone(), into));
        }
    }

    /// The end of runs that never claimed their session.
    pub(super) fn end_unclaimed(
        &mut self,
        key: &Key,
        lead: &RunId,
        joined: &[RunId],
        how: &Termination,
    ) -> Result<(), No> {
        if self.fails() {
            return Err(No::Disk);
        }
        self.end_run(lead, how, None);
        for run in joined {
            self.end_run(run, how, Some(lead.clone()));
        }
        if let Some(row) = self.rows.get_mut(key) {
            row.queue.retain(|(_, run)| run != lead && !joined.contains(run));
        }
        Ok(())
    }

    /// A change of a session as a whole.
    pub(super) fn change(&mut self, key: &Key, change: &Change, at: Millis) -> Result<(), No> {
        if self.fails() {
            return Err(No::Disk);
        }
        if let Change::Drop { runs, termination } = change {
            return self.drop_runs(key, runs, termination);
        }
        let keeps = self.is(Sabotage::TownKeepRevision);
        let Some(row) = self.rows.get_mut(key) else { return Err(No::Fence(None)) };
        match change {
            Change::Drop { .. } => {}
            Change::Reset(_) | Change::Delete if row.active.is_some() => {
                let by = row.active.as_ref().map_or("", RunId::as_str);
                assert!(by.starts_with('f'), "12: {key} cannot be changed: {by} is not there");
                return Err(No::Fence(row.active.clone()));
            }
            Change::Reset(reason) => {
                debug_assert!(*reason != ResetReason::Unknown);
                row.revision += u32::from(!keeps);
                row.resets += 1;
                row.started_at = at;
                row.interrupted = false;
                row.resumes = 0;
            }
            Change::Delete => {
                let how = Termination::Aborted { cause: Cause::User };
                let open = self.runs.iter().filter(|(_, r)| r.key == *key && r.ended.is_none());
                let open: Vec<RunId> = open.map(|(run, _)| run.clone()).collect();
                for run in open {
                    self.end_run(&run, &how, None);
                }
                self.rows.remove(key);
            }
            Change::Settings(settings) => row.settings = *settings,
            Change::GivenUp => row.interrupted = false,
        }
        Ok(())
    }

    fn drop_runs(
        &mut self,
        key: &Key,
        runs: &[(RunId, MsgId)],
        how: &Termination,
    ) -> Result<(), No> {
        for (run, msg) in runs {
            self.end_run(run, how, None);
            let keeps = self.is(Sabotage::TownKeepDropped);
            if let Some(row) = self.rows.get_mut(key).filter(|_| !keeps) {
                row.queue.retain(|(m, _)| m != msg);
            }
        }
        Ok(())
    }

    /// A session is opened: a writer that is not there any more ends.
    pub(super) fn mend(&mut self, key: &Key, torn: &BTreeMap<RunId, Termination>) {
        let Some(row) = self.rows.get_mut(key) else { return };
        let Some(run) = row.active.take() else { return };
        let known = torn.get(&run);
        row.interrupted = known.is_none();
        let how = known.cloned().unwrap_or(Termination::Aborted { cause: Cause::Restart });
        self.end_writer(&run, &how);
    }

    /// A message name above every one in use.
    pub(super) fn next_msg(&self) -> u64 {
        let queued = self.rows.values().flat_map(|row| row.queue.iter().map(|(msg, _)| msg.0));
        queued.max().unwrap_or(0) + 1
    }

    /// Accepted runs that never began, in the order of their acceptance.
    pub(super) fn waiting(&self) -> Vec<Restored> {
        let mut found: Vec<Restored> = Vec::new();
        for (key, row) in &self.rows {
            for (msg, run) in &row.queue {
                let Some(of) = self.runs.get(run) else { continue };
                if of.ended.is_some() && !self.is(Sabotage::TownKeepDropped) {
                    continue;
                }
                found.push(Restored {
                    key: Arc::clone(key),
                    run: run.clone(),
                    request: Arc::clone(&of.request),
                    msg: *msg,
                    accepted_at: of.accepted_at,
                    waits: of.waits.clone(),
                });
            }
        }
        found.sort_by_key(|r| r.accepted_at);
        found
    }

    /// Sessions whose last run did not end by itself.
    pub(super) fn interrupted(&self) -> Vec<Candidate> {
        let forgets = self.is(Sabotage::TownResumeForever);
        let cut = |row: &Row| {
            let last = if row.interrupted { row.last.clone() } else { None };
            row.active.clone().or(last)
        };
        let found = self.rows.iter().filter_map(|(key, row)| Some((key, cut(row)?)));
        found
            .map(|(key, run)| {
                let waits = self.runs.get(&run).map(|r| &r.waits);
                let kind = match waits.map(|w| &w.lane) {
                    Some(Lane::Subagent) => CandidateKind::Subagent,
                    Some(Lane::Cron) => CandidateKind::Cron,
                    _ => CandidateKind::Main,
                };
                let attempts = waits.map_or(0, |w| w.attempt);
                let attempts = if forgets { 0 } else { attempts };
                Candidate { session: Arc::clone(key), run, kind, attempts, narrowed: false }
            })
            .collect()
    }
}
