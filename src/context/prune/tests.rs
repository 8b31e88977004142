use super::*;
use crate::base::Rng;
use crate::transcript::{Assistant, StopReason, User};
use serde_json::json;

fn user(text: &str) -> Message {
    let content = Content::Text(text.into());
    Message::User(User { content, timestamp: Millis(1), idempotency_key: None })
}

fn calling(n: usize) -> Message {
    let arguments = json!({"n": n}).as_object().unwrap().clone();
    let call = Block::ToolCall { id: format!("c{n}"), name: "read".into(), arguments };
    Message::Assistant(Assistant {
        content: vec![Block::Thinking { thinking: "hm".into() }, call],
        api: "a".into(),
        provider: "p".into(),
        model: "m".into(),
        response_model: None,
        response_id: None,
        usage: None,
        stop_reason: StopReason::ToolUse,
        error_message: None,
        error_code: None,
        timestamp: Millis(2),
    })
}

fn result(n: usize, tool: &str, content: Vec<Block>) -> Message {
    Message::ToolResult(ToolResult {
        tool_call_id: format!("c{n}"),
        tool_name: tool.into(),
        content,
        details: None,
        is_error: false,
        timestamp: Millis(3),
    })
}

fn long(n: usize, chars: usize) -> Message {
    result(n, "read", vec![Block::text("x".repeat(chars))])
}

/// A person's message, then calls with results of these lengths.
fn talk(lengths: &[usize]) -> Vec<Message> {
    let turns = lengths.iter().enumerate().flat_map(|(n, chars)| [calling(n), long(n, *chars)]);
    [user("go")].into_iter().chain(turns).collect()
}

const EXPIRED: Gate = Gate { now: Millis(400_000), touched: Some(Millis(1_000)) };

fn run(messages: &[Message], window: u64) -> Pass {
    decide(messages, &Decisions::default(), &Settings::default(), window, EXPIRED)
}

fn deeds(pass: &Pass) -> Vec<(&str, Deed)> {
    pass.decisions.0.iter().map(|(key, made)| (key.as_str(), made.deed)).collect()
}

const TRIM: Deed = Deed::Trim { keep: 1_500 };

/// PN1: only when the cache has run out; a touch that is not known is no reason.
#[test]
fn the_cache_must_have_run_out() {
    let messages = talk(&[10_000; 6]);
    let none = Decisions::default();
    for (touched, pruned) in [(None, false), (Some(100_001), false), (Some(100_000), true)] {
        let gate = Gate { now: Millis(400_000), touched: touched.map(Millis) };
        let pass = decide(&messages, &none, &Settings::default(), 10_000, gate);
        assert_eq!(pass.pruned, pruned, "{touched:?}");
        assert_eq!(pass.decisions.0.is_empty(), !pruned);
    }
}

/// PN2: nothing before the first user message, nothing from the model's third-last message on.
#[test]
fn both_ends_are_protected() {
    let mut messages = vec![calling(9), long(9, 10_000)];
    messages.extend(talk(&[10_000; 5]));
    assert_eq!(deeds(&run(&messages, 10_000)), [("tool:c0:3", TRIM), ("tool:c1:3", TRIM)]);
    assert!(!run(&talk(&[100_000; 2]), 1_000).pruned, "fewer than three");
    assert!(!run(&[calling(0), long(0, 9_000)], 1_000).pruned, "no user message");
}

