//! Session keys: which agent a conversation belongs to, and which of its conversations it is
//! (`spec/keys.md`).

mod scope;
#[cfg(test)]
mod tests;

pub use scope::{
    DmScope, GroupScope, IdentityLinks, LinkError, Origin, PeerKind, Scopes, key_for, main_word,
};

use super::limits::{AGENT_CHARS_MAX, KEY_BYTES_MAX};
use std::fmt;

/// The agent that is meant where none is named, and the name of an agent's main conversation.
pub const MAIN: &str = "main";

const HEAD: &str = "agent:";
const THREAD: &str = ":thread:";
const RUN: &str = ":run:";
const LANE: &str = "session:";
const INCOGNITO: &str = "incognito-";

/// Heads under which a conversation can be one that leaves nothing behind (K9).
const INCOGNITO_HEADS: [&str; 3] = ["dashboard", "subagent", "internal-session-effects"];

/// Most of a refused text that an error repeats, characters.
const SHOWN_CHARS_MAX: usize = 80;

/// A session key that was read: `agent:<id>:<rest>` (K1), in lower case where K3 does not keep it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionKey {
    text: String,
    agent_end: usize,
}

/// Why a text is no session key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is not a session key: {fault}; it looks like agent:main:main")]
pub struct KeyError {
    text: String,
    /// What is wrong with it.
    pub fault: KeyFault,
}

impl KeyError {
    fn new(text: &str, fault: KeyFault) -> KeyError {
        KeyError { text: text.chars().take(SHOWN_CHARS_MAX).collect(), fault }
    }
}

/// What can be wrong with a session key (K2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyFault {
    /// No text at all.
    #[error("it is empty")]
    Empty,
    /// More than [`KEY_BYTES_MAX`] bytes.
    #[error("it is longer than {KEY_BYTES_MAX} bytes")]
    Long,
    /// Blanks or control characters.
    #[error("it has blanks or control characters")]
    Blank,
    /// A bare name that begins with a colon.
    #[error("it starts with a colon")]
    Colon,
    /// No valid agent id.
    #[error("the agent's id takes a-z, 0-9, _ and -, at most {AGENT_CHARS_MAX}")]
    Agent,
    /// An agent, and then nothing.
    #[error("nothing follows the agent")]
    Rest,
    /// `global` or `unknown`, where a conversation is needed (K8).
    #[error("it is a marker that names no conversation")]
    Sentinel,
    /// The configured name of the main conversation is not one plain word.
    #[error("the main conversation's name is one word without colons")]
    MainKey,
}

/// Two words that stand where a key stands and name no conversation (K8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Sentinel {
    /// Everything at once.
    Global,
    /// It is not known which.
    Unknown,
}

impl Sentinel {
    /// Reads one of the two words.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Sentinel> {
        let all = [Sentinel::Global, Sentinel::Unknown];
        all.into_iter().find(|s| s.word().eq_ignore_ascii_case(word.trim()))
    }

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Sentinel::Global => "global",
            Sentinel::Unknown => "unknown",
        }
    }
}

/// What a text in the place of a key names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KeyRef {
    /// A conversation.
    Conversation(SessionKey),
    /// Something else (K8).
    Sentinel(Sentinel),
}

impl KeyRef {
    /// Reads a key or a sentinel; a bare name belongs to `agent`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, agent: &str) -> Result<KeyRef, KeyError> {
        match Sentinel::from_word(text) {
            Some(sentinel) => Ok(KeyRef::Sentinel(sentinel)),
            None => SessionKey::parse_for(text, agent).map(KeyRef::Conversation),
        }
    }

    /// The conversation, where one is needed.
    ///
    /// # Errors
    /// [`KeyFault::Sentinel`].
    pub fn conversation(self) -> Result<SessionKey, KeyError> {
        match self {
            KeyRef::Conversation(key) => Ok(key),
            KeyRef::Sentinel(s) => Err(KeyError::new(s.word(), KeyFault::Sentinel)),
        }
    }
}

/// What kind of conversation a key names (K4). Threads are not part of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind<'a> {
    /// The agent's main one.
    Main,
    /// A child's; `depth` is 1 for a child, 2 for its child.
    Subagent {
        /// How deep.
        depth: usize,
    },
    /// A scheduled job's, or one run of it.
    Cron {
        /// The job.
        job: &'a str,
        /// The run.
        run: Option<&'a str>,
    },
    /// Begun by an HTTP hook.
    Hook,
    /// Of an outside agent harness.
    Acp,
    /// Begun in the dashboard.
    Dashboard,
    /// Named by the caller.
    Explicit,
    /// With one person.
    Direct {
        /// The channel, where the scope keeps channels apart.
        channel: Option<&'a str>,
        /// Our account there, where the scope keeps accounts apart.
        account: Option<&'a str>,
        /// Who, as the key spells it (K6).
        peer: &'a str,
    },
    /// With many.
    Group {
        /// The channel.
        channel: &'a str,
        /// Which kind of group; never [`PeerKind::Direct`].
        kind: PeerKind,
        /// Which one, as the key spells it (K6).
        peer: &'a str,
    },
    /// Any other name.
    Other,
}

