//! Rules Y1 to Y8: requests in, answers out, with nothing behind the gateway.

use super::super::{Do, Facts, Gateway, Ways};
use super::{listed, sight};
use crate::base::limits::{ANSWERS_MAX, REQUESTS_MAX};
use crate::base::{Millis, RunId};
use crate::engine::io::PolicyRule;
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{Arrival, Event, Input, Outcome, Sessions, Target, Waits, Why};
use crate::engine::turns::{Group, Mode};
use crate::engine::{Cause, Termination};
use crate::records::{Found, Query};
use serde_json::{Value, json};
use std::sync::Arc;

const KEY: &str = "agent:main:main";
const DONE: Termination = Termination::Completed { cut: false };

fn plain(text: &str) -> Waits {
    Waits::plain(Group::new("", "", "", ""), text.into())
}

struct Bed(Gateway, Sessions);

impl Bed {
    fn new() -> Bed {
        let facts = Facts { agent: "main".into(), ..Facts::default() };
        let identity = |key: &str, text: &str| format!("{key} {text}").into();
        let mut gateway = Gateway::new(facts, Ways { identity, plain }, Millis(0));
        gateway.join(0, Millis(0));
        Bed(gateway, super::sessions())
    }

    fn frame(&mut self, id: &str, method: &str, params: Value) -> Vec<Do> {
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        self.0.text(0, &frame.to_string(), sight(&self.1));
        self.0.take()
    }

    /// A message for the main conversation: what the sessions are given.
    fn agent(&mut self, id: &str, run: &str) -> Arrival {
        arrival(self.frame(id, "agent", json!({"message": "x", "idempotencyKey": run})))
    }

    fn chat(&mut self, id: &str, run: &str, text: &str) -> Vec<Do> {
        let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": run});
        self.frame(id, "chat.send", params)
    }

    fn wait(&mut self, id: &str, run: &str) -> u64 {
        match given(self.frame(id, "agent.wait", json!({"runId": run, "timeoutMs": 7}))) {
            Input::Wait { waiter, until, .. } => {
                assert_eq!(until, Millis(12));
                waiter
            }
            other => panic!("{other:?}"),
        }
    }

    /// What is sent because of an event.
    fn all(&mut self, event: Event) -> Vec<Value> {
        self.0.clock(Millis(6));
        self.0.of_sessions(&event);
        frames(self.0.take())
    }

    /// The answers to requests among it.
    fn event(&mut self, event: Event) -> Vec<Value> {
        self.all(event).into_iter().filter(|frame| frame["type"] == "res").collect()
    }

    fn accepted(&mut self, run: &str) -> Vec<Value> {
        self.event(Event::Accepted { run: RunId::new(run), key: KEY.into(), at: Millis(5) })
    }

    fn ended(&mut self, run: &str, termination: Termination, into: Option<&str>) -> Vec<Value> {
        let into = into.map(RunId::new);
        self.event(Event::Ended { key: KEY.into(), run: RunId::new(run), termination, into })
    }
}

fn frames(dos: Vec<Do>) -> Vec<Value> {
    let text = |what: Do| match what {
        Do::Send { frame, .. } => Some(serde_json::from_str(&frame.text()).unwrap()),
        _ => None,
    };
    dos.into_iter().filter_map(text).collect()
}

fn given(mut dos: Vec<Do>) -> Input {
    match dos.pop() {
        Some(Do::Give(input)) if dos.is_empty() => input,
        other => panic!("{other:?} after {dos:?}"),
    }
}

fn arrival(dos: Vec<Do>) -> Arrival {
    match given(dos) {
        Input::Arrive(arrival) => *arrival,
        other => panic!("{other:?}"),
    }
}

fn sent(dos: Vec<Do>) -> Value {
    match frames(dos).as_slice() {
        [frame] => frame.clone(),
        other => panic!("{other:?}"),
    }
}

fn ids(frames: &[Value]) -> Vec<&str> {
    frames.iter().map(|frame| frame["id"].as_str().unwrap()).collect()
}

fn outcome(termination: Option<Termination>) -> Outcome {
    let ended_at = termination.as_ref().map(|_| Millis(9));
    let (accepted_at, started_at) = (Millis(1), Some(Millis(2)));
    Outcome { accepted_at, started_at, ended_at, termination, into: None }
}

