//! The questions of a compaction, one after the other, and the entry that comes of the answers
//! (F9, F10, F12; semantics 8.5, 8.6).

use super::{Budget, NoPlan, Plan, SUMMARY_CHARS_MAX, text};
use crate::context::estimate::{text_tokens, tokens};
use crate::transcript::{Compaction, Message};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// How often one part is asked for.
const TRIES_MAX: u8 = 3;
/// How often an answer that is no summary is asked for.
const USELESS_MAX: u8 = 2;
/// The wait before another try doubles from here, ms.
const WAIT_MS: u64 = 500;
/// Most of a wait, ms.
const WAIT_MAX_MS: u64 = 5_000;
/// Most characters of the request that is still open.
const REQUEST_CHARS_MAX: usize = 800;
/// What a question needs beside the conversation, tokens.
const QUESTION_TOKENS: u64 = 4_096;

/// One question to a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The system prompt.
    pub system: &'static str,
    /// What is asked, as a person's words.
    pub prompt: String,
    /// The most it may write, tokens.
    pub max_tokens: u64,
    /// How long to wait first, ms.
    pub wait_ms: u64,
}

#[derive(Clone, Debug)]
struct Part {
    /// The beginning of a turn whose end stays.
    of_turn: bool,
    conversation: String,
}

/// Asks for what a plan needs.
#[derive(Clone, Debug)]
pub struct Summarizer {
    plan: Plan,
    budget: Budget,
    wish: Option<String>,
    todo: VecDeque<Part>,
    /// Failed tries of the first of them, and how many of those were no summary.
    tries: (u8, u8),
    history: Option<String>,
    turn: Option<String>,
    failed: Option<String>,
}

impl Summarizer {
    /// The questions of a plan. `wish` is what the person wants to be minded.
    #[must_use]
    pub fn new(plan: Plan, budget: Budget, wish: Option<String>) -> Summarizer {
        let mut todo = VecDeque::new();
        for (of_turn, messages) in [(false, &plan.history), (true, &plan.prefix)] {
            let chunks = chunks(messages, &budget).into_iter();
            todo.extend(chunks.map(|conversation| Part { of_turn, conversation }));
        }
        let history = plan.previous.clone();
        let (tries, turn, failed) = ((0, 0), None, None);
        Summarizer { plan, budget, wish, todo, tries, history, turn, failed }
    }

    /// The next question; none when all is answered or given up.
    #[must_use]
    pub fn ask(&self) -> Option<Ask> {
        let part = self.todo.front()?;
        let (conversation, wish) = (part.conversation.as_str(), self.wish.as_deref());
        let (prompt, share) = if part.of_turn {
            (text::turn_question(conversation, self.turn.as_deref()), 5)
        } else {
            (text::question(conversation, self.history.as_deref(), wish), 8)
        };
        let most = (self.budget.reserve * share / 10).max(256);
        let max_tokens =
            if self.budget.max_output > 0 { most.min(self.budget.max_output) } else { most };
        let wait_ms = match self.tries.0 {
            0 => 0,
            tries => (WAIT_MS << (tries - 1)).min(WAIT_MAX_MS),
        };
        Some(Ask { system: text::SYSTEM, prompt, max_tokens, wait_ms })
    }

    /// The model has answered.
    pub fn answered(&mut self, answer: &str) {
        match text::summary(answer) {
            Ok(summary) => {
                let Some(part) = self.todo.pop_front() else { return };
                self.tries = (0, 0);
                // What is carried from part to part is bounded like the whole.
                let summary = text::head(&summary, SUMMARY_CHARS_MAX).to_owned();
                *if part.of_turn { &mut self.turn } else { &mut self.history } = Some(summary);
            }
            Err(why) => {
                self.tries.1 += 1;
                let again = self.tries.1 < USELESS_MAX;
                self.failed(why, again);
            }
        }
    }

    /// The model has not answered. `again` says that another try may help.
    pub fn failed(&mut self, why: &str, again: bool) {
        self.tries.0 += 1;
        if !again || self.tries.0 >= TRIES_MAX {
            self.give_up(why);
        }
    }

    /// There will be no summary.
    pub fn give_up(&mut self, why: &str) {
        self.todo.clear();
        self.failed = Some(why.to_owned());
    }