impl SessionKey {
    /// Reads a key. A bare name is taken as a conversation of the agent `main`; a text that starts
    /// with `agent:` and does not parse is an error, never the default agent (K2).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<SessionKey, KeyError> {
        SessionKey::parse_for(text, MAIN)
    }

    /// Reads a key; a bare name is taken as a conversation of `agent` (K2).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_for(text: &str, agent: &str) -> Result<SessionKey, KeyError> {
        let no = |fault| Err(KeyError::new(text, fault));
        let bare = text.trim();
        if bare.is_empty() {
            return no(KeyFault::Empty);
        }
        if bare.len() > KEY_BYTES_MAX {
            return no(KeyFault::Long);
        }
        if bare.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return no(KeyFault::Blank);
        }
        if Sentinel::from_word(bare).is_some() {
            return no(KeyFault::Sentinel);
        }
        let (agent, rest) = match strip_head(bare) {
            Some(full) => match full.split_once(':') {
                Some((agent, rest)) => (agent, rest),
                None => return no(KeyFault::Rest),
            },
            None if bare.starts_with(':') => return no(KeyFault::Colon),
            None => (agent, bare),
        };
        if !is_agent(agent) {
            return no(KeyFault::Agent);
        }
        if rest.is_empty() || rest.starts_with(':') {
            return no(KeyFault::Rest);
        }
        let mut text = format!("{HEAD}{}", agent.to_ascii_lowercase());
        let agent_end = text.len();
        text.push(':');
        text.push_str(&canonical(rest));
        if text.len() > KEY_BYTES_MAX {
            return no(KeyFault::Long);
        }
        Ok(SessionKey { text, agent_end })
    }

    /// The agent's id.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.text[HEAD.len()..self.agent_end]
    }

    /// The whole key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What follows the agent; never empty.
    #[must_use]
    pub fn rest(&self) -> &str {
        &self.text[self.agent_end + 1..]
    }

    /// Where the thread's suffix begins in the rest.
    fn thread_at(&self) -> Option<usize> {
        let rest = self.rest();
        // A key that is nothing but a thread names no conversation that could have one.
        rest.rfind(THREAD).filter(|at| *at > 0 && at + THREAD.len() < rest.len())
    }

    /// The thread: what follows the last `:thread:` (K5).
    #[must_use]
    pub fn thread(&self) -> Option<&str> {
        self.thread_at().map(|at| &self.rest()[at + THREAD.len()..])
    }

    fn base(&self) -> &str {
        &self.rest()[..self.thread_at().unwrap_or(self.rest().len())]
    }

    fn cut(&self, base: usize) -> SessionKey {
        let text = self.text[..self.agent_end + 1 + base].to_owned();
        SessionKey { text, agent_end: self.agent_end }
    }

    /// The conversation that the thread belongs to; itself where there is no thread (K5).
    #[must_use]
    pub fn without_thread(&self) -> SessionKey {
        self.cut(self.base().len())
    }

    /// What kind of conversation it names (K4).
    #[must_use]
    pub fn kind(&self) -> Kind<'_> {
        let base = self.base();
        if base == MAIN {
            return Kind::Main;
        }
        let (head, tail) = base.split_once(':').unwrap_or((base, ""));
        match (head, tail) {
            ("explicit", _) => Kind::Explicit,
            (_, "") => Kind::Other,
            ("subagent", _) => Kind::Subagent { depth: depth(base) },
            ("cron", job) => {
                match job.split_once(RUN).filter(|(j, r)| !j.is_empty() && !r.is_empty()) {
                    Some((job, run)) => Kind::Cron { job, run: Some(run) },
                    None => Kind::Cron { job, run: None },
                }
            }
            ("hook", _) => Kind::Hook,
            ("acp", _) => Kind::Acp,
            ("dashboard", _) => Kind::Dashboard,
            ("direct", peer) => Kind::Direct { channel: None, account: None, peer },
            (channel, tail) => peer_kind(channel, tail).unwrap_or(Kind::Other),
        }
    }

    /// Whether it is the agent's main conversation, under the configured name of that.
    #[must_use]
    pub fn is_main(&self, main_key: &str) -> bool {
        self.base() == main_key.to_lowercase()
    }

    /// How deep a child's conversation is: 0 for what is no child's.
    #[must_use]
    pub fn subagent_depth(&self) -> usize {
        match self.kind() {
            Kind::Subagent { depth } => depth,
            Kind::Main
            | Kind::Cron { .. }
            | Kind::Hook
            | Kind::Acp
            | Kind::Dashboard
            | Kind::Explicit
            | Kind::Direct { .. }
            | Kind::Group { .. }
            | Kind::Other => 0,
        }
    }

    /// The identity for prompts: of a scheduled job's run the job (K7).
    #[must_use]
    pub fn stable(&self) -> SessionKey {
        if let Kind::Cron { job, run: Some(_) } = self.kind() {
            self.cut("cron:".len() + job.len())
        } else {
            self.clone()
        }
    }

    /// Whether the conversation lives in the process only (K9).
    #[must_use]
    pub fn incognito(&self) -> bool {
        let mut head = "";
        let inside = INCOGNITO_HEADS.contains(&self.rest().split(':').next().unwrap_or_default());
        inside
            && self.base().split(':').any(|part| {
                let found = INCOGNITO_HEADS.contains(&head) && part.starts_with(INCOGNITO);
                head = part;
                found
            })
    }

    /// The name of the conversation's own lane.
    #[must_use]
    pub fn to_lane(&self) -> String {
        lane(&self.text)
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The lane of a conversation: `session:<key>`. Nothing means `session:main`, and what is a lane
/// already stays as it is (K10).
#[must_use]
pub fn lane(key: &str) -> String {
    if key.is_empty() {
        format!("{LANE}{MAIN}")
    } else if key.starts_with(LANE) {
        key.to_owned()
    } else {
        format!("{LANE}{key}")
    }
}

/// Makes an agent id of any text (K1): lower case, other characters become dashes, at most 64.
#[must_use]
pub fn agent_id(text: &str) -> String {
    let mut id = String::new();
    for c in text.chars().map(|c| c.to_ascii_lowercase()) {
        if id.len() >= AGENT_CHARS_MAX {
            break;
        }
        let plain = c.is_ascii_alphanumeric() || (c == '_' && !id.is_empty());
        if plain {
            id.push(c);
        } else if !id.is_empty() && !id.ends_with('-') {
            id.push('-');
        }
    }
    let id = id.trim_end_matches('-');
    if id.is_empty() { MAIN.to_owned() } else { id.to_owned() }
}

fn is_agent(id: &str) -> bool {
    let mut chars = id.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphanumeric());
    let others = chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    first && others && id.len() <= AGENT_CHARS_MAX
}

