//! Compacting a session's history: read back from the store, planned and asked for on a worker,
//! given to the engine as one answer (F14 to F17).

use super::ReactorError;
use super::links::{Links, Observer, Report};
use super::seat::{Address, Seat};
use crate::base::{Failure, Millis, OpId};
use crate::context::Prompt;
use crate::context::compact::{Ask, Budget, NoPlan, Plan, Summarizer, plan};
use crate::context::estimate::text_tokens;
use crate::engine::{Assembled, Compacted, Hook, Input, Trigger, Verdict};
use crate::model::call::{CallHandle, ModelEvent};
use crate::model::catalog::{Backend, Resolved};
use crate::model::http::{HttpCall, Pool};
use crate::model::scripted as offline;
use crate::model::wire::End;
use crate::model::wire::request::{Encoder, Params};
use crate::store::{Loaded, StoreError};
use crate::tools::ToolSpec;
use crate::transcript::{Content, Message, User, message::join_text};
use std::sync::Arc;
use std::time::Duration;

/// How histories are compacted (`agents.defaults.compaction`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compaction {
    /// Kept free for an answer, tokens.
    pub reserve: u64,
    /// Kept of the newest messages, tokens.
    pub keep: u64,
    /// Histories are weighed between the rounds of a turn too.
    pub mid_turn: bool,
}

/// What a worker has made of a history.
#[derive(Debug)]
pub struct Made {
    what: Compacted,
    /// What stays, as a model is given it.
    kept: Vec<Message>,
}

impl Made {
    fn failed(why: &str) -> Made {
        Made { what: Compacted::Failed(why.into()), kept: vec![] }
    }

    fn not(why: NoPlan) -> Made {
        let what = match why {
            NoPlan::Nothing(why) => Compacted::Nothing(why.into()),
            NoPlan::DoesNotFit => {
                Compacted::Failed("the newest message alone is too large for the model".into())
            }
        };
        Made { what, kept: vec![] }
    }
}

/// A compaction that is under way.
#[derive(Debug)]
pub(super) struct Underway {
    op: OpId,
    why: Trigger,
    handle: CallHandle,
}

impl Underway {
    pub fn abort(&self, why: &str) {
        self.handle.abort(why);
    }
}

/// The estimate of the tools that go with every request.
pub(super) fn overhead(specs: &[ToolSpec]) -> u64 {
    let of = |spec: &ToolSpec| {
        let schema = spec.parameters.to_string();
        text_tokens(&spec.name) + text_tokens(&spec.description) + text_tokens(&schema)
    };
    specs.iter().map(of).sum()
}

impl Seat {
    /// The estimate of what goes with every request beside the messages.
    fn overhead(&self, links: &Links) -> u64 {
        let prompt = self.briefing.prompt.as_ref();
        let text =
            |prompt: &Prompt| text_tokens(&prompt.stable.text) + text_tokens(&prompt.volatile);
        links.overhead + prompt.map_or(0, text)
    }

    fn budget(&self, links: &Links) -> Option<Budget> {
        let settings = links.outfit.compaction?;
        let (window, output) = (self.model.context_window, self.model.max_tokens);
        let mut budget = Budget::new(window, output, settings.reserve, settings.keep);
        budget.overhead = self.overhead(links);
        budget.ratio = self.history.gauge.ratio(budget.overhead);
        Some(budget)
    }

    /// Whether the history is too large for what comes next.
    pub(super) fn weigh(&self, hook: Hook, links: &Links) -> Verdict {
        let Some(budget) = self.budget(links) else { return Verdict::Go };
        let tokens = self.history.gauge.total(budget.overhead);
        let in_turn = hook == Hook::WeighRequest && self.history.last == Assembled::AfterResult;
        let mid_turn = links.outfit.compaction.is_some_and(|settings| settings.mid_turn);
        // What could not be made smaller is tried again only when more was said.
        let fruitless = self.fruitless.is_some_and(|at| tokens <= at);
        let skip = (in_turn && !mid_turn) || fruitless;
        if budget.is_full(tokens) && !skip { Verdict::Stop } else { Verdict::Go }
    }

    pub(super) fn compact(&mut self, op: OpId, why: Trigger, links: &mut Links) {
        let handle = CallHandle::new();
        self.compacting = Some(Underway { op, why, handle });
        let asked = links.outfit.compaction.is_some() || why == Trigger::Manual;
        if self.is_detached() || !asked || links.load_for(self.address, op, self.key()).is_err() {
            let why = "this conversation is not stored";
            self.inbox.push_back(Input::Compacted(op, Compacted::Nothing(why.into())));
        }
    }

    /// Nobody waits for it any more, or not for its summary.
    pub(super) fn cut_compaction(&mut self, op: OpId, why: &str) {
        if let Some(underway) = self.compacting.as_ref().filter(|underway| underway.op == op) {
            underway.abort(why);
        }
    }

