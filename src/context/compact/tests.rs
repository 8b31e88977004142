use super::*;
use crate::base::{EntryId, Millis, Rng};
use crate::transcript::{
    Assistant, Block, Content, Entry, EntryKind, Message, StopReason, ToolResult, User, paired,
    visible,
};
use serde_json::json;

fn entry(n: usize, kind: EntryKind) -> Entry {
    Entry::restore(EntryId::new(format!("e{n}")), None, Millis(n as u64), kind)
}

fn say(n: usize, message: Message) -> Entry {
    entry(n, EntryKind::Message { message })
}

fn user(n: usize, text: &str) -> Entry {
    let content = Content::Text(text.to_owned());
    say(n, Message::User(User { content, timestamp: Millis(1), idempotency_key: None }))
}

fn reply(content: Vec<Block>) -> Message {
    let calls = content.iter().any(|b| matches!(b, Block::ToolCall { .. }));
    Message::Assistant(Assistant {
        content,
        api: String::new(),
        provider: String::new(),
        model: String::new(),
        response_model: None,
        response_id: None,
        usage: None,
        stop_reason: if calls { StopReason::ToolUse } else { StopReason::Stop },
        error_message: None,
        error_code: None,
        timestamp: Millis(2),
    })
}

fn answer(n: usize, text: &str) -> Entry {
    say(n, reply(vec![Block::text(text)]))
}

fn calls(n: usize, ids: &[&str], path: &str) -> Entry {
    let args = json!({"path": path}).as_object().cloned().unwrap_or_default();
    let call = |id: &&str| Block::ToolCall {
        id: (*id).to_owned(),
        name: "read".into(),
        arguments: args.clone(),
    };
    say(n, reply(ids.iter().map(call).collect()))
}

fn result(n: usize, id: &str, text: &str) -> Entry {
    say(
        n,
        Message::ToolResult(ToolResult {
            tool_call_id: id.into(),
            tool_name: "read".into(),
            content: vec![Block::text(text)],
            details: None,
            is_error: false,
            timestamp: Millis(3),
        }),
    )
}

/// A text of so many tokens.
fn long(tokens: usize) -> String {
    "word".repeat(tokens)
}

fn budget(keep: u64) -> Budget {
    Budget { keep, ..Budget::new(100_000, 8_192, 16_384, 20_000) }
}

fn kept(branch: &[Entry], keep: u64) -> Option<String> {
    plan(branch, &budget(keep), false).ok().map(|plan| plan.first_kept.to_string())
}

/// Decisions 19.
#[test]
fn a_small_window_has_a_small_reserve() {
    let large = Budget::new(200_000, 8_192, 16_384, 20_000);
    assert_eq!((large.reserve, large.keep, large.limit()), (16_384, 20_000, 183_616));
    let small = Budget::new(32_768, 8_192, 16_384, 20_000);
    assert_eq!((small.reserve, small.keep), (8_192, 12_288));
    assert!(small.is_full(24_577) && !small.is_full(24_576));
    assert!(!Budget::new(0, 0, 16_384, 20_000).is_full(1));
}

/// F4: the budget decides, and a result is never the first.
#[test]
fn the_cut_is_where_the_budget_ends() {
    let branch = vec![
        user(0, &long(100)),
        answer(1, &long(100)),
        user(2, &long(100)),
        answer(3, &long(100)),
        user(4, &long(100)),
    ];
    assert_eq!(kept(&branch, 100).as_deref(), Some("e4"));
    assert_eq!(kept(&branch, 101).as_deref(), Some("e3"));
    assert_eq!(kept(&branch, 400).as_deref(), Some("e1"));
    assert_eq!(kept(&branch, 401), None, "everything is kept");
    let tools = vec![
        user(0, &long(10)),
        calls(1, &["a", "b"], "x"),
        result(2, "a", &long(50)),
        result(3, "b", &long(50)),
        answer(4, &long(10)),
    ];
    assert_eq!(kept(&tools, 40).as_deref(), Some("e4"), "the next newer one");
    let open = &tools[..4];
    assert_eq!(kept(open, 40).as_deref(), Some("e1"), "a huge result stays with its call");
}

/// F6: a turn that is cut through leaves its beginning to be told.
#[test]
fn a_turn_is_split() {
    let branch = vec![
        user(0, &long(10)),
        answer(1, &long(10)),
        user(2, "the request"),
        calls(3, &["a"], "x"),
        result(4, "a", &long(50)),
        calls(5, &["b"], "y"),
        result(6, "b", &long(50)),
    ];
    let plan = plan(&branch, &budget(40), false).unwrap();
    assert_eq!(plan.first_kept.as_str(), "e5");
    assert_eq!((plan.history.len(), plan.prefix.len(), plan.kept.len()), (2, 3, 2));
    let mut asks = Summarizer::new(plan, budget(40), None);
    assert!(asks.ask().unwrap().prompt.contains("## Goal"));
    asks.answered("Of the history.");
    assert!(asks.ask().unwrap().prompt.contains("## Original Request"));
    asks.answered("Of the turn.");
    assert_eq!(asks.ask(), None);
    let (compaction, _) = asks.finish().unwrap();
    let text = &compaction.summary;
    assert!(text.starts_with("## Latest Unresolved Request\nthe request\n\nOf the history."));
    assert!(text.contains("(split turn):**\n\nOf the turn.") && text.contains("<read-files>\nx\n"));
}

