//! What is shown of runs: streamed text and tool calls on a terminal, the answers on a pipe, one
//! object with `--json`. What an answer is, is decided where the gateway's are (spec/answer.md).

use crate::base::{RunId, SessionId};
use crate::engine::answer::{Collected, HeldBack, Kind, Payload};
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{self, Key};
use crate::engine::{Cause, Event, Fault, Outcome, Termination, Unstarted, Who};
use crate::model::catalog::Resolved;
use crate::reactor::{At, Observer, View};
use crate::transcript::{Block, Check, Delta, OpenCall, Usage};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::time::Instant;

/// For whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    /// A person at a terminal: text as it comes, tool calls beside it.
    Terminal {
        /// With colours.
        colour: bool,
    },
    /// A program behind a pipe: the answers of a run when it has ended, nothing else.
    Pipe,
    /// A program that wants one object at the end.
    Json,
}

impl Style {
    pub fn detect() -> Style {
        let out = std::io::stdout();
        if out.is_terminal() {
            Style::Terminal { colour: super::agent::coloured(&out) }
        } else {
            Style::Pipe
        }
    }
}

/// The longest line that shows a call's arguments, in characters.
const ARGS_CHARS_MAX: usize = 100;

pub(super) struct Screen {
    style: Style,
    /// Text of the message that is being streamed has been shown, without a line feed.
    dangling: bool,
    /// The beginning of a streamed message, as long as it may be a token of silence (A4).
    held: HeldBack,
    /// What runs that go on have said so far.
    collected: BTreeMap<RunId, Collected>,
    /// Tools that change nothing.
    safe: BTreeSet<String>,
    payloads: Vec<String>,
    tools: Vec<Value>,
    usage: Usage,
    failure: Option<String>,
    /// What went wrong on our side.
    fault: Option<String>,
    /// How runs ended.
    ends: BTreeMap<RunId, Termination>,
    /// What a command waits for, under the name that its run would have had.
    awaited: Option<RunId>,
    session: Option<SessionId>,
    signals: u32,
    started: Instant,
}

impl Screen {
    pub fn new(style: Style, safe: BTreeSet<String>) -> Screen {
        Screen {
            style,
            dangling: false,
            held: HeldBack::default(),
            collected: BTreeMap::new(),
            safe,
            payloads: Vec::new(),
            tools: Vec::new(),
            usage: Usage::default(),
            failure: None,
            fault: None,
            ends: BTreeMap::new(),
            awaited: None,
            session: None,
            signals: 0,
            started: Instant::now(),
        }
    }

    /// How a run ended, if it has.
    pub fn ended(&self, run: &RunId) -> Option<Termination> {
        self.ends.get(run).cloned()
    }

    /// A run, or what stands for one, is over.
    pub fn end(&mut self, run: RunId, termination: Termination) {
        self.ends.insert(run, termination);
    }

    /// A command is under way; it has no run, but is waited for like one.
    pub fn awaits(&mut self, run: RunId) {
        self.awaited = Some(run);
    }

    fn settled(&mut self, text: &str) {
        self.line(text);
        if let Some(run) = self.awaited.take() {
            self.end(run, Termination::Completed { cut: false });
        }
    }

    /// One more signal; how many there were.
    pub fn signalled(&mut self) -> u32 {
        self.signals += 1;
        self.signals
    }

    /// A line that answers a command.
    pub fn line(&mut self, text: &str) {
        self.end_line();
        if self.style == Style::Json {
            self.payloads.push(text.to_owned());
        } else {
            Screen::out(&(printable(text) + "\n"));
        }
    }

    fn say(&mut self, text: &str) {
        self.end_line();
        // One write a line: several programs may share the stream.
        let _ = std::io::stderr().write_all(format!("stepclaw: {text}\n").as_bytes());
    }

