//! What records and commits mean for the runs whose messages a seat has.

use super::seat::{Said, Seat};
use crate::base::Millis;
use crate::engine::replay::Interruption;
use crate::engine::{Input, Record, Termination};
use crate::transcript::Write;

impl Seat {
    /// What records mean for the runs whose messages are here.
    pub(super) fn learn(&mut self, records: &[Record], said: &mut Vec<Said>) {
        for record in records {
            match record {
                Record::Committed(id) => {
                    if let Some(run) = self.given.remove(id) {
                        self.joined.push(run.clone());
                        said.push(Said::Joined(run));
                    }
                }
                Record::Reply(_) if !std::mem::replace(&mut self.turned, true) => {
                    said.extend(self.run_id.clone().map(Said::Turned));
                }
                _ => {}
            }
        }
    }

    /// What a part has to hold beside the records of the run itself.
    pub(super) fn complete(&mut self, records: &[Record], writes: &mut Vec<Write>, now: Millis) {
        for record in records {
            match record {
                Record::Claim => self.take_over(writes, now),
                Record::Committed(id) if *id == self.merged.0 => {
                    let merged = std::mem::take(&mut self.merged.1);
                    writes.extend(merged.into_iter().map(Write::QueueTake));
                }
                Record::Ended(termination) => {
                    let end = writes.iter().position(|w| matches!(w, Write::End { .. }));
                    let before = end.map_or_else(Vec::new, |at| writes.split_off(at));
                    writes.push(Write::Phases(self.phases.text()));
                    let at = now;
                    for run in std::mem::take(&mut self.joined) {
                        let termination = termination.clone();
                        writes.push(Write::EndJoined { run, termination, at });
                    }
                    writes.extend(before);
                }
                _ => {}
            }
        }
    }

    /// The claim makes the session whole, in its own part: what a displaced run left open is
    /// closed, and what joined it ends.
    fn take_over(&mut self, writes: &mut Vec<Write>, now: Millis) {
        if self.writer.is_none() || self.writer == self.run_id {
            return;
        }
        let termination = Termination::Superseded { by: self.run_id.clone() };
        for run in std::mem::take(&mut self.orphans) {
            writes.push(Write::EndJoined { run, termination: termination.clone(), at: now });
        }
        let closing = self.door.close_interrupted(Interruption::TakenOver, now);
        let closing = closing.unwrap_or_default();
        writes.extend(closing.into_iter().filter(|w| !matches!(w, Write::End { .. })));
    }

    /// A commit was refused or failed: what is in memory is not what is stored, and the session is
    /// opened again when the run has ended.
    pub(super) fn denied(&mut self, why: String, input: Input) {
        self.spoiled = true;
        self.fault = Some(why);
        self.inbox.push_front(input);
    }

    /// Its own messages that it did not commit are for the next run; those of others are not its.
    pub(super) fn keep_left(&mut self) {
        let mine = std::mem::take(&mut self.given);
        for (id, _, body) in self.door.queue() {
            self.door.forget(id);
            if !mine.contains_key(&id) {
                self.left.push((id, body));
            }
        }
    }
}
