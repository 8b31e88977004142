//! Rules A5 to A9 on whole turns.

use super::*;

const HOME: Target<'_> = Target { channel: "chat", account: None, to: "42", thread: None };
const AWAY: Target<'_> = Target { channel: "chat", account: None, to: "43", thread: None };
const EXEC: FailedTool<'_> = FailedTool {
    name: "exec",
    started: true,
    timeout_s: None,
    detail: Some("exit 1:\nno such file"),
};

fn facts(text: &str) -> Facts<'_> {
    Facts::new(HOME, text, StopReason::Stop)
}

fn shaped(facts: &Facts<'_>) -> Vec<(Kind, String)> {
    shape(facts).into_iter().map(|payload| (payload.kind, payload.text)).collect()
}

fn one(kind: Kind, text: &str) -> Vec<(Kind, String)> {
    vec![(kind, text.to_owned())]
}

/// A6: everything at once, in the order of delivery.
#[test]
fn payloads_have_an_order() {
    let replies = [Piece { text: "from the tool", media: &[] }];
    let segments = [Piece { text: "first", media: &[] }, Piece { text: "second", media: &[] }];
    let all = Facts {
        reasoning: Some(" because "),
        source_replies: &replies,
        segments: &segments,
        failed_tool: Some(EXEC),
        ..facts("third")
    };
    let texts: Vec<String> = shape(&all).into_iter().map(|p| p.text).collect();
    assert_eq!(texts, ["from the tool", "first", "second", "because", "third"]);
    let failed = Facts { stop: StopReason::Error, error: Some("it broke"), ..all };
    let texts: Vec<String> = shape(&failed).into_iter().map(|p| p.text).collect();
    assert_eq!(texts, ["from the tool", "first", "second", "it broke"]);
    let nothing = Facts { reasoning: Some("hm"), failed_tool: Some(EXEC), ..facts("") };
    let want =
        [(Kind::Reasoning, "hm".to_owned()), (Kind::ToolWarning, "⚠️ exec failed".to_owned())];
    assert_eq!(shaped(&nothing), want);
    let nothing = Facts { reasoning: Some("hm"), ..facts(" ") };
    let want = [(Kind::Error, NO_ANSWER.to_owned()), (Kind::Reasoning, "hm".to_owned())];
    assert_eq!(shaped(&nothing), want);
}

/// A1, A6: deliberate silence delivers nothing, whatever else there is to tell; media are no words.
#[test]
fn silence_is_kept() {
    let silent = Facts {
        reasoning: Some("hm"),
        failed_tool: Some(EXEC),
        mutating: true,
        ..facts("NO_REPLY.")
    };
    assert_eq!(shaped(&silent), []);
    let answer = Piece { text: "NO_REPLY", media: &["https://x/voice.ogg"] };
    let spoken = shape(&Facts { answer, ..silent });
    assert_eq!(spoken.len(), 1);
    assert_eq!((spoken[0].kind, spoken[0].text.as_str()), (Kind::Answer, ""));
    assert_eq!(spoken[0].media, ["https://x/voice.ogg"]);
    assert_eq!(shaped(&facts("NO_REPLYBut look")), one(Kind::Answer, "But look"));
    let note = "HEARTBEAT_OK all is well";
    assert_eq!(shaped(&Facts { heartbeat: true, ..facts(note) }), []);
    assert_eq!(shaped(&facts(note)), one(Kind::Answer, "all is well"));
}

/// A9: an empty turn is silence where silence is allowed, if nothing went wrong.
#[test]
fn an_empty_turn_may_be_silence() {
    let group = Facts { silent_allowed: true, ..facts("  ") };
    assert_eq!(shaped(&group), []);
    assert_eq!(shaped(&Facts { reasoning: Some("hm"), ..group }), []);
    let failed = Facts { failed_tool: Some(EXEC), ..group };
    assert_eq!(shaped(&failed), one(Kind::ToolWarning, "⚠️ exec failed"));
    let cut = Facts { stop: StopReason::Length, ..group };
    assert_eq!(shaped(&cut), one(Kind::Error, NO_ANSWER));
    assert_eq!(shaped(&Facts { stalled: true, ..group }), one(Kind::Error, STALLED));
}

/// A5: what a messaging tool has said here is not said again; elsewhere does not count.
#[test]
fn duplicates_are_dropped() {
    let text = "The build is green 🎉";
    let media = ["https://x/1.png", "https://x/2.png"];
    let answer = Piece { text: "the build is GREEN", media: &media };
    let here = [Sent { target: HOME, text, media: &["https://x/1.png"] }];
    let left = shape(&Facts { answer, sends: &here, ..facts("") });
    assert_eq!(left.len(), 1);
    assert_eq!(
        (left[0].text.as_str(), &left[0].media[..]),
        ("", &["https://x/2.png".to_owned()][..])
    );
    let there = [Sent { target: AWAY, ..here[0] }];
    let whole = shape(&Facts { answer, sends: &there, ..facts("") });
    assert_eq!((whole[0].text.as_str(), whole[0].media.len()), ("the build is GREEN", 2));
    let replies = [Piece { text, media: &[] }];
    let replied = Facts { source_replies: &replies, ..facts("The build is green") };
    assert_eq!(shaped(&replied), one(Kind::SourceReply, text));
    assert_eq!(shaped(&Facts { sends: &here, ..facts("The build is green") }), []);
}

