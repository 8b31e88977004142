//! Door, repair, projection (spec/transcript.md).

use super::door::missing_output;
use super::entry::{Entry, EntryKind, visible};
use super::fuzz::{check_repair, fuzz_repair, history};
use super::project::as_user;
use super::repair::{Report, paired};
use super::*;
use crate::base::{EntryId, Millis, MsgId, Rng, RunId};
use crate::engine::replay::Interruption;
use crate::engine::{Cause, Entry as RunEntry, Outcome, QueueKind, Record, Termination, Unstarted};
use crate::model::wire::request::{Compat, Encoder, IdStyle, NoText, Params};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

fn user(text: &str) -> Message {
    Message::User(body(text))
}

fn body(text: &str) -> User {
    let content = Content::Text(text.into());
    User { content, timestamp: Millis(1), idempotency_key: None }
}

fn assistant(stop_reason: StopReason, text: &str, calls: &[&str]) -> Assistant {
    let mut content = vec![];
    if !text.is_empty() {
        content.push(Block::text(text));
    }
    content.extend(calls.iter().map(|id| Block::ToolCall {
        id: (*id).to_owned(),
        name: "exec".into(),
        arguments: Map::new(),
    }));
    Assistant {
        content,
        api: "a".into(),
        provider: "p".into(),
        model: "m".into(),
        response_model: None,
        response_id: None,
        usage: None,
        stop_reason,
        error_message: None,
        error_code: None,
        timestamp: Millis(1),
    }
}

fn asks(calls: &[&str]) -> Message {
    Message::Assistant(assistant(StopReason::ToolUse, "", calls))
}

fn result(id: &str, text: &str) -> Message {
    Message::ToolResult(ToolResult {
        tool_call_id: id.into(),
        tool_name: "exec".into(),
        content: vec![Block::text(text)],
        details: None,
        is_error: false,
        timestamp: Millis(1),
    })
}

fn made_up(id: &str) -> Message {
    let output = missing_output();
    Message::ToolResult(ToolResult {
        tool_call_id: id.into(),
        tool_name: "exec".into(),
        content: output.content,
        details: output.details,
        is_error: true,
        timestamp: Millis(1),
    })
}

fn record_reply(calls: &[&str]) -> Record {
    let message = assistant(StopReason::ToolUse, "", calls);
    let checks = vec![Check::Ready(Map::new()); calls.len()];
    Record::Reply(Arc::new(ReplyBody::new(message, checks, vec![Default::default(); calls.len()])))
}

fn outcome(call: u16, text: &str) -> Record {
    let outcome = Outcome::Tool(Arc::new(ToolOutput::text(text)));
    Record::Outcome { call, outcome, warned: None }
}

fn door() -> Door {
    Door::new(ModelName::default(), 1)
}

/// The messages that writes put into the transcript.
fn stored(writes: &[Write]) -> Vec<Message> {
    let message = |write: &Write| match write {
        Write::Put(entry) => entry.kind.in_context(entry.timestamp),
        _ => None,
    };
    writes.iter().filter_map(message).collect()
}

fn apply(door: &mut Door, records: &[Record]) -> Vec<Write> {
    records.iter().flat_map(|r| door.apply(r, Millis(2)).unwrap()).collect()
}

/// Encodes a history and holds the request to what a backend demands (T10).
fn legal(history: &[Message], compat: Compat) -> Vec<Value> {
    let mut encoder = Encoder::new(compat);
    let mut sent = 0;
    for message in history {
        encoder.push(message);
        assert!(encoder.bytes().len() >= sent);
        sent = encoder.bytes().len();
    }
    let bytes = encoder.request(&Params { model: "m", ..Params::default() });
    let request: Value = serde_json::from_slice(&bytes).unwrap();
    let messages = request["messages"].as_array().unwrap().clone();
    let (mut seen, mut owed): (BTreeSet<String>, Vec<String>) = Default::default();
    for message in &messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            let at = owed.iter().position(|o| o == id).expect("a result without a call");
            owed.remove(at);
            assert!(!message["content"].as_str().unwrap().is_empty());
            continue;
        }
        assert!(owed.is_empty(), "results are missing: {owed:?}");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap().to_owned();
            assert!(!id.is_empty() && id.len() <= 64, "{id}");
            assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)), "{id}");
            assert!(seen.insert(id.clone()), "{id} twice");
            owed.push(id);
        }
    }
    assert!(owed.is_empty(), "results are missing: {owed:?}");
    assert!(messages.iter().any(|m| m["role"] == "user"));
    messages
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    let n = 4 + rng.below(120);
    (0..n).map(|_| u8::try_from(rng.below(256)).unwrap()).collect()
}