/// PN3, PN4: below three tenths of the window nothing; from there long results are trimmed, and
/// those with images.
#[test]
fn long_results_are_trimmed() {
    let mut messages = talk(&[4_000, 4_001, 10, 10, 10]);
    let picture = Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    messages[6] = result(2, "read", vec![Block::text("seen"), picture]);
    // 2 for "go", 7 for each call's arguments, an image as 8,000 characters.
    let chars = 2 + 5 * 7 + 4_000 + 4_001 + 4 + 8_000 + 10 + 10;
    let settings = Settings::default();
    let pass = |window| {
        let more = [calling(7), calling(8), calling(9)];
        let all: Vec<Message> = messages.iter().cloned().chain(more).collect();
        (decide(&all, &Decisions::default(), &settings, window, EXPIRED), all)
    };
    let total = chars + 3 * 7;
    let window = total * 1_000 / (4 * 300);
    assert!(!pass(window + 1).0.pruned);
    let (made, all) = pass(window);
    assert_eq!(deeds(&made), [("tool:c1:3", TRIM), ("tool:c2:3", TRIM)]);
    let got = project(&all, &made.decisions);
    let text = |at: usize| match &*got[at] {
        Message::ToolResult(result) => join(&result.content),
        other => panic!("{other:?}"),
    };
    let ends = "x".repeat(1_500);
    assert_eq!(
        text(4),
        format!(
            "{ends}\n...\n{ends}\n\n[Old tool result shortened: the first 1500 and the last 1500 \
             of 4001 characters are kept]"
        )
    );
    assert_eq!(text(6), "seen\n\n[Images of this old tool result were removed]");
    assert_eq!(text(2).len(), 4_000);
}

fn join(blocks: &[Block]) -> String {
    crate::transcript::message::join_text(blocks)
}

/// PN5: from half of the window on results are cleared, the oldest first, until it is less; not
/// for fewer than 50,000 characters, and not where that is switched off.
#[test]
fn old_results_are_cleared() {
    let messages = talk(&[4_000; 20]);
    let pass = run(&messages, 35_000);
    let cleared = deeds(&pass).iter().filter(|(_, deed)| *deed == Deed::Clear).count();
    // 80,142 characters are to become fewer than 70,000: three results and 3 * 3,967.
    assert_eq!(cleared, 3);
    let oldest = ["tool:c0:3", "tool:c1:3", "tool:c2:3"];
    assert!(oldest.iter().all(|key| pass.decisions.0.contains_key(*key)));
    let few = talk(&[4_000; 14]);
    assert!(!run(&few, 10_000).pruned, "only 11 of them may be touched: 44,000");
    let off = Settings { clear: false, ..Settings::default() };
    assert!(!decide(&messages, &Decisions::default(), &off, 1_000, EXPIRED).pruned);
}

/// PN6: a trimmed result is not trimmed again, but counts and may be cleared later.
#[test]
fn a_trimmed_result_can_be_cleared_later() {
    let messages = talk(&[20_000; 25]);
    let first = run(&messages, 160_000);
    assert!(deeds(&first).iter().all(|(_, deed)| *deed == TRIM), "66,000 and 60,000 are left");
    let again = decide(&messages, &first.decisions, &Settings::default(), 60_000, EXPIRED);
    assert!(again.pruned);
    assert!(again.decisions.0.iter().any(|(_, made)| made.deed == Deed::Clear));
    let mut trimmed = again.decisions.0.iter().filter(|(_, made)| made.deed == TRIM);
    assert!(trimmed.all(|(k, m)| first.decisions.0[k] == *m));
}

/// PN7: names are patterns; what is denied is not touched, whatever allows it.
#[test]
fn tools_can_be_left_out() {
    let settings = |allow: &[&str], deny: &[&str]| Settings {
        allow: allow.iter().map(|p| (*p).to_owned()).collect(),
        deny: deny.iter().map(|p| (*p).to_owned()).collect(),
        ..Settings::default()
    };
    let may = |allow: &[&str], deny: &[&str]| settings(allow, deny).may_touch("web_fetch");
    assert!(
        may(&[], &[]) && may(&["web_*"], &[]) && may(&["*"], &["exec"]) && may(&["w*f*h"], &[])
    );
    assert!(!may(&["read"], &[]) && !may(&["*"], &["*fetch"]) && !may(&["web"], &[]));
    assert!(!may(&["web_fetch*x"], &[]) && !may(&["*fetch_*"], &[]));
}