    fn out(text: &str) {
        let mut out = std::io::stdout().lock();
        // A reader that has gone does not stop the run: what it does is stored all the same.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.dangling) {
            Screen::out("\n");
        }
    }

    fn dim(&self, text: &str) -> String {
        match self.style {
            Style::Terminal { colour: true } => format!("\x1b[2m{text}\x1b[0m"),
            Style::Terminal { colour: false } | Style::Pipe | Style::Json => text.to_owned(),
        }
    }

    fn on_terminal(&self) -> bool {
        matches!(self.style, Style::Terminal { .. })
    }

    fn delta(&mut self, delta: &Delta) {
        let text = self.held_back(delta);
        self.stream(&text);
    }

    /// What of a piece may be shown now.
    fn held_back(&mut self, delta: &Delta) -> String {
        match delta {
            Delta::Text(text) if self.on_terminal() => self.held.push(text),
            _ => String::new(),
        }
    }

    fn stream(&mut self, text: &str) {
        if !text.is_empty() {
            Screen::out(&printable(text));
            self.dangling = !text.ends_with('\n');
        }
    }

    /// A run has ended: what it has to say is delivered.
    fn answered(&mut self, run: &RunId, termination: &Termination, joined: bool) {
        let Some(collected) = self.collected.remove(run).filter(|_| !joined) else { return };
        for payload in collected.payloads(termination) {
            self.deliver(payload, termination);
        }
    }

    fn deliver(&mut self, payload: Payload, termination: &Termination) {
        let said = match payload.kind {
            Kind::SourceReply | Kind::Segment | Kind::Reasoning | Kind::Answer => true,
            Kind::Error | Kind::ToolWarning => false,
        };
        match self.style {
            Style::Json => self.payloads.push(payload.text),
            Style::Pipe if said => Screen::out(&(payload.text + "\n")),
            // It was streamed.
            Style::Terminal { .. } if said => {}
            // A run that did not complete has last words of its own.
            Style::Pipe | Style::Terminal { .. } => {
                if matches!(termination, Termination::Completed { .. }) {
                    self.say(&payload.text);
                }
            }
        }
    }

    fn message_end(&mut self, who: &Who) {
        let rest = std::mem::take(&mut self.held).finish();
        self.stream(&rest);
        match who {
            Who::Reply(Some(body)) => {
                if let Some(usage) = &body.message.usage {
                    self.usage.input += usage.input;
                    self.usage.output += usage.output;
                    self.usage.cache_read += usage.cache_read;
                    self.usage.cache_write += usage.cache_write;
                    self.usage.total_tokens += usage.total_tokens;
                }
                self.end_line();
            }
            Who::Failed(failure) => {
                self.end_line();
                self.failure = Some(failure.message.clone());
            }
            Who::LoopEnd => self.failure = Some(crate::transcript::outcome::LOOP_END.to_owned()),
            Who::Reply(None) | Who::User(_) | Who::Stopped(_) | Who::Result(_) | Who::Note => {
                self.end_line();
            }
        }
    }

    fn tool_start(&mut self, call: Option<&OpenCall>) {
        if !self.on_terminal() {
            return;
        }
        let Some(call) = call else { return };
        self.end_line();
        let line = format!("* {} {}", call.name, arguments(&call.check));
        Screen::out(&(self.dim(line.trim_end()) + "\n"));
    }

    fn tool_end(&mut self, call: Option<&OpenCall>, outcome: &Outcome, started: bool) {
        let Some(call) = call else { return };
        let state = outcome_word(outcome);
        if self.style == Style::Json {
            self.tools.push(json!({
                "id": call.id, "name": call.name, "started": started, "outcome": state,
            }));
        }
        if self.on_terminal() {
            self.end_line();
            let first = outcome_line(outcome).unwrap_or_default();
            let colon = if matches!(outcome, Outcome::Tool(_)) { ":" } else { "" };
            let line = format!("  {} {state}{colon} {first}", call.name);
            Screen::out(&(self.dim(line.trim_end()) + "\n"));
        }
    }

    /// The last words.
    pub fn finish(&mut self, termination: &Termination, run: &RunId, key: &str, model: &Resolved) {
        self.end_line();
        let error = last_words(termination, self.failure.as_deref(), self.fault.as_deref());
        if self.style != Style::Json {
            if let Some(text) = error {
                self.say(&text);
            }
            return;
        }
        let status = match termination {
            Termination::Completed { .. } => "ok",
            Termination::Aborted { cause: Cause::Timeout } => "timeout",
            _ => "error",
        };
        let payloads: Vec<Value> =
            self.payloads.iter().map(|text| json!({"text": text, "mediaUrl": null})).collect();
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let value = json!({
            "runId": run, "sessionKey": key, "sessionId": self.session, "status": status,
            "termination": termination, "error": error,
            "result": {
                "payloads": payloads,
                "meta": {
                    "durationMs": millis, "toolCalls": self.tools,
                    "agentMeta": {
                        "provider": model.provider, "model": model.model, "usage": self.usage,
                    },
                },
            },
        });
        Screen::out(&(serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"));
    }
}

impl Observer for Screen {
    fn notice(&mut self, _: Option<&Key>, text: &str) {
        self.fault = Some(text.to_owned());
        self.say(text);
    }

    fn of_sessions(&mut self, event: &sessions::Event) {
        use sessions::Event as Of;
        match event {
            Of::Ended { run, termination, into, .. } => {
                self.answered(run, termination, into.is_some());
                self.end(run.clone(), termination.clone());
            }
            Of::Known(run, outcome) => match &outcome.termination {
                Some(termination) => {
                    self.say(&format!("run {run} was done before; it is not done again"));
                    self.end(run.clone(), termination.clone());
                }
                None => self.say(&format!("run {run} is on its way already")),
            },
            Of::Conflict(run) => {
                self.fault = Some(format!("run {run} exists already, for another request"));
                self.end(run.clone(), Termination::Failed { fault: Fault::Store });
            }
            Of::Refused(run, why) => {
                self.fault = Some(why.to_string());
                self.end(run.clone(), Termination::Failed { fault: Fault::Store });
            }
            // Nobody asked for it: the message found its session stale.
            Of::Reset(_, Ok(reason @ (ResetReason::Idle | ResetReason::Daily))) => {
                self.say(&format!("a new beginning ({})", reason.word()));
            }
            Of::Reset(_, Ok(reason)) => {
                self.settled(&format!("a new beginning ({})", reason.word()))
            }
            Of::Set(_, Ok(())) => self.settled("the queue settings are stored"),
            Of::Deleted(_, Ok(())) => self.settled("the conversation is deleted"),
            Of::Reset(_, Err(why)) | Of::Set(_, Err(why)) | Of::Deleted(_, Err(why)) => {
                self.settled(&format!("this could not be done: {why}"));
            }
            Of::Waiting(_, ms) => {
                self.say(&format!("waiting for {} s for a free lane", ms / 1_000))
            }
            Of::Stuck(_, what) => self.say(&format!("the run does not get on: {what}")),
            Of::GivenUp(_, run, attempts) => self.say(&format!(
                "run {run} was interrupted and is not taken up again after {attempts} attempts"
            )),
            Of::Accepted { .. } | Of::Waited { .. } | Of::Drained => {}
        }
    }

    fn told(&mut self, at: &At<'_>, event: &Event, view: View<'_>) {
        if self.session.is_none() {
            self.session = Some(at.session.clone());
        }
        if !matches!(event, Event::MessageUpdate(_)) {
            let safe = &self.safe;
            let collected = self.collected.entry(at.run.clone()).or_default();
            collected.told(event, view.calls, |name| safe.contains(name));
        }
        let call = |i: u16| view.calls.get(usize::from(i));
        match event {
            Event::MessageUpdate(delta) => self.delta(delta),
            Event::MessageEnd(who) => self.message_end(who),
            Event::ToolStart(i) => self.tool_start(call(*i)),
            Event::ToolEnd { call: i, outcome, started } => {
                self.tool_end(call(*i), outcome, *started);
            }
            Event::MessageReset => {
                self.held = HeldBack::default();
                if self.dangling {
                    self.end_line();
                    self.say("the answer broke off; what was shown of it is void");
                }
            }
            Event::Retry { attempt, max, delay_ms, failure } => {
                let seconds = delay_ms.div_ceil(1_000);
                let text = format!(
                    "{}; trying again in {seconds} s ({attempt} of {max})",
                    failure.message
                );
                self.say(&text);
            }
            Event::CompactionStart(why) => self.say(super::words::compaction(*why)),
            Event::CompactionEnd(end) => self.say(&super::words::compacted(end)),
            Event::AbortSlow => self.say("what was aborted is still running; waiting for it"),
            Event::Accepted
            | Event::AgentStart
            | Event::TurnStart
            | Event::MessageStart(_)
            | Event::ToolUpdate(..)
            | Event::TurnEnd { .. }
            | Event::AgentEnd
            | Event::Ended(_) => {}
        }
    }
}

/// What a person is told of an end that was not the natural one.
fn last_words(
    termination: &Termination,
    failure: Option<&str>,
    fault: Option<&str>,
) -> Option<String> {
    let failed = failure.unwrap_or("no reason was given");
    match termination {
        Termination::Completed { cut: false } => None,
        Termination::Completed { cut: true } => {
            Some("the answer was cut at the model's output limit".to_owned())
        }
        Termination::Aborted { cause: Cause::Timeout } => Some("the run timed out".to_owned()),
        Termination::Aborted { .. } => Some("the run was aborted".to_owned()),
        Termination::ProviderError { .. } => Some(format!("the model failed: {failed}")),
        Termination::ToolLoop => Some(failed.to_owned()),
        Termination::PolicyStop { rule } => Some(format!("a rule ended the run: {rule:?}")),
        Termination::Superseded { .. } => {
            Some(fault.unwrap_or("a newer run took the session").to_owned())
        }
        Termination::Failed { fault: Fault::Launch } => Some(failed.to_owned()),
        Termination::Failed { .. } => {
            Some(fault.map_or_else(|| "the run failed".to_owned(), str::to_owned))
        }
    }
}

/// Keeps a model's text from driving the terminal.
fn printable(text: &str) -> String {
    // Marks that turn the direction of writing could make a call read as another one.
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|c| (!c.is_control() && !turns(*c)) || matches!(c, '\n' | '\t')).collect()
}