    /// What stands for what goes, and what stays.
    ///
    /// # Errors
    /// The context would not get smaller.
    pub fn finish(self) -> Result<(Compaction, Vec<Message>), NoPlan> {
        let Summarizer { plan, failed, .. } = &self;
        let summarized = failed.is_none();
        let mut summary = match failed {
            None => self.summary(),
            Some(why) => self.without_summary(why),
        };
        if summary.chars().count() > SUMMARY_CHARS_MAX {
            summary = text::head(&summary, SUMMARY_CHARS_MAX - CUT_MARK.len()).to_owned();
            summary.push_str(CUT_MARK);
        }
        summary.push_str(&plan.files.text());
        let kept: u64 = plan.kept.iter().map(tokens).sum();
        let after = kept + text_tokens(&summary);
        if after >= plan.before {
            return Err(NoPlan::Nothing("the conversation would not get shorter"));
        }
        let overhead = self.budget.overhead;
        let mut details = plan.files.details();
        details.insert("removedMessages".to_owned(), json!(plan.removed()));
        if let Some(why) = failed {
            details.insert("withoutSummary".to_owned(), json!(why));
        }
        let compaction = Compaction {
            summary,
            first_kept_entry_id: plan.first_kept.clone(),
            tokens_before: plan.before + overhead,
            tokens_after: after + overhead,
            removed: u32::try_from(plan.removed()).unwrap_or(u32::MAX),
            summarized,
            details: Some(Value::Object(details)),
        };
        Ok((compaction, self.plan.kept))
    }

    fn summary(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.open_request());
        parts.extend(self.history.clone());
        if let Some(turn) = &self.turn {
            parts.push(format!("---\n\n**Turn Context (split turn):**\n\n{turn}"));
        }
        parts.join("\n\n")
    }

    /// What is known of what went, and that it went (semantics 8.6).
    fn without_summary(&self, why: &str) -> String {
        let note = format!(
            "[{} earlier messages of this conversation were removed without a summary ({why}). \
             Nothing is known of them here; ask the person if something of them is needed.]",
            self.plan.removed()
        );
        let parts = [self.plan.previous.clone(), Some(note), self.open_request()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    /// The last request among what goes that nobody has answered there.
    fn open_request(&self) -> Option<String> {
        let gone = self.plan.history.iter().chain(&self.plan.prefix);
        let mut open = None;
        for message in gone {
            match message {
                Message::User(user) => open = Some(user.content.to_text()),
                Message::Assistant(reply) if reply.calls().next().is_none() && !reply.failed() => {
                    open = None;
                }
                _ => {}
            }
        }
        let text = open.filter(|text| !text.trim().is_empty())?;
        let text = text::head(text.trim(), REQUEST_CHARS_MAX);
        Some(format!("## Latest Unresolved Request\n{text}"))
    }
}

const CUT_MARK: &str = "\n\n[The summary was cut here.]";

/// A conversation in texts that fit a question each; a call and its results stay together.
fn chunks(messages: &[Message], budget: &Budget) -> Vec<String> {
    let window = budget.window.max(1);
    let room = (window * 2 / 5).saturating_sub(QUESTION_TOKENS) * 5 / 6;
    let room = room.max(window * 3 / 20).max(1);
    let mut chunks: Vec<(String, u64)> = Vec::new();
    for unit in units(messages) {
        let unit = if text_tokens(&unit) > window / 2 {
            let count = text_tokens(&unit);
            format!("[A message of about {count} tokens is left out: it is too large.]")
        } else {
            unit
        };
        let size = text_tokens(&unit);
        match chunks.last_mut() {
            Some((text, sum)) if *sum + size <= room => {
                text.push_str("\n\n");
                text.push_str(&unit);
                *sum += size;
            }
            _ => chunks.push((unit, size)),
        }
    }
    chunks.into_iter().map(|(text, _)| text).collect()
}

/// Messages as texts; results with the calls that they answer.
fn units(messages: &[Message]) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    for message in messages {
        let text = text::line(message);
        if text.is_empty() {
            continue;
        }
        match (message, units.last_mut()) {
            (Message::ToolResult(_), Some(unit)) => {
                unit.push_str("\n\n");
                unit.push_str(&text);
            }
            _ => units.push(text),
        }
    }
    units
}