fn random(rng: &mut Rng) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut n = 0;
    for _ in 0..rng.below(30) {
        match rng.below(4) {
            0 => messages.push(user(&"u".repeat(usize::try_from(rng.below(3_000)).unwrap()))),
            _ => {
                messages.push(calling(n));
                let chars = usize::try_from(rng.below(30_000)).unwrap();
                let piece = ["x", "é", "😀"][usize::try_from(rng.below(3)).unwrap()];
                let mut content = vec![Block::text(piece.repeat(chars / piece.len()))];
                if rng.below(5) == 0 {
                    let data = "AAAA".to_owned();
                    content.push(Block::Image { data, mime_type: "image/png".into() });
                }
                let tool = if rng.below(4) == 0 { "exec" } else { "read" };
                messages.push(result(n, tool, content));
                n += 1;
            }
        }
    }
    messages
}

/// PN2, PN7, PN8: whatever the conversation, nothing protected is touched, no message comes or
/// goes, replayed decisions give the same bytes, also after the conversation went on, and a second
/// pass adds nothing.
#[test]
fn decisions_hold() {
    let mut rng = Rng(9);
    let mut passes = 0;
    for _ in 0..300 {
        let mut messages = random(&mut rng);
        let settings = Settings { deny: vec!["exec".into()], ..Settings::default() };
        let window = 1_000 + rng.below(60_000);
        let pass = decide(&messages, &Decisions::default(), &settings, window, EXPIRED);
        passes += u64::from(pass.pruned);
        let seen = project(&messages, &pass.decisions);
        assert_eq!(seen.len(), messages.len());
        let range = open_range(&messages);
        for (at, (was, is)) in messages.iter().zip(&seen).enumerate() {
            let open = range.is_some_and(|(from, to)| (from..to).contains(&at));
            match (was, &**is) {
                (Message::ToolResult(was), Message::ToolResult(is)) if open => {
                    assert_eq!(
                        (&was.tool_call_id, was.timestamp),
                        (&is.tool_call_id, is.timestamp)
                    );
                    assert!(was.tool_name != "exec" || was == is);
                    let chars = |result: &ToolResult| {
                        result.content.iter().map(|b| block_chars(b, false)).sum::<usize>()
                    };
                    assert!(was == is || chars(is) < chars(was));
                }
                (was, is) => assert_eq!(was, is),
            }
        }
        let again = decide(&messages, &pass.decisions, &settings, window, EXPIRED);
        assert_eq!((again.pruned, &again.decisions), (false, &pass.decisions));
        let text = serde_json::to_string(&pass.decisions).unwrap();
        let stored: Decisions = serde_json::from_str(&text).unwrap();
        let bytes = |messages: &[Message], decisions: &Decisions| {
            serde_json::to_string(&project(messages, decisions)).unwrap()
        };
        let before = bytes(&messages, &pass.decisions);
        messages.extend(random(&mut rng).into_iter().map(|message| match message {
            Message::ToolResult(of) => {
                Message::ToolResult(ToolResult { timestamp: Millis(99), ..of })
            }
            other => other,
        }));
        let after = bytes(&messages, &stored);
        assert!(after.starts_with(before.trim_end_matches(']')), "the beginning is the same");
    }
    assert!(passes > 50, "{passes}");
}

/// PN9: about another content under the same name nothing was decided.
#[test]
fn a_decision_is_about_one_content() {
    let messages = talk(&[10_000; 6]);
    let pass = run(&messages, 10_000);
    let mut other = messages.clone();
    other[2] = result(0, "read", vec![Block::text("y".repeat(10_000))]);
    assert_eq!(*project(&other, &pass.decisions)[2], other[2]);
    let again = decide(&other, &pass.decisions, &Settings::default(), 10_000, EXPIRED);
    assert_eq!(*project(&other, &again.decisions)[2], other[2], "a name is not given twice");
}