/// T6 to T10 for arbitrary histories.
#[test]
fn any_history_is_repaired_once_and_can_be_sent() {
    let mut rng = Rng(7);
    let (mut clean, mut moved) = (0, 0);
    for _ in 0..4_000 {
        let data = bytes(&mut rng);
        fuzz_repair(&data);
        let (fixed, report) = check_repair(history(&data));
        clean += u32::from(report.clean());
        moved += u32::from(report.moved > 0);
        legal(&fixed, Compat::default());
        legal(&fixed, Compat { ids: IdStyle::Nine, images: true, ..Compat::default() });
    }
    assert!(clean < 2_000 && moved > 100, "the generator is too tame: {clean} {moved}");
}

/// B002: a late result of a stopped reply is dropped with its calls; the text stays where it is.
#[test]
fn b002_a_stopped_batch_leaves_no_result() {
    let stopped =
        |text| Message::Assistant(assistant(StopReason::Aborted, text, &["tc_a", "tc_b"]));
    let broken = vec![user("do two things"), stopped("on it"), user("hello?"), result("tc_a", "x")];
    let (fixed, report) = check_repair(broken);
    let kept = Message::Assistant(assistant(StopReason::Aborted, "on it", &[]));
    assert_eq!(fixed, [user("do two things"), kept, user("hello?")]);
    assert_eq!(report, Report { dropped: 1, stripped: 2, ..Report::default() });
    // With a whole reply the result goes back to it, before anything that was said since.
    let broken = vec![asks(&["a", "b"]), user("hello?"), result("b", "late"), result("a", "later")];
    let (fixed, report) = check_repair(broken);
    let want = [asks(&["a", "b"]), result("a", "later"), result("b", "late"), user("hello?")];
    assert_eq!(fixed, want);
    assert!(report.moved >= 2 && report.inserted == 0, "{report:?}");
}

/// B003: what is owed is stored when the session is opened, once; what the reader then sees needs
/// no repair.
#[test]
fn b003_an_interrupted_call_is_closed_for_good() {
    let mut first = door();
    let records =
        [record_reply(&["tc_9", "tc_8", "tc_7"]), Record::Launch(vec![0, 2]), outcome(2, "r")];
    let mut history = stored(&apply(&mut first, &records));
    let mut second = Door::resume(ModelName::default(), 2, first.calls().to_vec(), vec![]);
    let writes = second.close_interrupted(Interruption::ProcessStopped, Millis(3)).unwrap();
    history.extend(stored(&writes));
    assert!(paired(&history));
    let (fixed, report) = check_repair(history);
    assert!(report.clean());
    let text = |m: &Message| match m {
        Message::ToolResult(r) => (message::join_text(&r.content), r.is_error, r.details.clone()),
        other => panic!("{other:?}"),
    };
    let unknown = "Outcome unknown: the process stopped while this tool was running. It may have \
                   taken effect. Check before doing it again.";
    let details = json!({"status": "unknown", "reason": "process-stopped"});
    assert_eq!(text(&fixed[1]), (unknown.into(), true, Some(details)));
    let details = json!({"status": "skipped", "deniedReason": "process-stopped"});
    let skipped = "Not started: the process stopped before this tool ran.";
    assert_eq!(text(&fixed[2]), (skipped.into(), true, Some(details)));
    assert_eq!(text(&fixed[3]), ("r".into(), false, None));
    assert!(matches!(writes.last(), Some(Write::End { .. })));
    assert!(second.calls().is_empty(), "a second opening finds nothing open");
}

