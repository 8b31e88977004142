//! Where a history is cut (F4 to F8; semantics 8.4).

use super::{Budget, Files};
use crate::base::EntryId;
use crate::context::estimate::{text_tokens, tokens};
use crate::transcript::{Entry, EntryKind, Message, repair};

/// What is kept and what goes.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The first entry that is kept in full.
    pub first_kept: EntryId,
    /// The estimate of the context before, tokens.
    pub before: u64,
    /// What goes, without the beginning of a turn that is cut through.
    pub history: Vec<Message>,
    /// The beginning of the turn that is cut through; empty if none is.
    pub prefix: Vec<Message>,
    /// What stays, in order.
    pub kept: Vec<Message>,
    /// What stood for what had gone before.
    pub previous: Option<String>,
    /// The files that were read and changed so far.
    pub files: Files,
}

impl Plan {
    /// How many messages go.
    #[must_use]
    pub fn removed(&self) -> usize {
        self.history.len() + self.prefix.len()
    }
}

/// Why nothing is compacted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoPlan {
    /// There is nothing that could go.
    Nothing(&'static str),
    /// Whatever goes, the rest does not fit.
    DoesNotFit,
}

/// One message of the context, and its place among the entries.
struct Item {
    at: usize,
    message: Message,
    tokens: u64,
}

/// Plans the compaction of a branch. `pressed` says that the provider has refused the context as
/// too large, whatever is estimated: then at most half of it is kept.
///
/// # Errors
/// [`NoPlan`]: the history stays as it is.
pub fn plan(branch: &[Entry], budget: &Budget, pressed: bool) -> Result<Plan, NoPlan> {
    let boundary = branch.iter().rposition(is_boundary);
    if boundary.is_some_and(|at| at + 1 == branch.len()) {
        return Err(NoPlan::Nothing("nothing was said since the last compaction"));
    }
    let (from, previous, files) = start(branch, boundary);
    let items = items(branch, from);
    let all: u64 = items.iter().map(|item| item.tokens).sum();
    let before = all + previous.as_deref().map_or(0, text_tokens);
    let keep = budget.keep * 1_000 / budget.ratio.max(1_000);
    let keep = if pressed { keep.min(all / 2) } else { keep };
    let cut = cut(&items, keep).ok_or(NoPlan::Nothing("the conversation is short"))?;
    let cut = fitting(&items, cut, budget).ok_or(NoPlan::DoesNotFit)?;
    if cut == 0 {
        return Err(NoPlan::Nothing("the conversation is short"));
    }
    let start = turn_start(&items, cut);
    let first = back_over_marks(branch, items[cut].at);
    let mut gone: Vec<Message> = items.into_iter().map(|item| item.message).collect();
    let kept = gone.split_off(cut);
    let prefix = gone.split_off(start.unwrap_or(cut));
    let mut plan = Plan {
        first_kept: branch[first].id.clone(),
        before,
        history: gone,
        prefix,
        kept: repair(kept).0,
        previous,
        files,
    };
    plan.files.note(plan.history.iter().chain(&plan.prefix));
    Ok(plan)
}

fn is_boundary(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::Compaction { .. } | EntryKind::Reset { .. })
}

/// Where the context begins, and what stands for what was before.
fn start(branch: &[Entry], boundary: Option<usize>) -> (usize, Option<String>, Files) {
    let Some(at) = boundary else { return (0, None, Files::default()) };
    let (kept, previous, files) = match &branch[at].kind {
        EntryKind::Compaction { summary, first_kept_entry_id, details, .. } => {
            (Some(first_kept_entry_id), Some(summary.clone()), Files::of(details.as_ref()))
        }
        EntryKind::Reset { first_kept_entry_id, .. } => {
            (first_kept_entry_id.as_ref(), None, Files::default())
        }
        _ => (None, None, Files::default()),
    };
    let kept = kept.and_then(|id| branch[..at].iter().position(|entry| entry.id == *id));
    (kept.unwrap_or(at), previous, files)
}

fn items(branch: &[Entry], from: usize) -> Vec<Item> {
    let item = |(at, entry): (usize, &Entry)| {
        let message = entry.kind.in_context(entry.timestamp)?;
        Some(Item { at, tokens: tokens(&message), message })
    };
    branch.iter().enumerate().skip(from).filter_map(item).collect()
}

/// Whether the kept part may begin with this message: never with a result, whose call would be
/// gone, nor with a note that belongs to what is before it.
fn cuttable(message: &Message) -> bool {
    match message {
        Message::User(_)
        | Message::Assistant(_)
        | Message::BashExecution(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_) => true,
        Message::Custom(custom) => custom.display,
        Message::ToolResult(_) => false,
    }
}

/// Whether a turn begins with this message.
fn starts_turn(message: &Message) -> bool {
    cuttable(message) && !matches!(message, Message::Assistant(_))
}

/// From the end backwards until the budget is spent.
fn cut(items: &[Item], keep: u64) -> Option<usize> {
    let mut cut = items.iter().rposition(|item| cuttable(&item.message))?;
    let mut sum = 0u64;
    for (at, item) in items.iter().enumerate().rev() {
        if cuttable(&item.message) {
            cut = at;
        }
        sum += item.tokens;
        if sum >= keep {
            break;
        }
    }
    Some(cut)
}

/// The largest tail from there on that a request can hold beside a summary; none if not even the
/// last message can be.
fn fitting(items: &[Item], cut: usize, budget: &Budget) -> Option<usize> {
    let summary = (super::SUMMARY_CHARS_MAX as u64 / 4).min(budget.limit() / 4);
    let room = budget.limit().saturating_sub(budget.overhead + summary);
    let room = room * 1_000 / budget.ratio.max(1_000);
    let mut tail: u64 = items[cut..].iter().map(|item| item.tokens).sum();
    for (at, item) in items.iter().enumerate().skip(cut) {
        if tail <= room && cuttable(&item.message) {
            return Some(at);
        }
        tail -= item.tokens;
    }
    None
}

/// Where the turn begins that is cut through.
fn turn_start(items: &[Item], cut: usize) -> Option<usize> {
    if starts_turn(&items[cut].message) {
        return None;
    }
    items[..cut].iter().rposition(|item| starts_turn(&item.message))
}

/// Marks that are not in the context stay with what they stand before.
fn back_over_marks(branch: &[Entry], at: usize) -> usize {
    let is_mark =
        |entry: &Entry| !is_boundary(entry) && entry.kind.in_context(entry.timestamp).is_none();
    at - branch[..at].iter().rev().take_while(|entry| is_mark(entry)).count()
}