/// F5: marks that are not in the context stay before what they stand before.
#[test]
fn marks_stay_with_what_follows() {
    let mark = EntryKind::Label { target_id: EntryId::new("e0"), label: None };
    let branch = vec![user(0, &long(50)), entry(1, mark.clone()), entry(2, mark), user(3, "now")];
    assert_eq!(kept(&branch, 1).as_deref(), Some("e1"));
}

/// B065, F8: with nothing to sum up there is no new entry.
#[test]
fn b065_nothing_to_sum_up_changes_nothing() {
    let summary = |n| {
        let kind = EntryKind::Compaction {
            summary: "Decisions: use port 8080".into(),
            first_kept_entry_id: EntryId::new("e0"),
            tokens_before: 9,
            tokens_after: None,
            details: None,
        };
        entry(n, kind)
    };
    let branch = vec![user(0, &long(50)), summary(1)];
    assert!(matches!(plan(&branch, &budget(1), true), Err(NoPlan::Nothing(_))));
    let branch = vec![user(0, "a"), summary(1), user(2, &long(30_000))];
    let plan = plan(&branch, &budget(20_000), false).unwrap();
    assert_eq!(plan.previous.as_deref(), Some("Decisions: use port 8080"));
    let mut asks = Summarizer::new(plan, budget(20_000), None);
    assert!(asks.ask().unwrap().prompt.contains("port 8080"));
    for _ in 0..3 {
        asks.failed("it is down", true);
    }
    assert_eq!(asks.ask(), None);
    // What is known stays known also without a new summary (F10).
    if let Ok((compaction, _)) = asks.finish() {
        assert!(compaction.summary.contains("port 8080") && !compaction.summarized);
    }
}

/// B063, F10: an empty answer and an empty form are no summaries.
#[test]
fn b063_an_empty_summary_is_none() {
    let branch = vec![user(0, &long(500)), answer(1, &long(500)), user(2, "now")];
    for useless in ["", "  \n", "<think>hm</think>", "## Goal\n[what the person wants to reach]"] {
        let made = plan(&branch, &budget(1), false).unwrap();
        let mut asks = Summarizer::new(made, budget(1), None);
        asks.answered(useless);
        assert!(asks.ask().is_some_and(|ask| ask.wait_ms > 0), "asked once more");
        asks.answered(useless);
        assert_eq!(asks.ask(), None);
        let (compaction, kept) = asks.finish().unwrap();
        assert!(!compaction.summarized && kept.len() == 1);
        let told = "2 earlier messages of this conversation were removed without a summary";
        assert!(compaction.summary.contains(told), "{}", compaction.summary);
    }
}

/// B064, F9: a model that repeats its input does not make the summary grow.
#[test]
fn b064_a_summary_is_bounded() {
    let mut branch = vec![user(0, &long(3_000)), answer(1, &long(3_000)), user(2, "now")];
    for round in 0..4 {
        let made = plan(&branch, &budget(10), false).unwrap();
        let mut asks = Summarizer::new(made, budget(10), None);
        while let Some(ask) = asks.ask() {
            asks.answered(&ask.prompt.repeat(5));
        }
        let (made, _) = asks.finish().unwrap();
        assert!(made.summary.chars().count() <= SUMMARY_CHARS_MAX + 2_000);
        assert!(made.tokens_after < made.tokens_before);
        branch.push(entry(
            10 * (round + 1),
            EntryKind::Compaction {
                summary: made.summary,
                first_kept_entry_id: made.first_kept_entry_id,
                tokens_before: made.tokens_before,
                tokens_after: None,
                details: made.details,
            },
        ));
        branch.push(user(10 * (round + 1) + 1, &long(3_000)));
        branch.push(user(10 * (round + 1) + 2, "now"));
    }
}

/// B074: the kept tail is what the budget says also in a dense script.
#[test]
fn b074_the_tail_of_a_dense_script() {
    let branch: Vec<Entry> = (0..200).map(|n| user(n, &"漢".repeat(400))).collect();
    assert_eq!(kept(&branch, 20_000).as_deref(), Some("e150"));
}

/// F7: a provider that counts more is believed.
#[test]
fn the_providers_count_makes_the_tail_shorter() {
    let branch: Vec<Entry> = (0..100).map(|n| user(n, &long(100))).collect();
    let twice = Budget { ratio: 2_000, ..budget(1_000) };
    let plan = plan(&branch, &twice, false).unwrap();
    assert_eq!(plan.kept.len(), 5);
}