/// B004: a boundary without a summary hides a broken history, so nothing of it reaches a model.
/// (The command that writes the boundary belongs to a later part.)
#[test]
fn b004_a_reset_hides_an_orphan() {
    let broken = [user("hi"), result("tc_missing", "orphan")];
    let mut branch: Vec<Entry> = broken
        .into_iter()
        .enumerate()
        .map(|(i, m)| entry(i, EntryKind::Message { message: m }))
        .collect();
    let reset = EntryKind::Reset { reason: "new".into(), first_kept_entry_id: None };
    branch.push(entry(2, reset));
    assert_eq!(visible(&branch), []);
    branch.push(entry(3, EntryKind::Message { message: user("again") }));
    assert_eq!(visible(&branch), [user("again")]);
}

fn entry(n: usize, kind: EntryKind) -> Entry {
    let parent = n.checked_sub(1).map(|p| EntryId::new(format!("e{p}")));
    Entry::restore(EntryId::new(format!("e{n}")), parent, Millis(1), kind)
}

/// B005 and B006: wherever a history is cut, the tail is whole after repair: results go with the
/// call they belonged to, and what was dropped is counted. (Choosing the cut belongs to a later
/// part.)
#[test]
fn b005_b006_any_cut_leaves_a_whole_tail() {
    let whole =
        [asks(&["a", "b", "c"]), result("a", "1"), result("b", "2"), result("c", "3"), user("u")];
    let (tail, report) = check_repair(whole[1..].to_vec());
    assert_eq!(tail, [user("u")]);
    assert_eq!(report, Report { dropped: 3, ..Report::default() });
    let mut rng = Rng(3);
    for _ in 0..300 {
        let (fixed, _) = check_repair(history(&bytes(&mut rng)));
        for cut in 0..=fixed.len() {
            let (tail, report) = check_repair(fixed[cut..].to_vec());
            assert_eq!(report.inserted, 0, "no call can lose its result by a cut before it");
            legal(&tail, Compat::default());
        }
    }
}

/// B009 B010 B011: ids are shortened on the wire only, the same way in every request.
#[test]
fn b009_b010_b011_ids_fit_the_backend_and_stay_as_they_are() {
    let head = "call_aaaaaaaaaaaaaaaaaaaaaaaa|fc_".to_owned() + &"b".repeat(60);
    let mcp = "mcp__docs-lookup-x__search_everything_in_the_index_exec-00000000-0000-4000-8000-";
    let ids = [
        head.clone() + "1",
        head + "2",
        format!("{mcp}1"),
        format!("{mcp}2"),
        "tooluse_Ab1xxxxxxxx".into(),
        "tooluse_Ab2yyyyyyyy".into(),
        "abcdefgh9".into(),
    ];
    let mut history = vec![user("go")];
    for id in &ids {
        history.extend([asks(&[id]), result(id, "ok")]);
    }
    let (fixed, report) = check_repair(history.clone());
    assert!(report.clean() && fixed == history, "stored ids stay as they are");
    for style in [IdStyle::Usual, IdStyle::Nine] {
        let compat = Compat { ids: style, ..Compat::default() };
        let sent = legal(&history, compat);
        let shorter = legal(&history[..history.len() - 2], compat);
        assert_eq!(sent[..shorter.len()], shorter, "the same in every request");
        let last = sent[sent.len() - 1]["tool_call_id"].as_str().unwrap();
        assert_eq!(last, "abcdefgh9");
        let nine = |m: &Value| m["tool_call_id"].as_str().is_none_or(|id| id.len() == 9);
        assert!(style == IdStyle::Usual || sent.iter().all(nine));
    }
}

/// B012: equal and empty ids are told apart by position, through door and wire.
#[test]
fn b012_equal_ids_are_matched_by_position() {
    for id in ["dup", ""] {
        let mut door = door();
        let records = [
            record_reply(&[id, id]),
            Record::Launch(vec![0, 1]),
            outcome(1, "second"),
            outcome(0, "first"),
            Record::Result(0),
            Record::Result(1),
        ];
        let history = stored(&apply(&mut door, &records));
        let want = [asks(&[id, id]), result(id, "first"), result(id, "second")];
        assert_eq!(history.len(), 3);
        assert!(check_repair(history.clone()).1.clean());
        let sent = legal(&history, Compat::default());
        assert_eq!(sent, legal(&want, Compat::default()));
        assert_ne!(sent[1]["tool_call_id"], sent[2]["tool_call_id"]);
        assert_eq!((&sent[1]["content"], &sent[2]["content"]), (&json!("first"), &json!("second")));
    }
}

