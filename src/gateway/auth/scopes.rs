//! What an operator may do: ten scopes, what covers what, and what each method and event needs.

use super::table;
use crate::base::SessionKey;
use crate::gateway::frame::Fault;
use serde_json::{Map, Value, json};
use std::fmt;

/// One permission of an operator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// Everything.
    Admin,
    /// To look at everything that is no secret.
    Read,
    /// To work with agents.
    Write,
    /// To look at sessions.
    SessionsRead,
    /// To work with sessions.
    SessionsWrite,
    /// To decide on approvals.
    Approvals,
    /// To answer questions.
    Questions,
    /// To pair and remove devices.
    Pairing,
    /// To talk.
    Talk,
    /// To see the keys of talking.
    TalkSecrets,
}

const ALL: [(Scope, &str); 10] = [
    (Scope::Admin, "operator.admin"),
    (Scope::Read, "operator.read"),
    (Scope::Write, "operator.write"),
    (Scope::SessionsRead, "operator.sessions.read"),
    (Scope::SessionsWrite, "operator.sessions.write"),
    (Scope::Approvals, "operator.approvals"),
    (Scope::Questions, "operator.questions"),
    (Scope::Pairing, "operator.pairing"),
    (Scope::Talk, "operator.talk"),
    (Scope::TalkSecrets, "operator.talk.secrets"),
];

impl Scope {
    /// The scope of a name, as `operator.read`.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Scope> {
        ALL.iter().find(|(_, name)| *name == word).map(|(scope, _)| *scope)
    }

    /// Its name.
    #[must_use]
    pub fn word(self) -> &'static str {
        ALL[self as usize].1
    }

    fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

/// A set of scopes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u16);

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.words()).finish()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Scopes {
        Scopes(scopes.into_iter().fold(0, |all, scope| all | scope.bit()))
    }
}

impl Scopes {
    /// The scopes of a list of names; what is no scope is left out.
    #[must_use]
    pub fn from_words<'w>(words: impl IntoIterator<Item = &'w str>) -> Scopes {
        words.into_iter().filter_map(|word| Scope::from_word(word.trim())).collect()
    }

    /// The scopes of a JSON list of names; what is no scope is left out.
    #[must_use]
    pub fn from_json(list: &Value) -> Scopes {
        Scopes::from_words(list.as_array().into_iter().flatten().filter_map(Value::as_str))
    }

    /// The names, in a fixed order.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        let in_it = |(scope, _): &&(Scope, &str)| self.0 & scope.bit() != 0;
        ALL.iter().filter(in_it).map(|(_, name)| *name).collect()
    }

    /// There is none in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes of both.
    #[must_use]
    pub fn and(self, other: Scopes) -> Scopes {
        Scopes(self.0 | other.0)
    }

    /// Whether these give a scope, themselves or by what covers it (H26).
    #[must_use]
    pub fn covers(self, scope: Scope) -> bool {
        let by: &[Scope] = match scope {
            Scope::Read | Scope::Talk | Scope::SessionsWrite => &[Scope::Write],
            Scope::SessionsRead => &[Scope::Read, Scope::Write, Scope::SessionsWrite],
            _ => &[],
        };
        let by = by.iter().fold(scope.bit() | Scope::Admin.bit(), |all, s| all | s.bit());
        self.0 & by != 0
    }

    /// Whether these give every scope of another set.
    #[must_use]
    pub fn cover(self, others: Scopes) -> bool {
        let mut all = ALL.iter().filter(|(scope, _)| others.0 & scope.bit() != 0);
        all.all(|(scope, _)| self.covers(*scope))
    }
}

/// Whether a word is in a list of words.
fn listed(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}

/// The scopes that a call needs, all of them; `None` for a method of nodes.
fn needed(method: &str, params: &Map<String, Value>) -> Option<Vec<Scope>> {
    if matches!(method, "health" | "device.scopes.requestUpgrade" | "device.scopes.waitUpgrade") {
        return Some(vec![]);
    }
    if let Some(scopes) = by_params(method, params) {
        return Some(scopes);
    }
    let lists = [
        (table::READ, Scope::Read),
        (table::WRITE, Scope::Write),
        (table::APPROVALS, Scope::Approvals),
        (table::QUESTIONS, Scope::Questions),
        (table::PAIRING, Scope::Pairing),
        (table::TALK, Scope::Talk),
        (table::SESSIONS_WRITE, Scope::SessionsWrite),
    ];
    if listed(table::NODE, method) {
        return None;
    }
    let found = lists.iter().find(|(list, _)| listed(list, method));
    Some(vec![found.map_or(Scope::Admin, |(_, scope)| *scope)])
}

/// Fields of `sessions.patch` that need write alone, and those that say which session is meant.
const EVERYDAY: &str = "label autoLabel icon color category boardFace boardPresentation pinned \
    archived unread model agentRuntime thinkingLevel fastMode permissionMode key agentId \
    expectedSessionId expectedLifecycleRevision expectedPermissionMode expectedMarkedUnreadAt";
/// Fields of `sessions.delete` with which it needs write alone.
const ARCHIVED: &str = "key agentId deleteTranscript expectedSessionId archivedOnly";
/// Fields of `sessions.create` that need admin.
const BEYOND: [&str; 3] = ["incognito", "execNode", "toolOverrides"];