/// F8: what cannot fit is said, and a tail that is too large is made shorter.
#[test]
fn what_does_not_fit_is_said() {
    let huge = vec![user(0, "a"), answer(1, "b"), user(2, &long(100_000))];
    assert_eq!(plan(&huge, &budget(20_000), false), Err(NoPlan::DoesNotFit));
    let tail = vec![user(0, &long(90_000)), answer(1, "b"), user(2, "c")];
    let plan = plan(&tail, &budget(90_001), false).unwrap();
    assert_eq!(plan.first_kept.as_str(), "e1");
}

fn random(rng: &mut Rng, count: usize) -> Vec<Entry> {
    let mut branch: Vec<Entry> = Vec::new();
    while branch.len() < count {
        let n = branch.len();
        let size = 1 + rng.below(60) as usize;
        match rng.below(10) {
            0..4 => branch.push(user(n, &long(size))),
            4..6 => branch.push(answer(n, &long(size))),
            6 => {
                let kind = EntryKind::Reset { reason: "new".into(), first_kept_entry_id: None };
                branch.push(entry(n, kind));
            }
            7 => branch
                .push(entry(n, EntryKind::Label { target_id: EntryId::new("e0"), label: None })),
            _ => {
                let ids = ["a", "b", "a"];
                let ids = &ids[..1 + rng.below(3) as usize];
                branch.push(calls(n, ids, "f"));
                for id in ids {
                    branch.push(result(branch.len(), id, &long(size)));
                }
            }
        }
    }
    branch
}

/// F13: over random histories and several compactions: pairing whole, something left, smaller
/// than before, and the same estimate by the entry as by what it says.
#[test]
fn compactions_of_random_histories() {
    let mut rng = Rng(5);
    let (mut done, mut nothing) = (0, 0);
    for _ in 0..600 {
        let count = 3 + rng.below(40) as usize;
        let mut branch = random(&mut rng, count);
        for round in 0..4 {
            let budget = Budget { keep: 1 + rng.below(300), ..budget(1) };
            let made = match plan(&branch, &budget, rng.below(2) == 0) {
                Ok(made) => made,
                Err(NoPlan::Nothing(_)) => {
                    nothing += 1;
                    break;
                }
                Err(NoPlan::DoesNotFit) => panic!("it would have fitted"),
            };
            assert!(made.removed() > 0 && !made.kept.is_empty());
            let mut asks = Summarizer::new(made, budget, None);
            while asks.ask().is_some() {
                match rng.below(4) {
                    0 => asks.failed("down", true),
                    _ => asks.answered("Short."),
                }
            }
            let Ok((made, kept)) = asks.finish() else { break };
            let n = 1_000 * (round + 1);
            branch.push(entry(
                n,
                EntryKind::Compaction {
                    summary: made.summary.clone(),
                    first_kept_entry_id: made.first_kept_entry_id,
                    tokens_before: made.tokens_before,
                    tokens_after: None,
                    details: made.details,
                },
            ));
            let seen = visible(&branch);
            assert!(matches!(&seen[0], Message::CompactionSummary(s) if s.summary == made.summary));
            assert_eq!(seen[1..], kept[..], "what is kept is what is seen");
            assert!(paired(&seen));
            done += 1;
            let more = 1 + rng.below(8) as usize;
            for entry in random(&mut rng, more) {
                let n = n + 1 + branch.len();
                branch.push(Entry::restore(
                    EntryId::new(format!("e{n}")),
                    None,
                    entry.timestamp,
                    entry.kind,
                ));
            }
        }
    }
    assert!(done > 300 && nothing > 50, "{done} {nothing}");
}

/// F9: a conversation larger than a question is asked for in parts, each with the summary so far.
#[test]
fn a_long_history_is_summed_up_in_parts() {
    let small = Budget::new(16_384, 8_192, 16_384, 20_000);
    let branch: Vec<Entry> = (0..400).map(|n| user(n, &long(100))).collect();
    let made = plan(&branch, &small, false).unwrap();
    let mut asks = Summarizer::new(made, small, Some("ports".into()));
    let mut count = 0;
    while let Some(ask) = asks.ask() {
        assert!(crate::context::estimate::text_tokens(&ask.prompt) < small.limit());
        assert_eq!(ask.prompt.contains("<previous-summary>"), count > 0);
        assert!(ask.prompt.contains("mind this: ports"));
        count += 1;
        asks.answered(&format!("Part {count}."));
    }
    assert!(count > 5, "{count}");
    let (made, _) = asks.finish().unwrap();
    assert!(
        made.summary.contains(&format!("Part {count}.")) && !made.summary.contains("Part 1.\n")
    );
}