/// B015: a cancelled call has its result, and the next prompt follows it.
#[test]
fn b015_a_cancelled_call_can_be_continued() {
    let mut door = door();
    let prompt =
        Record::Queued { id: MsgId(1), kind: QueueKind::Prompt, body: Arc::new(body("next")) };
    let outcome = Outcome::Unstarted(Unstarted::Aborted);
    let records = [
        record_reply(&["slow"]),
        Record::Outcome { call: 0, outcome, warned: None },
        Record::Result(0),
        Record::Stopped { cause: Cause::User, partial: None },
        Record::Note,
        Record::Ended(Termination::Aborted { cause: Cause::User }),
        prompt,
        Record::Committed(MsgId(1)),
    ];
    let history = stored(&apply(&mut door, &records));
    assert!(paired(&history) && check_repair(history.clone()).1.clean());
    assert_eq!(history.last(), Some(&user("next")));
    legal(&history, Compat::default());
}

/// B016 B018: results leave in order, each once, and only all of them make a batch whole.
#[test]
fn b016_b018_results_leave_in_order_and_once() {
    let mut door = door();
    apply(&mut door, &[record_reply(&["a", "b", "c"]), outcome(1, "allowed"), outcome(0, "auto")]);
    let refusal = |door: &mut Door, call| {
        let before = door.clone();
        let error = door.apply(&Record::Result(call), Millis(2)).unwrap_err();
        assert_eq!(*door, before, "a refusal changes nothing");
        error
    };
    assert_eq!(refusal(&mut door, 1), DoorError::NoSuchCall(1));
    apply(&mut door, &[Record::Result(0)]);
    assert_eq!(refusal(&mut door, 0), DoorError::NoSuchCall(0));
    apply(&mut door, &[Record::Result(1)]);
    assert_eq!(refusal(&mut door, 2), DoorError::NoOutcome(2));
    assert!(!door.calls().is_empty(), "two of three are no batch");
    let denied = Outcome::Unstarted(Unstarted::Blocked { reason: Some("denied".into()) });
    let rest = [Record::Outcome { call: 2, outcome: denied, warned: None }, Record::Result(2)];
    let last = stored(&apply(&mut door, &rest));
    assert!(matches!(&last[0], Message::ToolResult(r) if r.is_error && r.tool_call_id == "c"));
    assert!(door.calls().is_empty());
    assert_eq!(refusal(&mut door, 0), DoorError::NoSuchCall(0));
    assert_eq!(
        door.apply(&Record::Dropped(MsgId(5)), Millis(2)),
        Err(DoorError::NotWaiting(MsgId(5)))
    );
}

/// B056, what exists of it: a record of the store is one JSON value whole on its line, whatever
/// was said. (Writing the config belongs to a later part.)
#[test]
fn b056_what_is_written_is_read_back() {
    let mut door = door();
    let odd = "\"\\\n\r\u{2028}\0\u{1f600}{}";
    let mut writes = door.append(user(odd), Millis(1));
    writes.extend(apply(&mut door, &[record_reply(&[odd]), outcome(0, odd), Record::Result(0)]));
    for write in writes {
        let text = serde_json::to_string(&write).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<Write>(&text).unwrap(), write);
    }
}

/// B079: a reply without text says so as each backend wants it.
#[test]
fn b079_absent_text_is_written_as_the_backend_wants_it() {
    let history = [user("u"), asks(&["t1"]), result("t1", "ok")];
    let sent = |no_text| legal(&history, Compat { no_text, ..Compat::default() }).remove(1);
    assert_eq!(sent(NoText::Null).get("content"), Some(&Value::Null));
    assert_eq!(sent(NoText::Empty).get("content"), Some(&json!("")));
    assert_eq!(sent(NoText::Omitted).get("content"), None);
}

