//! The stages of a batch: what happens between two waits (semantics 2.5, rows P0 to B9).

use super::{Batch, Call, Marks, Phase, Stage, Why, Yield};
use crate::engine::io::{Act, Event, Outcome, Record, Unstarted};

impl Batch {
    /// Runs until something has to be awaited.
    pub fn advance(&mut self, marks: Marks, out: &mut Yield) {
        loop {
            let before = self.stage.clone();
            match self.stage {
                Stage::Admit(_) | Stage::Returned => return,
                Stage::Prepare(i) => self.prepare(i, marks, out),
                Stage::Launch(i) => self.launch_next(i, marks, out),
                Stage::Running => self.settle(marks, out),
                Stage::Serial(i) => self.serial(i, marks, out),
                Stage::Tail(i, _) => self.tail(i, out),
            }
            if self.stage == before {
                return;
            }
        }
    }

    /// P0: calls are taken up in source order; an abort ends that after the current call.
    fn prepare(&mut self, i: u16, marks: Marks, out: &mut Yield) {
        if i == self.len() || (marks.abort && self.phase(i) == Phase::Fresh) {
            return self.checkpoint(marks, out);
        }
        if self.phase(i) == Phase::Fresh {
            self.take_up(i, out);
        }
        if matches!(self.phase(i), Phase::Ready | Phase::Ended) {
            self.stage = Stage::Prepare(i + 1);
        }
    }

    /// P1: the launch checkpoint reads the steering queue once.
    fn checkpoint(&mut self, marks: Marks, out: &mut Yield) {
        let ready: Vec<u16> = (0..self.len()).filter(|i| self.phase(*i) == Phase::Ready).collect();
        let skip = if marks.abort {
            Some(Unstarted::Aborted)
        } else if marks.steering {
            self.steered = true;
            out.polled = true;
            Some(Unstarted::Steering)
        } else {
            None
        };
        self.stage = Stage::Running;
        match skip {
            Some(why) => {
                for i in ready {
                    self.conclude(i, Outcome::Unstarted(why.clone()), out);
                }
            }
            None if ready.is_empty() => {}
            None => {
                out.append.push(Record::Launch(ready));
                self.stage = Stage::Launch(0);
            }
        }
    }

    /// P1: call k+1 starts after call k has entered its implementation.
    fn launch_next(&mut self, i: u16, marks: Marks, out: &mut Yield) {
        if i == self.len() {
            self.stage = Stage::Running;
            return;
        }
        match self.phase(i) {
            Phase::Ready if marks.abort => {
                self.conclude(i, Outcome::Unstarted(Unstarted::Aborted), out);
                self.stage = Stage::Launch(i + 1);
            }
            Phase::Ready => self.launch(i, out),
            Phase::Entering(_) => {}
            Phase::Fresh
            | Phase::Asking(_)
            | Phase::Running(_)
            | Phase::After(_)
            | Phase::Judging(_)
            | Phase::Ended => self.stage = Stage::Launch(i + 1),
        }
    }

    /// P2 to P4: when everything has ended, results are released in source order.
    fn settle(&mut self, marks: Marks, out: &mut Yield) {
        let waits = |c: &Call| !matches!(c.phase, Phase::Ended | Phase::Fresh);
        if self.calls.iter().any(waits) {
            return;
        }
        for i in 0..self.len() {
            if self.phase(i) == Phase::Ended {
                self.store(i, out);
            }
        }
        let why = if self.steered {
            Why::Steering
        } else if self.fatal {
            Why::Admission
        } else {
            Why::Abort
        };
        let fresh = (0..self.len()).find(|i| self.phase(*i) == Phase::Fresh);
        assert!(fresh.is_none() || marks.abort, "only an abort leaves calls unprepared");
        self.stage = Stage::Tail(fresh.unwrap_or(self.len()), why);
    }