    /// The history is here: a worker goes on.
    pub(super) fn compact_loaded(
        &mut self,
        op: OpId,
        loaded: Result<Box<Loaded>, StoreError>,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let Some(underway) = self.compacting.as_ref().filter(|underway| underway.op == op) else {
            return Ok(());
        };
        let loaded = match loaded {
            Ok(loaded) => *loaded,
            Err(error) => {
                return self.compact_made(op, Made::failed(&error.to_string()), links, observer);
            }
        };
        let settings = links.outfit.compaction.unwrap_or(DEFAULT);
        let (window, output) = (self.model.context_window, self.model.max_tokens);
        let fresh = Budget::new(window, output, settings.reserve, settings.keep);
        let work = Work {
            budget: self.budget(links).unwrap_or(fresh),
            pressed: underway.why == Trigger::Overflow,
            wish: self.wish.take(),
            model: self.model.clone(),
            pool: Arc::clone(&links.pool),
            handle: underway.handle.clone(),
        };
        let (sender, waker) = links.reporter();
        let (at, clock) = (self.address, links.clock);
        let job = move || {
            let made = match plan(&loaded.branch, &work.budget, work.pressed) {
                Ok(plan) => work.make(plan, &|| clock.now()),
                Err(why) => Made::not(why),
            };
            if sender.send(Report::Compacted(at, op, Box::new(made))).is_ok() {
                let _ = waker.wake();
            }
        };
        if links.crew.spawn(job) {
            return Ok(());
        }
        let made = Made::failed("the system could not start a thread for the compaction");
        self.compact_made(op, made, links, observer)
    }

    /// The worker has answered.
    pub(super) fn compact_made(
        &mut self,
        op: OpId,
        made: Made,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        if self.compacting.take_if(|underway| underway.op == op).is_none() {
            return Ok(());
        }
        let done = matches!(made.what, Compacted::Done(_));
        self.fruitless =
            (!done).then(|| self.history.gauge.total(self.overhead(links)) + RETRY_TOKENS);
        self.kept = made.kept;
        self.feed(Input::Compacted(op, made.what), links, observer)
    }

    /// The entry is stored: the model is given what it says from now on.
    pub(super) fn compacted(&mut self, summary: Message) {
        let mut history = super::history::History::new(&self.model);
        history.push_stale(summary);
        for message in std::mem::take(&mut self.kept) {
            history.push_stale(message);
        }
        history.last = self.history.last;
        self.history = history;
    }
}

/// How much has to be said before what could not be compacted is tried again, tokens.
const RETRY_TOKENS: u64 = 2_000;
/// What a manual compaction goes by where the automatic one is off.
const DEFAULT: Compaction = Compaction { reserve: 16_384, keep: 20_000, mid_turn: false };

/// What a worker needs to compact a history.
struct Work {
    budget: Budget,
    pressed: bool,
    wish: Option<String>,
    model: Resolved,
    pool: Arc<Pool>,
    handle: CallHandle,
}

impl Work {
    fn make(&self, plan: Plan, clock: &dyn Fn() -> Millis) -> Made {
        let mut asks = Summarizer::new(plan, self.budget, self.wish.clone());
        while let Some(ask) = asks.ask() {
            if self.handle.pause(Duration::from_millis(ask.wait_ms)) {
                asks.give_up(&self.handle.aborted().unwrap_or_default());
                break;
            }
            match self.ask(&ask, clock) {
                Ok(answer) => asks.answered(&answer),
                Err(failure) => match self.handle.aborted() {
                    Some(why) => asks.give_up(&why),
                    None => asks.failed(&failure.message, failure.kind.retryable()),
                },
            }
        }
        match asks.finish() {
            Ok((compaction, kept)) => Made { what: Compacted::Done(Arc::new(compaction)), kept },
            Err(why) => Made::not(why),
        }
    }

    fn ask(&self, ask: &Ask, clock: &dyn Fn() -> Millis) -> Result<String, Failure> {
        let model = &self.model;
        let Backend::OpenAi { url, api_key, headers, compat } = &model.backend else {
            return offline::summarize(&ask.prompt, self.wish.as_deref(), &self.handle);
        };
        let mut encoder = Encoder::new(compat.encoding);
        let content = Content::Text(ask.prompt.clone());
        let user = User { content, timestamp: clock(), idempotency_key: None };
        encoder.push(&Message::User(user));
        let params = Params {
            model: &model.model,
            system: ask.system,
            system_rest: "",
            tools: &[],
            max_tokens: Some(ask.max_tokens),
            max_tokens_field: compat.max_tokens_field,
            usage: compat.usage,
            developer_role: compat.developer_role,
            no_store: compat.store,
            reasoning_effort: None,
        };
        let call = HttpCall {
            url: url.clone(),
            api_key: api_key.clone(),
            headers: headers.clone(),
            body: encoder.request(&params),
            provider: model.provider.clone(),
            model: model.model.clone(),
        };
        let mut end = None;
        self.pool.call(&call, &self.handle, clock, &mut |event| {
            if let ModelEvent::End(ended) = event {
                end = Some(*ended);
            }
        });
        match end {
            Some(End::Done(finished)) => Ok(join_text(&finished.message.content)),
            Some(End::Failed(failure, _)) => Err(failure),
            None => Err(Failure::new(crate::base::FailKind::Unknown, "the model did not answer")),
        }
    }
}

/// Where a history is read back for.
pub(super) type For = (Address, OpId);
