//! A run on the workbench: inputs go in one by one, and what happens is written down for people.

use crate::base::{Millis, MsgId, OpId, RunId};
use crate::engine::{
    Assembled, Entry, Event, Input, Ledger, QueueKind, Record, Run, Setup, Step, Submit, batch,
    recover, replay::Interruption, step,
};
use crate::sim::{bodies, render};
use crate::transcript::{Door, EntryKind, Message, ModelName, Write, paired};
use std::fmt::Write as _;

/// A run under test, its door, and the lines of what happened.
pub struct Bench {
    pub run: Run,
    pub door: Door,
    pub log: Vec<Record>,
    pub messages: Vec<Message>,
    pub events: Vec<Event>,
    pub now: Millis,
    lines: String,
}

impl Bench {
    pub fn new() -> Bench {
        Bench {
            run: Run::default(),
            door: Door::new(ModelName::default(), 1),
            log: vec![],
            messages: vec![],
            events: vec![],
            now: Millis(1_000),
            lines: String::new(),
        }
    }

    /// A run that has been submitted with one prompt and waits for its model.
    pub fn calling(setup: Setup) -> Bench {
        let mut bench = Bench::new();
        bench.submit(setup, Entry::Prompt, 1);
        bench.feed(Input::Claimed(OpId(1)));
        bench.feed(Input::Assembled(OpId(2), Assembled::EmptyHistory));
        bench
    }

    /// The same, with its first message answered by a reply.
    pub fn replied(setup: Setup, body: std::sync::Arc<crate::transcript::ReplyBody>) -> Bench {
        let mut bench = Bench::calling(setup);
        bench.reply(body);
        bench
    }

    pub fn submit(&mut self, setup: Setup, entry: Entry, prompts: u64) {
        let prompts = (1..=prompts).map(|n| (MsgId(n), bodies::user("hi"))).collect();
        let submit = Submit { run: RunId::new("r1"), entry, prompts, waiting: vec![], setup };
        self.feed(Input::Submit(Box::new(submit)));
    }

    /// Feeds one input that must be taken.
    pub fn feed(&mut self, input: Input) {
        let step = self.offer(input.clone());
        assert_eq!(step, None, "refused: {input:?}");
    }

    /// Feeds one input; gives the refusal, if it was refused.
    pub fn offer(&mut self, input: Input) -> Option<crate::engine::Refusal> {
        let before = self.run.clone();
        let Step { state, append, tell, act, refused } =
            step(std::mem::take(&mut self.run), input, self.now);
        if refused.is_some() {
            assert!(append.is_empty() && tell.is_empty() && act.is_empty());
            assert_eq!(state, before, "a refusal changed the state");
        }
        state.check();
        self.run = state;
        self.store(append);
        for event in &tell {
            let _ = writeln!(self.lines, "tell   {}", render::event(event));
        }
        for act in &act {
            let _ = writeln!(self.lines, "   act {}", render::act(act));
        }
        self.events.extend(tell);
        refused
    }

    fn store(&mut self, records: Vec<Record>) {
        for record in &records {
            let _ = writeln!(self.lines, "  log  {}", render::record(record));
            let writes = self.door.apply(record, self.now).expect("the door opens");
            for write in writes {
                if let Write::Put(entry) = write
                    && let EntryKind::Message { message } = entry.kind
                {
                    self.messages.push(message);
                }
            }
        }
        self.log.extend(records);
    }

    /// What the claim of a successor appends for a run that did not end by itself.
    pub fn close_interrupted(&mut self, why: Interruption) {
        self.store(recover(&Ledger::fold(&self.log), why));
    }

    /// The one operation that is open.
    pub fn op(&self) -> OpId {
        let ops = self.run.open_ops();
        assert_eq!(ops.len(), 1, "open: {ops:?}");
        ops[0]
    }

    /// The model answers in full.
    pub fn reply(&mut self, body: std::sync::Arc<crate::transcript::ReplyBody>) {
        let op = self.op();
        self.feed(bodies::start(op));
        self.feed(bodies::finish(op, body));
    }

    /// The tool of an operation is entered.
    pub fn entered(&mut self, op: u32) {
        self.feed(Input::Call(OpId(op), batch::Input::Entered));
    }

    pub fn done(&mut self, op: u32) {
        self.feed(bodies::done(OpId(op), "ok"));
    }

    pub fn message(&mut self, id: u64, kind: QueueKind) {
        self.feed(Input::Message { id: MsgId(id), kind, body: bodies::user("more") });
    }

    pub fn steer(&mut self, id: u64) {
        self.message(id, QueueKind::Steer);
    }

    /// Forgets the lines so far.
    pub fn quiet(&mut self) {
        self.lines.clear();
    }

    /// Compares the lines with the accepted snapshot.
    pub fn matches(&self, name: &str) {
        assert!(paired(&self.messages), "unpaired: {:#?}", self.messages);
        assert_eq!(self.door.guarded(), 0, "the live guard had to step in");
        let mut settings = insta::Settings::new();
        settings.set_snapshot_path("../../testdata/transcripts");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, self.lines));
    }
}