/// T7: real results beat those that were made up, in their own frame and from a later one.
#[test]
fn real_results_are_preferred() {
    for lead in [vec![], vec![asks(&["x"]), result("x", "0")]] {
        let with = |rest: Vec<Message>| [lead.clone(), rest].concat();
        let (fixed, _) = check_repair(with(vec![asks(&["a"]), made_up("a"), result("a", "real")]));
        assert_eq!(fixed, with(vec![asks(&["a"]), result("a", "real")]));
        let late =
            vec![asks(&["a"]), made_up("a"), asks(&["b"]), result("b", "2"), result("a", "1")];
        let (fixed, report) = check_repair(with(late));
        assert_eq!(
            fixed,
            with(vec![asks(&["a"]), result("a", "1"), asks(&["b"]), result("b", "2")])
        );
        assert_eq!((report.moved, report.dropped, report.inserted), (1, 1, 0));
    }
    // Two calls of that id wait: whose result it is cannot be told, so it is nobody's.
    let (fixed, report) =
        check_repair(vec![asks(&["a"]), asks(&["a"]), asks(&["b"]), result("a", "?")]);
    assert_eq!((fixed.len(), report.inserted, report.dropped), (6, 3, 1));
}

/// T8: a reply that does not wait keeps calls only if they were answered all the same.
#[test]
fn calls_that_nobody_answered_are_not_replayed() {
    let said = |stop, calls: &[&str]| Message::Assistant(assistant(stop, "t", calls));
    for stop in [StopReason::Stop, StopReason::Length] {
        let (fixed, _) = check_repair(vec![said(stop, &["a"]), user("u"), result("a", "r")]);
        assert_eq!(fixed, [said(stop, &[]), user("u")]);
        let (fixed, report) = check_repair(vec![said(stop, &["a"]), result("a", "r")]);
        assert_eq!(fixed, [said(StopReason::ToolUse, &["a"]), result("a", "r")]);
        assert_eq!(report, Report { renamed: 1, ..Report::default() });
    }
}

/// T2: whatever comes while calls are open, what they are owed is said first.
#[test]
fn the_live_guard_pays_before_others_speak() {
    let mut door = door();
    apply(&mut door, &[record_reply(&["a", "b"]), outcome(0, "known")]);
    let history = stored(&door.append(user("early"), Millis(3)));
    assert_eq!(history.len(), 3);
    assert!(matches!(&history[0], Message::ToolResult(r) if !r.is_error));
    assert_eq!(history[1], {
        let Message::ToolResult(r) = made_up("b") else { panic!() };
        Message::ToolResult(ToolResult { timestamp: Millis(3), ..r })
    });
    assert_eq!(door.guarded(), 2);
    assert_eq!(door.append(result("a", "late"), Millis(3)), [], "nobody is owed it any more");
}

/// T1: arbitrary records and foreign messages never store an unpaired history.
#[test]
fn no_sequence_stores_an_unpaired_history() {
    let mut guarded = 0;
    for seed in 0..400 {
        let (mut door, mut rng) = (door(), Rng(seed));
        let mut all = Vec::new();
        for n in 0..60u64 {
            let call = u16::try_from(rng.below(4)).unwrap();
            let body = Arc::new(body(&n.to_string()));
            let ids = [["a", "b"], ["c", "c"], ["", "a"]][usize::from(call % 3)];
            let record = match rng.below(13) {
                0 => record_reply(&ids[..usize::from(call.min(2))]),
                1 => Record::Launch(vec![call]),
                2 | 3 => outcome(call, "x"),
                4..=6 => Record::Result(call),
                7 => Record::Queued { id: MsgId(n), kind: QueueKind::Steer, body },
                8 => Record::Committed(MsgId(rng.below(n + 1))),
                9 => Record::Note,
                10 => {
                    let partial = Some(Arc::new(assistant(StopReason::ToolUse, "", &["z"])));
                    Record::Stopped { cause: Cause::User, partial }
                }
                11 => Record::LoopEnd,
                _ => {
                    let stop = [StopReason::ToolUse, StopReason::Length, StopReason::Error];
                    let foreign = match rng.below(3) {
                        0 => result(ids[0], "foreign"),
                        1 => Message::Assistant(assistant(stop[usize::from(call % 3)], "", &ids)),
                        _ => user("foreign"),
                    };
                    all.extend(door.append(foreign, Millis(n)));
                    continue;
                }
            };
            let before = door.clone();
            match door.apply(&record, Millis(n)) {
                Ok(writes) => all.extend(writes),
                Err(_) => assert_eq!(door, before, "{record:?}"),
            }
            guarded += door.guarded();
        }
        all.extend(door.close_interrupted(Interruption::TakenOver, Millis(99)).unwrap());
        let history = stored(&all);
        assert!(paired(&history), "seed {seed}: {history:#?}");
        assert!(check_repair(history).1.clean());
    }
    assert!(guarded > 100, "the live guard was hardly tried: {guarded}");
}