/// A6: the last segment is not repeated as the answer.
#[test]
fn the_last_segment_is_not_repeated() {
    let segments = [Piece { text: "Yes.", media: &[] }];
    let same = Facts { segments: &segments, ..facts("yes.") };
    assert_eq!(shaped(&same), one(Kind::Segment, "Yes."));
    let other = Facts { segments: &segments, ..facts("No.") };
    assert_eq!(shape(&other).len(), 2);
}

/// A7: a failed or stopped run's text is not delivered; its error is.
#[test]
fn errors_take_the_place_of_text() {
    let failed = Facts { stop: StopReason::Error, reasoning: Some("hm"), ..facts("half an ans") };
    assert_eq!(shaped(&failed), one(Kind::Error, FAILED));
    assert_eq!(shaped(&Facts { error: Some("no key"), ..failed }), one(Kind::Error, "no key"));
    let silent = Facts { error: Some("no key"), ..Facts { ..failed } };
    let silent = Facts { answer: Piece { text: "NO_REPLY", media: &[] }, ..silent };
    assert_eq!(shaped(&silent), one(Kind::Error, "no key"), "a failure is not silence");
    let stopped = Facts { stop: StopReason::Aborted, failed_tool: Some(EXEC), ..facts("half") };
    assert_eq!(shaped(&stopped), [], "whoever stopped it knows");
    let late = Facts { error: Some("out of time"), ..stopped };
    assert_eq!(shaped(&late), one(Kind::Error, "out of time"));
}

/// A8: the last failure of a tool is told only if nothing else is.
#[test]
fn a_tools_failure_is_told_last() {
    let failed = Facts { failed_tool: Some(EXEC), mutating: true, ..facts("") };
    assert_eq!(shaped(&failed), one(Kind::ToolWarning, "⚠️ exec failed"));
    let answered = Facts { answer: Piece { text: "It did not work.", media: &[] }, ..failed };
    assert_eq!(shaped(&answered), one(Kind::Answer, "It did not work."));
    let here = [Sent { target: HOME, text: "It did not work.", media: &[] }];
    assert_eq!(shaped(&Facts { sends: &here, ..failed }), []);
    let there = [Sent { target: AWAY, ..here[0] }];
    let told = Facts { sends: &there, ..failed };
    assert_eq!(shaped(&told), one(Kind::ToolWarning, "⚠️ exec failed"), "nobody told it here");
}

/// A8: what the warning says.
#[test]
fn warnings_say_what_is_needed() {
    for verbosity in [Verbosity::Off, Verbosity::On] {
        assert_eq!(EXEC.warning(verbosity), "⚠️ exec failed");
    }
    assert_eq!(EXEC.warning(Verbosity::Full), "⚠️ exec failed: exit 1: no such file");
    let slow = FailedTool { timeout_s: Some(30), detail: None, ..EXEC };
    assert_eq!(slow.warning(Verbosity::Off), "⚠️ exec failed (timed out after 30 s)");
    let blocked = FailedTool { started: false, detail: None, ..EXEC };
    assert_eq!(blocked.warning(Verbosity::Full), "⚠️ exec blocked");
    let long = "x".repeat(10_000);
    let huge = FailedTool { name: &long, detail: Some(&long), ..EXEC };
    assert!(huge.warning(Verbosity::Full).chars().count() < 500);
    assert_eq!(FailedTool { name: "\n", ..blocked }.warning(Verbosity::Off), "⚠️ tool blocked");
}

/// A9: a turn without anything says so, and warns of effects; a turn that sent something need not.
#[test]
fn nothing_at_all_is_said() {
    assert_eq!(shaped(&facts("")), one(Kind::Error, NO_ANSWER));
    let effects = Facts { mutating: true, stop: StopReason::ToolUse, ..facts("") };
    assert_eq!(shaped(&effects), one(Kind::Error, NO_ANSWER_BUT_EFFECTS));
    let sends = [Sent { target: AWAY, text: "hello there", media: &[] }];
    assert_eq!(shaped(&Facts { sends: &sends, ..effects }), []);
    let stalled = Facts { stalled: true, failed_tool: Some(EXEC), ..effects };
    assert_eq!(shaped(&stalled), one(Kind::Error, STALLED));
}

/// A7: a cut answer says that it is cut.
#[test]
fn a_cut_answer_says_so() {
    let cut = Facts { stop: StopReason::Length, ..facts("Once upon a") };
    assert_eq!(shaped(&cut), one(Kind::Answer, &format!("Once upon a\n\n{CUT}")));
    assert_eq!(
        shaped(&Facts { stop: StopReason::Length, ..facts("") }),
        one(Kind::Error, NO_ANSWER)
    );
}