fn strip_head(text: &str) -> Option<&str> {
    let head = text.get(..HEAD.len())?;
    head.eq_ignore_ascii_case(HEAD).then(|| &text[HEAD.len()..])
}

/// Lower case, except where case tells groups apart (K3).
fn canonical(rest: &str) -> String {
    let mut parts = rest.splitn(3, ':');
    let mut part = || parts.next().unwrap_or_default();
    let (channel, kind, tail) = (part(), part(), part());
    let kind = PeerKind::from_word(&kind.to_ascii_lowercase());
    match kind {
        Some(kind) if kind != PeerKind::Direct && channel.eq_ignore_ascii_case("matrix") => {
            format!("matrix:{}:{tail}", kind.word())
        }
        Some(PeerKind::Group) if channel.eq_ignore_ascii_case("signal") => {
            let id = &tail[..tail.find(':').unwrap_or(tail.len())];
            format!("signal:group:{id}{}", tail[id.len()..].to_lowercase())
        }
        Some(_) | None => rest.to_lowercase(),
    }
}

fn depth(base: &str) -> usize {
    let mut parts = base.split(':').peekable();
    let mut depth = 0;
    while let Some(part) = parts.next() {
        depth += usize::from(part == "subagent" && parts.peek().is_some());
    }
    depth
}

/// The conversations of channels: `channel:kind:peer` and `channel:account:direct:peer`.
fn peer_kind<'a>(channel: &'a str, tail: &'a str) -> Option<Kind<'a>> {
    let (second, rest) = tail.split_once(':')?;
    let some = |text: &'a str| (!text.is_empty()).then_some(text);
    match PeerKind::from_word(second) {
        Some(PeerKind::Direct) => {
            some(rest).map(|peer| Kind::Direct { channel: Some(channel), account: None, peer })
        }
        Some(kind) => some(rest).map(|peer| Kind::Group { channel, kind, peer }),
        None => {
            let peer = some(rest.strip_prefix("direct:")?)?;
            Some(Kind::Direct { channel: Some(channel), account: some(second), peer })
        }
    }
}