/// T4: ids of entries are never drawn twice.
#[test]
fn entries_have_ids_of_their_own() {
    let mut door = door();
    let mut ids = BTreeSet::new();
    for _ in 0..200 {
        for write in door.append(user("x"), Millis(1)) {
            let Write::Put(entry) = write else { panic!() };
            assert!(ids.insert(entry.id));
        }
    }
}

/// T11: what is no conversation reaches a model as a person's words, or not at all.
#[test]
fn projection_of_what_is_no_conversation() {
    let text = |m: &Message| as_user(m).map(|c| c.to_text());
    let bash = |exclude, code| {
        Message::BashExecution(message::BashExecution {
            command: "make".into(),
            output: "boom".into(),
            exit_code: code,
            cancelled: code.is_none(),
            truncated: code == Some(2),
            exclude_from_context: exclude,
            timestamp: Millis(1),
        })
    };
    assert_eq!(text(&bash(false, Some(0))).unwrap(), "Ran `make`\n```\nboom\n```");
    assert!(text(&bash(false, Some(2))).unwrap().ends_with("exit code 2.\n\nThe output was cut."));
    assert!(text(&bash(false, None)).unwrap().ends_with("The command was cancelled."));
    assert_eq!(text(&bash(true, Some(0))), None);
    let (summary, timestamp) = ("S".to_owned(), Millis(1));
    let branch =
        message::BranchSummary { summary: summary.clone(), from_id: EntryId::new("e"), timestamp };
    let compaction = message::CompactionSummary { summary, tokens_before: 1, timestamp };
    for m in [Message::BranchSummary(branch), Message::CompactionSummary(compaction)] {
        assert!(text(&m).unwrap().ends_with("<summary>\nS\n</summary>"));
        legal(&[m], Compat::default());
    }
    assert_eq!(text(&asks(&["a"])), None);
    assert_eq!(text(&result("a", "x")), None);
}

/// T12: only what stands behind the last boundary, and what it kept, is visible.
#[test]
fn boundaries_hide_what_came_before() {
    let said = |n: usize| entry(n, EntryKind::Message { message: user(&n.to_string()) });
    let compaction = |n, kept: &str| {
        entry(
            n,
            EntryKind::Compaction {
                tokens_after: None,
                summary: "S".into(),
                first_kept_entry_id: EntryId::new(kept),
                tokens_before: 9,
                details: None,
            },
        )
    };
    let texts = |branch: &[Entry]| -> Vec<String> {
        let text = |m: Message| as_user(&m).unwrap().to_text();
        visible(branch)
            .into_iter()
            .map(text)
            .map(|t| if t.len() > 2 { "S".into() } else { t })
            .collect()
    };
    let label = entry(9, EntryKind::Label { target_id: EntryId::new("e0"), label: None });
    let start = [said(0), said(1), label, said(2)];
    assert_eq!(texts(&start), ["0", "1", "2"]);
    let with = |more: Vec<Entry>| [start.to_vec(), more].concat();
    assert_eq!(texts(&with(vec![compaction(3, "e1"), said(4)])), ["S", "1", "2", "4"]);
    assert_eq!(texts(&with(vec![compaction(3, "gone"), said(4)])), ["S", "4"]);
    // A later entry cannot be kept by an earlier boundary.
    assert_eq!(texts(&with(vec![compaction(3, "e4"), said(4)])), ["S", "4"]);
    assert_eq!(
        texts(&with(vec![compaction(3, "e1"), said(4), compaction(5, "e4"), said(6)])),
        ["S", "4", "6"]
    );
    let reset =
        EntryKind::Reset { reason: "new".into(), first_kept_entry_id: Some(EntryId::new("e2")) };
    assert_eq!(texts(&with(vec![entry(3, reset), said(4)])), ["2", "4"]);
    let accepted =
        Record::Accepted { run: RunId::new("r"), entry: RunEntry::Prompt, prompts: vec![] };
    assert_eq!(stored(&apply(&mut door(), &[accepted])), [], "an acceptance says nothing");
}