/// The scopes of methods whose parameters decide (H28).
fn by_params(method: &str, params: &Map<String, Value>) -> Option<Vec<Scope>> {
    let given = |name: &str| params.get(name).is_some_and(|v| !v.is_null() && *v != json!(false));
    let is = |name: &str, value: Value| params.get(name) == Some(&value);
    let or_admin = |lower: Scope, admin: bool| vec![if admin { Scope::Admin } else { lower }];
    Some(match method {
        "agent" => or_admin(Scope::Write, begins_anew(params)),
        "sessions.patch" => or_admin(Scope::Write, !everyday(params)),
        "sessions.patchMany" => or_admin(Scope::Write, !everyday_many(params)),
        "sessions.create" => {
            let key = params.get("key").and_then(Value::as_str).unwrap_or("");
            let incognito = SessionKey::parse(key).is_ok_and(|key| key.incognito());
            let beyond = BEYOND.iter().any(|name| given(name));
            or_admin(Scope::Write, beyond || incognito || is("permissionMode", json!("full")))
        }
        "sessions.delete" => {
            let archived = is("archivedOnly", json!(true));
            let only = params.keys().all(|name| listed(ARCHIVED, name));
            or_admin(Scope::Write, !(archived && only))
        }
        "sessions.dispatch" => {
            or_admin(Scope::Write, !(given("deviceId") || is("autoDevice", json!(true))))
        }
        "sessions.move" => {
            let target = params.get("target").and_then(|target| target.get("kind"));
            or_admin(Scope::Write, target == Some(&json!("profile")))
        }
        "talk.config" if is("includeSecrets", json!(true)) => {
            vec![Scope::Read, Scope::TalkSecrets]
        }
        "talk.config" => vec![Scope::Read],
        "environments.list" if given("runtimeId") => vec![Scope::Write],
        "environments.list" => vec![Scope::Read],
        "channels.pairing.approve" if is("bootstrapCommandOwner", json!(true)) => {
            vec![Scope::Pairing, Scope::Admin]
        }
        "channels.pairing.approve" => vec![Scope::Pairing],
        "fs.listDir" => or_admin(Scope::Write, params.contains_key("nodeId")),
        "plugins.sessionAction" => vec![Scope::Write],
        "node.invoke" => vec![Scope::Admin],
        _ => return None,
    })
}

/// A message that begins its session anew.
fn begins_anew(params: &Map<String, Value>) -> bool {
    let message = params.get("message").and_then(Value::as_str).unwrap_or("").trim_start();
    let word = message.split(char::is_whitespace).next().unwrap_or("");
    ["/new", "/reset"].iter().any(|command| word.eq_ignore_ascii_case(command))
}

fn everyday(fields: &Map<String, Value>) -> bool {
    fields.keys().all(|name| listed(EVERYDAY, name))
        && fields.get("permissionMode") != Some(&json!("full"))
}

/// Everyday fields alone in the patch, and in each target what says which session is meant.
fn everyday_many(params: &Map<String, Value>) -> bool {
    params.iter().all(|(name, value)| match (name.as_str(), value) {
        ("patch", Value::Object(fields)) => everyday(fields),
        ("targets", Value::Array(targets)) => {
            targets.iter().all(|target| target.as_object().is_some_and(everyday))
        }
        _ => false,
    })
}

/// Whether an operator with these scopes may make a call (H27).
///
/// # Errors
/// `FORBIDDEN` with the scope that is missing, or `INVALID_REQUEST` for a method of nodes.
pub fn permit(method: &str, params: &Map<String, Value>, scopes: Scopes) -> Result<(), Fault> {
    let Some(needed) = needed(method, params) else {
        return Err(Fault::invalid("unauthorized role: operator"));
    };
    let open = match needed[..] {
        [Scope::Read] => listed(table::ALSO_SESSIONS_READ, method).then_some(Scope::SessionsRead),
        [Scope::Write] => {
            listed(table::ALSO_SESSIONS_WRITE, method).then_some(Scope::SessionsWrite)
        }
        _ => None,
    };
    if open.is_some_and(|scope| scopes.covers(scope)) {
        return Ok(());
    }
    let Some(missing) = needed.iter().find(|scope| !scopes.covers(**scope)) else {
        return Ok(());
    };
    let mut fault = Fault::invalid(format!("missing scope: {}", missing.word()));
    fault.code = "FORBIDDEN";
    let required: Vec<&str> = needed.iter().map(|scope| scope.word()).collect();
    fault.details = Some(json!({
        "code": "MISSING_SCOPE", "missingScope": missing.word(), "requiredScopes": required,
    }));
    Err(fault)
}

/// Whether an operator with these scopes gets a broadcast event (H29).
#[must_use]
pub fn hears(event: &str, scopes: Scopes) -> bool {
    let lists = [
        (table::EVENTS_READ, Scope::Read),
        (table::EVENTS_SESSIONS_READ, Scope::SessionsRead),
        (table::EVENTS_PAIRING, Scope::Pairing),
        (table::EVENTS_APPROVALS, Scope::Approvals),
        (table::EVENTS_QUESTIONS, Scope::Questions),
        (table::EVENTS_TALK, Scope::Talk),
        (table::EVENTS_ADMIN, Scope::Admin),
    ];
    let found = lists.iter().find(|(list, _)| listed(list, event));
    match found {
        Some((_, scope)) => scopes.covers(*scope),
        None if event.starts_with("plugin.") => scopes.covers(Scope::Write),
        None => listed(table::EVENTS_ANY, event),
    }
}

/// Whether a slow client may miss an event; of `chat` some states (H29).
#[must_use]
pub fn droppable(event: &str, payload: &Value) -> bool {
    let passing = |state: &Value| *state == json!("delta") || *state == json!("status");
    listed(table::EVENTS_DROPPABLE, event) || (event == "chat" && passing(&payload["state"]))
}