/// Y1: accepting and finishing are two answers; a repeat meanwhile has one of its own, and the
/// first request goes on waiting.
#[test]
fn a_repeat_in_flight_is_told_so() {
    let mut bed = Bed::new();
    let first = bed.agent("1", "k");
    assert_eq!((&*first.key, first.run.as_str()), (KEY, "k"));
    assert_eq!(bed.0.waiting(), 1);
    let frames = bed.accepted("k");
    assert_eq!(frames[0]["payload"]["status"], "accepted");
    assert_eq!(frames[0]["payload"]["acceptedAt"], 5);
    assert_eq!(bed.agent("2", "k").request, first.request);
    let frames = bed.event(Event::Known(RunId::new("k"), outcome(None)));
    assert_eq!(ids(&frames), ["2"]);
    assert_eq!(frames[0]["payload"], json!({"runId": "k", "status": "in_flight"}));
    let frames = bed.ended("k", DONE, None);
    assert_eq!((ids(&frames), &frames[0]["payload"]["status"]), (vec!["1"], &json!("ok")));
    assert_eq!(bed.0.waiting(), 0);
    bed.chat("3", "c", "x");
    let frames = bed.accepted("c");
    assert_eq!(frames[0]["payload"], json!({"runId": "c", "status": "started"}));
    assert_eq!((bed.0.waiting(), bed.ended("c", DONE, None).len()), (0, 0), "one answer");
}

/// Y1: what is over is told again, in the same words while they are kept, else as the records
/// know it.
#[test]
fn a_repeat_of_what_is_over_is_told_its_end() {
    let mut bed = Bed::new();
    bed.agent("1", "k");
    bed.accepted("k");
    let end = bed.ended("k", DONE, None);
    bed.agent("2", "k");
    let known = |run: &str| Event::Known(RunId::new(run), outcome(Some(DONE)));
    let again = bed.event(known("k"));
    assert_eq!((ids(&again), &again[0]["payload"]), (vec!["2"], &end[0]["payload"]));
    bed.agent("3", "old");
    let old = bed.event(known("old"));
    assert_eq!(old[0]["payload"]["status"], "ok");
    assert_eq!(
        (&old[0]["payload"]["endedAt"], &old[0]["payload"]["result"]),
        (&json!(9), &Value::Null)
    );
}

/// Y1: who asked last is refused; the others of that run are not.
#[test]
fn conflicts_and_refusals_are_for_who_asked_last() {
    let mut bed = Bed::new();
    bed.agent("1", "k");
    bed.chat("2", "k", "something else");
    let frames = bed.event(Event::Conflict(RunId::new("k")));
    assert_eq!(ids(&frames), ["2"]);
    assert_eq!(frames[0]["error"]["code"], "INVALID_REQUEST");
    assert_eq!(frames[0]["error"]["details"]["reason"], "chat-request-conflict");
    let frames = bed.event(Event::Refused(RunId::new("k"), Why::Draining));
    assert_eq!((ids(&frames), &frames[0]["error"]["code"]), (vec!["1"], &json!("UNAVAILABLE")));
    assert_eq!(frames[0]["error"]["retryable"], true);
    assert!(bed.event(Event::Conflict(RunId::new("k"))).is_empty(), "nobody asks any more");
}

/// Y2: what a wait is told.
#[test]
fn waits_are_told_what_is_known() {
    let mut bed = Bed::new();
    let mut waited = |run: &str, outcome: Option<Outcome>, queued: bool| {
        let waiter = bed.wait("w", run);
        let frames = bed.event(Event::Waited { waiter, outcome, queued });
        assert_eq!(ids(&frames), ["w"]);
        assert!(bed.event(Event::Waited { waiter, outcome: None, queued }).is_empty(), "once");
        frames[0].clone()
    };
    let unknown = waited("k", None, false);
    assert_eq!(unknown["error"]["message"], "unknown run: k");
    let running = waited("k", Some(outcome(None)), false);
    assert_eq!(running["payload"], json!({"runId": "k", "status": "timeout"}));
    assert_eq!(waited("k", Some(outcome(None)), true)["payload"]["timeoutPhase"], "queue");
    let late = Termination::Aborted { cause: Cause::Timeout };
    let late = waited("k", Some(outcome(Some(late))), false);
    assert_eq!(
        (&late["payload"]["status"], &late["payload"]["endedAt"]),
        (&json!("timeout"), &json!(9))
    );
    let stopped = Termination::Aborted { cause: Cause::User };
    let mut joined = outcome(Some(stopped));
    joined.into = Some(RunId::new("host"));
    let joined = waited("k", Some(joined), false);
    assert_eq!(
        (&joined["payload"]["status"], &joined["payload"]["error"]),
        (&json!("error"), &json!("aborted"))
    );
    assert_eq!(joined["payload"]["joinedRunId"], "host");
}