fn arguments(check: &Check) -> String {
    let Check::Ready(args) = check else { return String::new() };
    let part = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}={text}"),
        other => format!("{key}={other}"),
    };
    let line: Vec<String> = args.iter().map(part).collect();
    shorten(&line.join(" "))
}

fn shorten(text: &str) -> String {
    let line = printable(&text.replace('\n', " "));
    if line.chars().count() <= ARGS_CHARS_MAX {
        return line;
    }
    line.chars().take(ARGS_CHARS_MAX - 1).chain(['…']).collect()
}

fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Tool(output) if output.is_error => "failed",
        Outcome::Tool(_) => "ok",
        Outcome::Unstarted(Unstarted::Steering) => "skipped",
        Outcome::Unstarted(Unstarted::Rejected) => "refused",
        Outcome::Unstarted(Unstarted::Aborted) => "aborted",
        Outcome::Unstarted(_) => "blocked",
        Outcome::Kept => "done",
        Outcome::Unsettled | Outcome::UnknownAfterStop | Outcome::UnknownAfterTakeover => "unknown",
        Outcome::NotStartedBeforeStop | Outcome::NotStartedBeforeTakeover => "not started",
    }
}

/// The first line of a result, and how many there are.
fn outcome_line(outcome: &Outcome) -> Option<String> {
    let Outcome::Tool(output) = outcome else { return None };
    let text = output.content.iter().find_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    })?;
    let lines = text.lines().count();
    let first = shorten(text.lines().next().unwrap_or_default());
    Some(if lines > 1 { format!("{first} (+{} lines)", lines - 1) } else { first })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L22, A4: on a terminal a token of silence never shows, however it comes; a pipe streams
    /// nothing.
    #[test]
    fn silence_is_not_streamed() {
        let piece = |text: &str| Delta::Text(text.to_owned());
        let mut screen = Screen::new(Style::Terminal { colour: false }, BTreeSet::new());
        assert_eq!(screen.held_back(&piece("NO_")), "");
        assert_eq!(screen.held_back(&piece("REPLY")), "");
        screen.message_end(&Who::Note);
        assert!(!screen.dangling, "nothing was shown");
        assert_eq!(screen.held_back(&piece("NO_")), "");
        assert_eq!(screen.held_back(&piece("PE")), "NO_PE");
        assert_eq!(Screen::new(Style::Pipe, BTreeSet::new()).held_back(&piece("Yes")), "");
    }

    #[test]
    fn a_models_text_does_not_drive_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\u{7}\u{202e}c\n"), "a[31mbc\n");
    }
}
