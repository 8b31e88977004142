//! S1: the real store and the one in memory that simulations use are one and the same, for what
//! an engine writes and for whatever else could be written.

use super::*;
use crate::base::{EntryId, MsgId, Rng};
use crate::engine::{Outcome, Unstarted};
use crate::sim::store::{MemStore, Refused};
use crate::transcript::{Entry, EntryKind, OpenCall, ToolOutput};

/// What a verdict comes to, the words left out.
fn verdict(result: &Committed) -> Result<(), Refused> {
    match result {
        Ok(()) => Ok(()),
        Err(Denied::Fenced(why)) => Err(Refused::Fenced(why.clone())),
        Err(Denied::Failed(StoreError::DuplicateRun(_))) => Err(Refused::Duplicate),
        Err(Denied::Failed(_)) => Err(Refused::Failed),
    }
}

struct Both {
    bed: Bed,
    mem: MemStore,
    rng: Rng,
    door: Door,
    next_id: u64,
    refused: u32,
}

impl Both {
    fn commit(&mut self, by: Option<&str>, writes: &[Write]) -> bool {
        // Now and then the snapshot is an old one.
        let seen = match self.rng.below(8) {
            0 => Some(RunId::new(format!("r{}", self.rng.below(4)))),
            1 => None,
            _ => self.mem.writer.clone(),
        };
        let part = Commit { seen: seen.clone(), ..part(by, writes.to_vec()) };
        let real = verdict(&self.bed.commit(part));
        let run = by.map(RunId::new);
        let model = self.mem.commit(run.as_ref(), seen.as_ref(), writes);
        assert_eq!(real, model, "{by:?} {writes:?}");
        self.refused += u32::from(real.is_err());
        self.agree();
        real.is_ok()
    }

    fn agree(&self) {
        let loaded = self.bed.load();
        let messages: Vec<Message> = loaded
            .branch
            .iter()
            .map(|e| match &e.kind {
                EntryKind::Message { message } => message.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(messages, self.mem.messages);
        assert_eq!(loaded.queue, self.mem.queue);
        assert_eq!(loaded.calls, self.mem.calls);
        assert_eq!(loaded.open_run.map(|o| o.run), self.mem.writer);
        assert_eq!(loaded.damaged, Vec::<String>::new());
        for (run, ended) in &self.mem.runs {
            assert_eq!(&self.bed.termination(run.as_str()), ended, "{run}");
        }
        assert_eq!(self.bed.count("runs"), i64::try_from(self.mem.runs.len()).unwrap());
    }

    fn record(&mut self, by: &str, record: &Record) {
        let before = self.door.clone();
        let Ok(writes) = self.door.apply(record, Millis(3)) else { return };
        if !self.commit(Some(by), &writes) {
            self.door = before;
        }
    }

    fn run(&mut self) -> String {
        format!("r{}", self.rng.below(4))
    }

    fn fresh(&mut self) -> MsgId {
        self.next_id += 1;
        MsgId(self.next_id)
    }

    /// What an engine would write, in whatever order.
    fn engine(&mut self) {
        let by = self.run();
        let call = u16::try_from(self.rng.below(3)).unwrap();
        let id = MsgId(1 + self.rng.below(self.next_id.max(1)));
        let body = Arc::new(user(&format!("m{}", self.next_id)));
        let record = match self.rng.below(12) {
            0 => {
                let (run, prompts) = (RunId::new(by.clone()), vec![(self.fresh(), body)]);
                Record::Accepted { run, entry: RunEntry::Prompt, prompts }
            }
            1 | 2 => Record::Claim,
            3 => Record::Queued { id: self.fresh(), kind: QueueKind::Steer, body },
            4 => Record::Committed(id),
            5 => Record::Dropped(id),
            6 => Record::Reply(Arc::new(reply("x", &["c", "c", ""][..usize::from(call)]))),
            7 => Record::Launch(vec![call]),
            8 => {
                let outcome = match self.rng.below(2) {
                    0 => Outcome::Tool(Arc::new(ToolOutput::text("out\0é\u{1f600}"))),
                    _ => Outcome::Unstarted(Unstarted::Aborted),
                };
                Record::Outcome { call, outcome, warned: None }
            }
            9 | 10 => Record::Result(call),
            _ => Record::Ended(Termination::Completed { cut: false }),
        };
        self.record(&by, &record);
    }

    /// What nobody should write.
    fn hostile(&mut self) {
        let by = match self.rng.below(3) {
            0 => None,
            _ => Some(self.run()),
        };
        let mut writes = Vec::new();
        for _ in 0..=self.rng.below(3) {
            let call = u16::try_from(self.rng.below(4)).unwrap();
            let id = MsgId(1 + self.rng.below(self.next_id + 2));
            writes.push(match self.rng.below(11) {
                0 => accept(&self.run()),
                1 => Write::Claim,
                2 => {
                    let message = said(&format!("h{}", self.rng.next()));
                    let id = EntryId::new(format!("h{}", self.rng.next()));
                    let kind = EntryKind::Message { message };
                    Write::Put(Entry::restore(id, None, Millis(2), kind))
                }
                3 => {
                    let (id, body) = (self.fresh(), Arc::new(user("q")));
                    Write::QueuePut { id, kind: QueueKind::FollowUp, body }
                }
                4 => Write::QueueTake(id),
                5 => Write::CallsLaunched(vec![call, 77]),
                6 => Write::CallKnown { call, output: Arc::new(ToolOutput::error("no")) },
                7 => Write::CallStored(call),
                8 => Write::Phases("[]".into()),
                9 => Write::EndJoined {
                    run: RunId::new(self.run()),
                    termination: Termination::Completed { cut: true },
                    at: Millis(3),
                },
                _ => done(),
            });
        }
        if self.commit(by.as_deref(), &writes) {
            // The door is one that a process would make of what is stored now.
            let calls: Vec<OpenCall> = self.mem.calls.clone();
            let seed = self.rng.next();
            self.door = Door::resume(ModelName::default(), seed, calls, self.mem.queue.clone());
        }
    }
}

#[test]
fn both_stores_agree() {
    let mut refused = 0;
    for seed in 0..24 {
        let (bed, mem, rng) = (bed(), MemStore::default(), Rng(seed));
        let mut both = Both { bed, mem, rng, door: door(seed), next_id: 0, refused: 0 };
        both.commit(None, &[accept("r9")]);
        for _ in 0..120 {
            match both.rng.below(4) {
                0 => both.hostile(),
                _ => both.engine(),
            }
        }
        both.bed.whole();
        refused += both.refused;
    }
    assert!(refused > 100, "the fence was hardly tried: {refused}");
}
