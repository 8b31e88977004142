//! Blocking friends: each call of a model or a tool has a thread of the crew to itself.

use super::Reactor;
use super::links::{Links, Report};
use super::prompter::Wanted;
use super::seat::Address;
use crate::base::OpId;
use crate::context::Prompt;
use crate::engine::{Assembled, batch};
use crate::model::call::{CallHandle, ModelEvent};
use crate::model::catalog::{Backend, Resolved};
use crate::model::http::HttpCall;
use crate::model::scripted as offline;
use crate::model::wire::request::{Encoder, Params, Tool};
use crate::tools::cap::{cap, cap_details, text_chars_max};
use crate::tools::run::{Cancel, Ctx, Progress, run};
use crate::tools::{ToolSpec, check, replayable, result_hash};
use crate::transcript::{Check, Message, OpenCall, ToolOutput};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The sink of a model call: every event becomes a report. When the loop has gone, nobody
/// listens, and the call is stopped.
fn sink(
    at: Address,
    op: OpId,
    links: &Links,
    handle: &CallHandle,
) -> impl FnMut(ModelEvent) + Send + use<> {
    let (sender, waker) = links.reporter();
    let handle = handle.clone();
    move |event| {
        let heard = sender.send(Report::Model(at, op, event)).is_ok() && waker.wake().is_ok();
        if !heard {
            handle.abort("nobody listens");
        }
    }
}

/// A call that could not be started ends as a failed one.
fn not_started(at: Address, op: OpId, links: &Links, started: bool) {
    if started {
        return;
    }
    let (sender, waker) = links.reporter();
    let failure = crate::base::Failure::new(
        crate::base::FailKind::Unknown,
        "the system could not start a thread for the model call",
    );
    let input = crate::engine::reply::Input::Failed(failure, None);
    if sender.send(Report::Failed(at, op, input)).is_ok() {
        let _ = waker.wake();
    }
}

/// Makes a prompt; `false` if there is no thread for it.
pub(super) fn prompt(
    at: Address,
    op: OpId,
    facts: Assembled,
    wanted: Wanted,
    links: &Links,
) -> bool {
    let (sender, waker) = links.reporter();
    let prompter = Arc::clone(&links.outfit.prompter);
    links.crew.spawn(move || {
        let prompted = Box::new(prompter.prompt(&wanted));
        if sender.send(Report::Prompted(at, op, facts, prompted)).is_ok() {
            let _ = waker.wake();
        }
    })
}

/// What a request has beside the conversation.
pub(super) struct With<'a> {
    pub model: &'a Resolved,
    pub specs: &'a [ToolSpec],
    pub prompt: Option<&'a Prompt>,
}

/// Sends the conversation to a provider.
pub(super) fn model(
    at: Address,
    op: OpId,
    With { model, specs, prompt }: With<'_>,
    encoder: &Encoder,
    links: &Links,
) -> CallHandle {
    let handle = CallHandle::new();
    let Backend::OpenAi { url, api_key, headers, compat } = &model.backend else {
        return handle;
    };
    let described = |s: &ToolSpec| (s.name.clone(), s.description.clone(), s.parameters.clone());
    let listed: Vec<_> = if compat.tools { specs.iter().map(described).collect() } else { vec![] };
    let tools: Vec<Tool<'_>> = listed
        .iter()
        .map(|(name, description, parameters)| Tool { name, description, parameters })
        .collect();
    let params = Params {
        model: &model.model,
        system: prompt.map_or("", |prompt| &prompt.stable.text),
        system_rest: prompt.map_or("", |prompt| &prompt.volatile),
        tools: &tools,
        max_tokens: Some(model.max_tokens),
        max_tokens_field: compat.max_tokens_field,
        usage: compat.usage,
        developer_role: compat.developer_role,
        no_store: compat.store,
        reasoning_effort: None,
    };
    let job = HttpCall {
        url: url.clone(),
        api_key: api_key.clone(),
        headers: headers.clone(),
        body: encoder.request(&params),
        provider: model.provider.clone(),
        model: model.model.clone(),
    };
    let mut sink = sink(at, op, links, &handle);
    let (pool, clock, given) = (Arc::clone(&links.pool), links.clock, handle.clone());
    let work = move || pool.call(&job, &given, &|| clock.now(), &mut sink);
    not_started(at, op, links, links.crew.spawn(work));
    handle
}

/// Plays the offline model.
pub(super) fn scripted(
    at: Address,
    op: OpId,
    messages: Arc<Vec<Message>>,
    links: &Links,
) -> CallHandle {
    let handle = CallHandle::new();
    let mut sink = sink(at, op, links, &handle);
    let (clock, given) = (links.clock, handle.clone());
    let work = move || offline::run(&messages, &given, &|| clock.now(), &mut sink);
    not_started(at, op, links, links.crew.spawn(work));
    handle
}

/// Starts a tool; `None` if it could not be started.
pub(super) fn tool(
    at: Address,
    op: OpId,
    call: &OpenCall,
    window: u64,
    links: &Links,
) -> Option<Cancel> {
    let Check::Ready(args) = &call.check else { return None };
    let cancel = Cancel::new();
    let ctx = ctx(cancel.clone(), links);
    let (name, args) = (call.name.clone(), args.clone());
    let (sender, waker) = links.reporter();
    let report = move |input: batch::Input| {
        if sender.send(Report::Tool(at, op, input)).is_ok() {
            let _ = waker.wake();
        }
    };
    let work = move || {
        let mut progress = |progress: Progress| match progress {
            Progress::Process { pgid, started } => report(batch::Input::Process { pgid, started }),
            Progress::Update(preview) => report(batch::Input::Update(Arc::new(preview))),
        };
        let output = store_sized(run(&name, &args, &ctx, &mut progress), window);
        let hash = result_hash(&output);
        report(batch::Input::Done(Arc::new(output), hash));
    };
    links.crew.spawn(work).then_some(cancel)
}

fn ctx(cancel: Cancel, links: &Links) -> Ctx {
    let outfit = &links.outfit;
    Ctx {
        cwd: outfit.cwd.clone(),
        cancel,
        // Taken here, in the order in which calls are asked for.
        ticket: Some(links.order.take()),
        helper: outfit.helper.clone(),
        exec_timeout_s: outfit.exec_timeout_s,
        workspace_only_patch: outfit.workspace_only_patch,
        shell: outfit.shell.clone(),
        env: outfit.env.to_vec(),
    }
}

impl Reactor {
    /// Runs a tool outside of a run, as it would run in one; only one that changes nothing.
    ///
    /// # Errors
    /// There is no such tool, or the arguments do not fit, in the words a model is told.
    pub fn invoke(
        &self,
        name: &str,
        args: &Map<String, Value>,
        done: impl FnOnce(ToolOutput) + Send + 'static,
    ) -> Result<(), String> {
        let links = &self.links;
        let specs = replayable(&links.outfit.specs);
        let checked = check(&specs, name, args).map_err(|rejected| rejected.text)?;
        let (ctx, window) = (ctx(Cancel::new(), links), self.model.context_window);
        let name = name.to_owned();
        let work = move || {
            done(store_sized(run(&name, &checked.args, &ctx, &mut |_| {}), window));
        };
        let started = links.crew.spawn(work);
        started.then_some(()).ok_or_else(|| "the system gives no thread for the tool".to_owned())
    }
}

/// The size in which a result is stored and told (semantics 3.9).
fn store_sized(output: ToolOutput, window: u64) -> ToolOutput {
    let mut output = cap(output, text_chars_max(window));
    output.details = output.details.map(cap_details);
    output
}