    /// S0 to S4.
    fn serial(&mut self, i: u16, marks: Marks, out: &mut Yield) {
        if i == self.len() {
            // S4: after the last call there is nothing left to skip.
            self.poll_serial(marks, out);
            self.stage = Stage::Returned;
            return;
        }
        match self.phase(i) {
            Phase::Fresh if marks.abort => self.stage = Stage::Tail(i, Why::Abort),
            Phase::Fresh => {
                if self.poll_serial(marks, out) {
                    self.stage = Stage::Tail(i, Why::Steering);
                } else {
                    self.take_up(i, out);
                    if matches!(self.phase(i), Phase::Ready | Phase::Ended) {
                        self.serial(i, marks, out);
                    }
                }
            }
            Phase::Ready if marks.abort => {
                self.conclude(i, Outcome::Unstarted(Unstarted::Aborted), out);
                self.after_serial(i, marks, out);
            }
            Phase::Ready => {
                // S2: the second check.
                if self.poll_serial(marks, out) {
                    self.conclude(i, Outcome::Unstarted(Unstarted::Steering), out);
                    self.after_serial(i, marks, out);
                } else {
                    out.append.push(Record::Launch(vec![i]));
                    self.launch(i, out);
                }
            }
            Phase::Ended => self.after_serial(i, marks, out),
            Phase::Asking(_)
            | Phase::Entering(_)
            | Phase::Running(_)
            | Phase::After(_)
            | Phase::Judging(_) => {}
        }
    }

    /// A serial call has its outcome: its result is stored at once.
    fn after_serial(&mut self, i: u16, marks: Marks, out: &mut Yield) {
        if self.phase(i) != Phase::Ended {
            return;
        }
        self.store(i, out);
        self.stage = if self.steered {
            Stage::Tail(i + 1, Why::Steering)
        } else if self.fatal {
            Stage::Tail(i + 1, Why::Admission)
        } else if marks.abort {
            Stage::Tail(i + 1, Why::Abort)
        } else {
            Stage::Serial(i + 1)
        };
    }

    /// A serial steering poll; at most one a batch finds something, since it ends the round.
    fn poll_serial(&mut self, marks: Marks, out: &mut Yield) -> bool {
        if marks.abort || self.fatal || self.steered || !marks.steering {
            return false;
        }
        self.steered = true;
        out.polled = true;
        true
    }

    /// B9: calls that were never prepared are completed, one after another.
    fn tail(&mut self, i: u16, out: &mut Yield) {
        if i == self.len() {
            self.stage = Stage::Returned;
            return;
        }
        let Stage::Tail(_, why) = self.stage.clone() else { return };
        if self.phase(i) == Phase::Fresh {
            out.tell.push(Event::ToolStart(i));
            self.conclude(i, Outcome::Unstarted(why.unstarted(i)), out);
        }
        if self.phase(i) == Phase::Ended {
            self.store(i, out);
            self.stage = Stage::Tail(i + 1, why);
        }
    }

    /// The run is being aborted: what runs is told to stop, what has not begun will not.
    pub fn abort(&mut self, out: &mut Yield) {
        let marks = Marks { abort: true, steering: false };
        if matches!(self.stage, Stage::Admit(_)) {
            self.stage = Stage::Tail(0, Why::Abort);
        }
        for i in 0..self.len() {
            match self.phase(i) {
                Phase::Asking(_) => {
                    self.conclude(i, Outcome::Unstarted(Unstarted::Aborted), out);
                }
                Phase::Entering(op) | Phase::Running(op) => out.act.push(Act::CancelTool(op)),
                Phase::Fresh
                | Phase::Ready
                | Phase::After(_)
                | Phase::Judging(_)
                | Phase::Ended => {}
            }
        }
        self.advance(marks, out);
    }

    /// The settle limit is reached: what has not ended is given up, its outcome unknown.
    pub fn give_up(&mut self, out: &mut Yield) {
        let marks = Marks { abort: true, steering: false };
        self.hooks.after_outcome = false;
        while !self.returned() {
            for i in 0..self.len() {
                match self.phase(i) {
                    Phase::Entering(_) | Phase::Running(_) => {
                        self.end(i, &Outcome::Unsettled, out);
                    }
                    // The outcome as it was before the hook is stored already: it stands.
                    Phase::After(_) | Phase::Judging(_) => self.end_as_stored(i, out),
                    Phase::Asking(_) | Phase::Ready => {
                        self.end(i, &Outcome::Unstarted(Unstarted::Aborted), out);
                    }
                    Phase::Fresh | Phase::Ended => {}
                }
            }
            if let Stage::Admit(_) = self.stage {
                self.stage = Stage::Tail(0, Why::Abort);
            }
            self.advance(marks, out);
        }
    }

    fn end_as_stored(&mut self, i: u16, out: &mut Yield) {
        let call = self.call(i);
        call.phase = Phase::Ended;
        let started = call.entered;
        let outcome = Outcome::Kept;
        out.tell.push(Event::ToolEnd { call: i, outcome, started });
    }
}