/// Y3: a mode of a message is for that message, by any of its names.
#[test]
fn a_message_carries_its_mode() {
    let mut bed = Bed::new();
    let mut mode = |word: &str| {
        let params = json!({
            "sessionKey": "s", "message": "x", "idempotencyKey": word, "queueMode": word,
        });
        bed.frame("1", "chat.send", params)
    };
    assert_eq!(arrival(mode("collect")).wait.inline.mode, Some(Mode::Collect));
    let refused = sent(mode("sideways"));
    assert!(refused["error"]["message"].as_str().unwrap().contains("at /queueMode"), "{refused}");
}

/// Y3: whoever is dropped or joins another run is told, and has no answer of its own.
#[test]
fn dropped_and_joined_runs_are_told() {
    let mut bed = Bed::new();
    for (id, run) in [("1", "a"), ("2", "b")] {
        bed.agent(id, run);
        bed.accepted(run);
    }
    let rule = PolicyRule::QueueCap;
    let dropped = bed.ended("a", Termination::PolicyStop { rule }, None);
    let payload = &dropped[0]["payload"];
    assert_eq!(
        (&payload["status"], &payload["summary"]),
        (&json!("error"), &json!("stopped by a rule"))
    );
    assert_eq!(payload["result"]["payloads"], json!([]));
    let joined = bed.ended("b", DONE, Some("host"));
    assert_eq!(joined[0]["payload"]["joinedRunId"], "host");
    assert_eq!(joined[0]["payload"]["result"]["payloads"], json!([]));
}

/// Y4: commands are done and not sent on; a text behind `/new` is the first message, under the
/// identity of what was sent.
#[test]
fn commands_are_not_messages() {
    let mut bed = Bed::new();
    let steer = arrival(bed.chat("1", "a", "/steer left"));
    assert_eq!((steer.wait.inline.mode, &*steer.wait.line), (Some(Mode::Steer), "left"));
    let dos = bed.chat("2", "b", "/new hello");
    let [Do::Give(Input::Reset(_, ResetReason::New)), Do::Give(Input::Arrive(first))] = &dos[..]
    else {
        panic!("{dos:?}")
    };
    assert_eq!(&*first.request, "agent:main:main /new hello");
    assert_eq!(&*first.wait.line, "hello");
    let dos = bed.chat("3", "c", "stop");
    let key: Arc<str> = KEY.into();
    let [Do::Stop(_, _, of), Do::Give(Input::Abort(target, Cause::User))] = &dos[..] else {
        panic!("{dos:?}")
    };
    assert_eq!((of, target), (&Target::Session(Arc::clone(&key)), &Target::Session(key)));
    let params = json!({
        "sessionKey": "main", "message": "/new", "idempotencyKey": "d",
        "suppressCommandInterpretation": true,
    });
    assert_eq!(&*arrival(bed.frame("4", "chat.send", params)).wait.line, "/new");
    let stays = bed.frame("5", "agent", json!({"message": "/stop", "idempotencyKey": "e"}));
    assert_eq!(
        &*arrival(stays).wait.line,
        "/stop",
        "`agent` knows no commands but /new and /reset"
    );
}

/// Y5: changes of conversations are answered in the order of asking, each kind for itself; a reset
/// that nobody asked for answers nobody.
#[test]
fn changes_are_answered_when_they_are_stored() {
    let mut bed = Bed::new();
    let key: Arc<str> = KEY.into();
    bed.frame("1", "sessions.reset", json!({"key": "main"}));
    let dos = bed.frame("2", "sessions.delete", json!({"key": "main"}));
    let [Do::Ask(ticket, Query::Session(_))] = &dos[..] else { panic!("{dos:?}") };
    bed.0.found(*ticket, Ok(Found::Session(Some(Box::new(listed())))), sight(&bed.1));
    assert_eq!(given(bed.0.take()), Input::Delete(KEY.into()));
    bed.frame("3", "sessions.reset", json!({"key": "main", "reason": "new"}));
    assert_eq!(bed.0.waiting(), 3);
    let idle = Event::Reset(Arc::clone(&key), Ok(ResetReason::Idle));
    let frames = bed.all(idle);
    assert_eq!(frames[0]["payload"]["reason"], "idle");
    assert_eq!(frames[0]["event"], "sessions.changed");
    let deleted = bed.event(Event::Deleted(Arc::clone(&key), Ok(())));
    assert_eq!((ids(&deleted), &deleted[0]["payload"]["deleted"]), (vec!["2"], &json!(true)));
    bed.0.of_sessions(&Event::Reset(Arc::clone(&key), Ok(ResetReason::Reset)));
    let dos = bed.0.take();
    let Some(Do::Ask(ticket, Query::Session(_))) = dos.last() else { panic!("{dos:?}") };
    bed.0.found(*ticket, Ok(Found::Session(Some(Box::new(listed())))), sight(&bed.1));
    let reset = self::frames(bed.0.take());
    assert_eq!((ids(&reset), &reset[0]["payload"]["reason"]), (vec!["1"], &json!("reset")));
    assert_eq!(reset[0]["payload"]["entry"]["sessionId"], "s1");
    let failed = bed.event(Event::Reset(Arc::clone(&key), Err("the disk is full".into())));
    assert_eq!(
        (ids(&failed), &failed[0]["error"]["message"]),
        (vec!["3"], &json!("the disk is full"))
    );
    assert!(bed.event(Event::Set(key, Ok(()))).is_empty());
    assert_eq!(bed.0.waiting(), 0);
}

