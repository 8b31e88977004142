//! The audit ledger: rows from what runs and tools do, and its pages for clients (`spec/audit.md`).
//! A fact has no place for what was said, so that no row can have it.

use super::frame::Fault;
use crate::base::Millis;
use crate::base::id::hex;
use ring::digest::{Context, SHA256, digest};
use serde_json::{Map, Value, json};

/// Longest name of a tool that is kept.
const TOOL_CHARS_MAX: usize = 64;
/// Rows of a page unless a limit says otherwise.
const PAGE: u64 = 100;
/// Most rows of a page.
const PAGE_MAX: u64 = 500;

/// What a fact is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The agent.
    pub agent: String,
    /// The conversation's key.
    pub key: Option<String>,
    /// The session's id.
    pub session: Option<String>,
    /// The run.
    pub run: String,
    /// Which time the run is at it: a run that is taken up after a restart is one more.
    pub generation: u64,
}

/// How something ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// As it should.
    Succeeded,
    /// By an error.
    Failed,
    /// Somebody stopped it.
    Cancelled,
    /// Its time was over.
    TimedOut,
    /// A rule did not let it.
    Blocked,
    /// Nobody knows: the process stopped. For tools alone; of a run it counts as failed.
    Unknown,
}

impl Ending {
    /// A tool's, from what its result says; `ended` is how its run ended it, if that did.
    #[must_use]
    pub fn of_tool(started: bool, is_error: bool, ended: Option<Ending>) -> Ending {
        match (started, ended) {
            (false, Some(Ending::Cancelled | Ending::TimedOut)) => Ending::Cancelled,
            (false, _) => Ending::Blocked,
            (true, Some(ending)) => ending,
            (true, None) if is_error => Ending::Failed,
            (true, None) => Ending::Succeeded,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Ending::Succeeded => "succeeded",
            Ending::Failed => "failed",
            Ending::Cancelled => "cancelled",
            Ending::TimedOut => "timed_out",
            Ending::Blocked => "blocked",
            Ending::Unknown => "unknown",
        }
    }

    fn code(self, tool: bool) -> Option<&'static str> {
        Some(match (tool, self) {
            (_, Ending::Succeeded) => return None,
            (true, Ending::Failed) => "tool_failed",
            (true, Ending::Cancelled) => "tool_cancelled",
            (true, Ending::TimedOut) => "tool_timed_out",
            (true, Ending::Blocked) => "tool_blocked",
            (true, Ending::Unknown) => "tool_outcome_unknown",
            (false, Ending::Failed | Ending::Unknown) => "run_failed",
            (false, Ending::Cancelled) => "run_cancelled",
            (false, Ending::TimedOut) => "run_timed_out",
            (false, Ending::Blocked) => "run_blocked",
        })
    }
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What<'a> {
    /// A run became its session's writer.
    RunStarted,
    /// It ended.
    RunEnded(Ending),
    /// A tool was started.
    ToolStarted {
        /// The call's id as the model gave it.
        call: &'a str,
        /// The tool's name as the model gave it.
        name: &'a str,
    },
    /// It ended, or was not started.
    ToolEnded {
        /// The call's id.
        call: &'a str,
        /// The tool's name.
        name: &'a str,
        /// How ([`Ending::of_tool`]).
        ending: Ending,
    },
}

/// A row. What only messages have is empty in all rows that we write; the columns are there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Its place in the ledger, from 1; 0 before it has one.
    pub sequence: u64,
    /// Its id.
    pub event_id: String,
    /// Its source's: unique.
    pub source_id: String,
    /// The fact's place in its run, from 1.
    pub source_sequence: u64,
    /// When it happened.
    pub occurred_at: Millis,
    /// `agent_run` or `tool_action`.
    pub kind: String,
    /// As `agent.run.started`.
    pub action: String,
    /// As `succeeded`.
    pub status: String,
    /// As `run_failed`.
    pub error_code: Option<String>,
    /// The agent.
    pub agent_id: String,
    /// The conversation.
    pub session_key: Option<String>,
    /// Its session.
    pub session_id: Option<String>,
    /// The run.
    pub run_id: String,
    /// The call's digest.
    pub tool_call_id: Option<String>,
    /// The tool's name, or `unknown`.
    pub tool_name: Option<String>,
}

/// The row of a fact. `place` counts the facts of a run, from 1; the same fact has the same.
#[must_use]
pub fn row(of: &Subject, what: What<'_>, place: u64, at: Millis) -> Row {
    let (action, ending, tool) = match what {
        What::RunStarted => ("agent.run.started", None, None),
        What::RunEnded(Ending::Unknown) => ("agent.run.finished", Some(Ending::Failed), None),
        What::RunEnded(ending) => ("agent.run.finished", Some(ending), None),
        What::ToolStarted { call, name } => ("tool.action.started", None, Some((call, name))),
        What::ToolEnded { call, name, ending } => {
            ("tool.action.finished", Some(ending), Some((call, name)))
        }
    };
    let mut source = Context::new(&SHA256);
    for part in [&of.run, &of.generation.to_string(), &place.to_string(), action] {
        source.update(part.as_bytes());
        source.update(&[0]);
    }
    let source_id = hex(source.finish().as_ref());
    Row {
        sequence: 0,
        event_id: format!("audit-{}", &source_id[..32]),
        source_id,
        source_sequence: place.max(1),
        occurred_at: at,
        kind: if tool.is_some() { "tool_action" } else { "agent_run" }.to_owned(),
        action: action.to_owned(),
        status: ending.map_or("started", Ending::word).to_owned(),
        error_code: ending.and_then(|e| e.code(tool.is_some())).map(str::to_owned),
        agent_id: of.agent.clone(),
        session_key: of.key.clone(),
        session_id: of.session.clone(),
        run_id: of.run.clone(),
        tool_call_id: tool
            .map(|(call, _)| format!("sha256:{}", hex(digest(&SHA256, call.as_bytes()).as_ref()))),
        tool_name: tool.map(|(_, name)| tool_name(name)),
    }
}

/// A name that looks like a tool's (U3).
fn tool_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let fine = name.len() <= TOOL_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(plain);
    if fine { name } else { "unknown" }.to_owned()
}

/// A `logging.audit.messages` that is not supported.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("logging.audit.messages: {0:?} is not supported: messages are not recorded, use \"off\"")]
pub struct MessagesError(String);

/// Checks `logging.audit.messages`.
///
/// # Errors
/// Everything but `off` (U5).
pub fn messages(word: &str) -> Result<(), MessagesError> {
    if word == "off" { Ok(()) } else { Err(MessagesError(word.chars().take(40).collect())) }
}

/// Which rows are asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// Columns and the values that they must have.
    pub equal: Vec<(&'static str, String)>,
    /// From this time on.
    pub after: Option<Millis>,
    /// Up to this time.
    pub before: Option<Millis>,
    /// Only rows before this place.
    pub cursor: Option<u64>,
    /// Most rows, 1 to 500.
    pub limit: u64,
}

/// Parameters that filter, and their columns; the last two are those of `audit.activity.list`.
const FILTERS: [(&str, &str); 7] = [
    ("agentId", "agent_id"),
    ("sessionKey", "session_key"),
    ("runId", "run_id"),
    ("kind", "kind"),
    ("status", "status"),
    ("direction", "direction"),
    ("channel", "channel"),
];

impl Query {
    /// The query of `audit.list` or `audit.activity.list` (U6), whose parameters fit its schema.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a cursor that is none, or a limit out of its bounds.
    pub fn read(params: &Map<String, Value>) -> Result<Query, Fault> {
        let number = |name: &str| params.get(name).and_then(Value::as_u64);
        let cursor = match params.get("cursor") {
            None => None,
            Some(cursor) => {
                let place = cursor.as_str().and_then(|text| text.parse::<u64>().ok());
                let place = place.filter(|place| *place >= 1);
                Some(place.ok_or_else(|| Fault::invalid("at /cursor: not one of this ledger's"))?)
            }
        };
        let limit = if params.contains_key("limit") { number("limit") } else { Some(PAGE) };
        let limit = limit.filter(|limit| (1..=PAGE_MAX).contains(limit));
        let words = || format!("at /limit: must be integer, from 1 to {PAGE_MAX}");
        let equal = FILTERS
            .iter()
            .filter_map(|(name, column)| Some((*column, params.get(*name)?.as_str()?.to_owned())));
        Ok(Query {
            equal: equal.collect(),
            after: number("after").map(Millis),
            before: number("before").map(Millis),
            cursor,
            limit: limit.ok_or_else(|| Fault::invalid(words()))?,
        })
    }
}

/// A page of the ledger, the newest row first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The rows.
    pub rows: Vec<Row>,
    /// Where the next page begins, if there is one.
    pub next: Option<u64>,
}

impl Page {
    /// The answer to `audit.list`, or with `activity` to `audit.activity.list`.
    #[must_use]
    pub fn answer(&self, activity: bool) -> Value {
        let events: Vec<Value> = self.rows.iter().map(|row| shown(row, activity)).collect();
        let mut answer = json!({ "events": events });
        if let Some(next) = self.next {
            answer["nextCursor"] = next.to_string().into();
        }
        answer
    }
}