/// Y6: frames and their parameters are closed; every problem is named.
#[test]
fn parameters_are_closed() {
    let mut bed = Bed::new();
    let params = json!({"message": 1, "timeout": -1, "more": true});
    let refused = sent(bed.frame("1", "agent", params));
    let message = refused["error"]["message"].as_str().unwrap();
    for words in [
        "invalid agent params: ",
        "at /message: must be string",
        "must have required property 'idempotencyKey'",
        "at /timeout: must be >= 0",
        "unexpected property 'more'",
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert_eq!((bed.0.waiting(), &refused["error"]["retryable"]), (0, &Value::Null));
    let blank = sent(bed.frame("", "health", json!({})));
    assert_eq!(
        (&blank["id"], &blank["ok"]),
        (&json!("invalid"), &json!(false)),
        "no name to answer to"
    );
}

/// Y8: no more requests wait than there is room for; one that has its answer makes room.
#[test]
fn waiting_requests_are_bounded() {
    let mut bed = Bed::new();
    let first = bed.wait("first", "k");
    for _ in 1..REQUESTS_MAX {
        bed.wait("w", "k");
    }
    let params = json!({"runId": "k"});
    let refused = sent(bed.frame("more", "agent.wait", params.clone()));
    assert_eq!(refused["error"]["code"], "UNAVAILABLE");
    assert_eq!(refused["error"]["retryable"], true);
    assert_eq!(bed.event(Event::Waited { waiter: first, outcome: None, queued: false }).len(), 1);
    given(bed.frame("more", "agent.wait", params));
}

/// Y1, Y8: words of ended runs are kept for the last ones only; the records know the rest.
#[test]
fn kept_answers_are_bounded() {
    let mut bed = Bed::new();
    for n in 0..=ANSWERS_MAX {
        bed.ended(&n.to_string(), DONE, None);
    }
    let mut told = |run: String| {
        bed.agent("1", &run);
        bed.event(Event::Known(RunId::new(run.as_str()), outcome(Some(DONE))))[0]["payload"].clone()
    };
    assert_eq!(told("0".into())["result"], Value::Null);
    assert_eq!(told("1".into())["result"]["payloads"], json!([]));
    assert_eq!(told(ANSWERS_MAX.to_string())["result"]["payloads"], json!([]));
}

/// Y12: a run that is sent and begins is one change; an end is told at once, after it.
#[test]
fn beginnings_are_told_together() {
    let mut bed = Bed::new();
    let changed = |frames: Vec<Value>| {
        let of = frames.into_iter().filter(|f| f["event"] == "sessions.changed");
        of.map(|f| f["payload"].clone()).collect::<Vec<Value>>()
    };
    let begin = |bed: &mut Bed, run: &str| {
        bed.agent("1", run);
        let accepted = changed(bed.all(Event::Accepted {
            run: RunId::new(run),
            key: KEY.into(),
            at: Millis(5),
        }));
        assert!(accepted.is_empty(), "{accepted:?}");
        let start = crate::engine::Event::AgentStart;
        bed.0.told(&KEY.into(), &RunId::new(run), &start, &[], |_| false);
        assert!(changed(frames(bed.0.take())).is_empty());
    };
    begin(&mut bed, "r1");
    assert_eq!(bed.0.due(), Some(Millis(106)));
    bed.0.tick(Millis(105));
    assert!(changed(frames(bed.0.take())).is_empty());
    bed.0.tick(Millis(106));
    let told = changed(frames(bed.0.take()));
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["phase"], &told[0]["runId"]), (&json!("start"), &json!("r1")));
    let ended =
        Event::Ended { key: KEY.into(), run: RunId::new("r1"), termination: DONE, into: None };
    assert_eq!(changed(bed.all(ended))[0]["phase"], "end");
    begin(&mut bed, "r2");
    let reset = Event::Reset(KEY.into(), Ok(ResetReason::Idle));
    let told = changed(bed.all(reset));
    assert_eq!((&told[0]["phase"], &told[1]["reason"]), (&json!("start"), &json!("idle")));
    bed.accepted("r3");
    bed.0.shutdown("x");
    assert_eq!(changed(frames(bed.0.take()))[0]["reason"], "send", "nothing is lost");
}