fn shown(row: &Row, activity: bool) -> Value {
    let mut shown = json!({
        "eventId": row.event_id, "sequence": row.sequence, "sourceSequence": row.source_sequence,
        "occurredAt": row.occurred_at, "kind": row.kind, "action": row.action,
        "status": row.status, "actor": {"type": "agent", "id": row.agent_id},
        "agentId": row.agent_id, "runId": row.run_id, "redaction": "metadata_only",
    });
    let texts = [
        ("errorCode", &row.error_code),
        ("sessionKey", &row.session_key),
        ("sessionId", &row.session_id),
        ("toolCallId", &row.tool_call_id),
        ("toolName", &row.tool_name),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            shown[name] = text.as_str().into();
        }
    }
    if activity {
        shown["eventType"] = row.kind.as_str().into();
        shown["schemaVersion"] = 1.into();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Rng;

    fn subject() -> Subject {
        Subject {
            agent: "main".into(),
            key: Some("agent:main:main".into()),
            session: Some("s1".into()),
            run: "r1".into(),
            generation: 1,
        }
    }

    const ENDINGS: [Ending; 6] = [
        Ending::Succeeded,
        Ending::Failed,
        Ending::Cancelled,
        Ending::TimedOut,
        Ending::Blocked,
        Ending::Unknown,
    ];

    /// U2: each end has its word and the code of its kind.
    #[test]
    fn ends_have_words_and_codes() {
        let words = ["succeeded", "failed", "cancelled", "timed_out", "blocked"];
        for (ending, word) in ENDINGS.into_iter().zip(words) {
            let run = row(&subject(), What::RunEnded(ending), 2, Millis(5));
            let tool = What::ToolEnded { call: "c", name: "read", ending };
            let tool = row(&subject(), tool, 2, Millis(5));
            assert_eq!((run.status.as_str(), tool.status.as_str()), (word, word));
            let code = |kind: &str| (word != "succeeded").then(|| format!("{kind}_{word}"));
            assert_eq!((run.error_code, tool.error_code), (code("run"), code("tool")));
            assert_eq!(run.action, "agent.run.finished");
            assert_eq!(
                (tool.action.as_str(), tool.kind.as_str()),
                ("tool.action.finished", "tool_action")
            );
        }
        let run = row(&subject(), What::RunEnded(Ending::Unknown), 2, Millis(5));
        assert_eq!(
            (run.status.as_str(), run.error_code.as_deref()),
            ("failed", Some("run_failed"))
        );
        let ending = Ending::Unknown;
        let tool = What::ToolEnded { call: "c", name: "read", ending };
        assert_eq!(
            row(&subject(), tool, 1, Millis(5)).error_code.as_deref(),
            Some("tool_outcome_unknown")
        );
        let started = row(&subject(), What::RunStarted, 1, Millis(5));
        assert_eq!((started.status.as_str(), started.error_code), ("started", None));
        let of = Ending::of_tool;
        assert_eq!(of(true, false, None), Ending::Succeeded);
        assert_eq!(of(true, true, None), Ending::Failed);
        assert_eq!(of(true, true, Some(Ending::Unknown)), Ending::Unknown);
        assert_eq!(of(false, true, None), Ending::Blocked);
        assert_eq!(of(false, true, Some(Ending::Cancelled)), Ending::Cancelled);
        assert_eq!(of(false, true, Some(Ending::Unknown)), Ending::Blocked);
    }

    /// U3: what is no name is none, and a call's id is a digest.
    #[test]
    fn names_and_ids_are_closed() {
        let of = |name: &str| {
            let what = What::ToolStarted { call: "toolu_1", name };
            row(&subject(), what, 1, Millis(5))
        };
        for name in ["read", "web_fetch", "git__log", "a.b:c-d"] {
            assert_eq!(of(name).tool_name.as_deref(), Some(name));
        }
        let long = "x".repeat(65);
        for name in ["", "rm -rf /", "1a", "_a", "a\"", "http://x", "\u{e4}b", long.as_str()] {
            assert_eq!(of(name).tool_name.as_deref(), Some("unknown"), "{name}");
        }
        let id = of("read").tool_call_id.unwrap();
        assert!(id.starts_with("sha256:") && id.len() == 71 && !id.contains("toolu"), "{id}");
    }

    /// U4: the same fact has the same source, another one has another.
    #[test]
    fn sources_are_those_of_their_facts() {
        let fact = |of: &Subject, place: u64| row(of, What::RunStarted, place, Millis(5)).source_id;
        let first = fact(&subject(), 1);
        assert_eq!(first, row(&subject(), What::RunStarted, 1, Millis(9)).source_id);
        let others = [
            fact(&subject(), 2),
            fact(&Subject { generation: 2, ..subject() }, 1),
            fact(&Subject { run: "r2".into(), ..subject() }, 1),
            row(&subject(), What::RunEnded(Ending::Failed), 1, Millis(5)).source_id,
        ];
        assert!(!others.contains(&first));
    }

    /// U1: whatever a model puts into ids and names, nothing of it is in a row.
    #[test]
    fn secrets_never_appear() {
        let (mut rng, canary) = (Rng(9), "sk-canary-4711");
        let wraps: [fn(&str) -> String; 5] = [
            |c| format!("{c} "),
            |c| format!("x {c}"),
            |c| format!("read\n{c}"),
            |c| format!("\"{c}\""),
            |c| format!("{}{c}", "y".repeat(64)),
        ];
        for place in 1..2_000 {
            let name = wraps[rng.below(5) as usize](canary);
            let call = wraps[rng.below(5) as usize](canary);
            let ending = ENDINGS[rng.below(6) as usize];
            let what = match rng.below(4) {
                0 => What::RunStarted,
                1 => What::RunEnded(ending),
                2 => What::ToolStarted { call: &call, name: &name },
                _ => What::ToolEnded { call: &call, name: &name, ending },
            };
            let row = row(&subject(), what, place, Millis(place));
            let page = Page { rows: vec![row.clone()], next: None };
            let all = format!("{row:?} {} {}", page.answer(true), page.answer(false));
            assert!(!all.contains("canary"), "{all}");
        }
    }

    /// U5: messages are not recorded.
    #[test]
    fn messages_are_off() {
        assert_eq!(messages("off"), Ok(()));
        for word in ["direct", "all", "OFF"] {
            let error = messages(word).unwrap_err().to_string();
            assert!(error.contains("logging.audit.messages") && error.contains(word), "{error}");
        }
    }

    /// U6: parameters, and the two shapes of an answer.
    #[test]
    fn pages_are_asked_for_and_shown() {
        let read = |params: Value| Query::read(params.as_object().unwrap());
        let plain = read(json!({})).unwrap();
        assert_eq!(plain, Query { limit: 100, ..Query::default() });
        let all = read(json!({"agentId": "main", "status": "failed", "after": 3, "before": 9,
            "cursor": "17", "limit": 500, "channel": "c", "direction": "inbound"}));
        let all = all.unwrap();
        let wanted = [
            ("agent_id", "main"),
            ("status", "failed"),
            ("direction", "inbound"),
            ("channel", "c"),
        ];
        assert_eq!(all.equal, wanted.map(|(column, value)| (column, value.to_owned())));
        assert_eq!(
            (all.after, all.before, all.cursor),
            (Some(Millis(3)), Some(Millis(9)), Some(17))
        );
        for bad in [json!({"cursor": "x"}), json!({"cursor": "0"}), json!({"cursor": "-1"})] {
            assert!(read(bad).unwrap_err().message.starts_with("at /cursor"));
        }
        for bad in [json!({"limit": 0}), json!({"limit": 501}), json!({"limit": "5"})] {
            assert!(read(bad).unwrap_err().message.starts_with("at /limit"));
        }
        let what = What::ToolEnded { call: "c", name: "read", ending: Ending::Failed };
        let row = Row { sequence: 4, ..row(&subject(), what, 2, Millis(5)) };
        let page = Page { rows: vec![row.clone()], next: Some(4) };
        let want = json!({"events": [{
            "eventId": row.event_id, "sequence": 4, "sourceSequence": 2, "occurredAt": 5,
            "kind": "tool_action", "action": "tool.action.finished", "status": "failed",
            "errorCode": "tool_failed", "actor": {"type": "agent", "id": "main"},
            "agentId": "main", "sessionKey": "agent:main:main", "sessionId": "s1", "runId": "r1",
            "toolCallId": row.tool_call_id, "toolName": "read", "redaction": "metadata_only",
        }], "nextCursor": "4"});
        assert_eq!(page.answer(false), want);
        let shown = page.answer(true)["events"][0].clone();
        assert_eq!(
            (&shown["eventType"], &shown["schemaVersion"]),
            (&json!("tool_action"), &json!(1))
        );
        assert_eq!(Page::default().answer(true), json!({"events": []}));
    }
}
