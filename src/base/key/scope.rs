//! From where a message came to the conversation it belongs to: scopes, linked identities, and
//! how a peer's id is spelled so that it stays one (K6, K11, K12).

use super::{HEAD, KeyError, KeyFault, MAIN, SessionKey, THREAD, is_agent};
use crate::base::limits::{IDENTITY_LINKS_MAX, KEY_BYTES_MAX};
use std::collections::{BTreeMap, BTreeSet};

/// Words that give a key its structure: no channel, account or Matrix server is spelled like one.
const STRUCTURE: [&str; 16] = [
    "acp",
    "agent",
    "channel",
    "cron",
    "dashboard",
    "direct",
    "explicit",
    "group",
    "hook",
    "internal-session-effects",
    "room",
    "run",
    "session",
    "subagent",
    "thread",
    UNKNOWN,
];

/// What stands for a channel or a peer that is missing.
const UNKNOWN: &str = "unknown";
/// What stands for an account that is missing.
const DEFAULT: &str = "default";

/// How far conversations with single people are kept apart (`session.dmScope`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum DmScope {
    /// All of them are the agent's main conversation.
    #[default]
    Main,
    /// One a person, whatever the channel.
    PerPeer,
    /// One a person and channel.
    PerChannelPeer,
    /// One a person, channel and account of ours.
    PerAccountChannelPeer,
}

impl DmScope {
    /// All of them.
    pub const ALL: [DmScope; 4] =
        [DmScope::Main, DmScope::PerPeer, DmScope::PerChannelPeer, DmScope::PerAccountChannelPeer];

    /// Reads the configuration's word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<DmScope> {
        DmScope::ALL.into_iter().find(|s| s.word() == word)
    }

    /// The configuration's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            DmScope::Main => MAIN,
            DmScope::PerPeer => "per-peer",
            DmScope::PerChannelPeer => "per-channel-peer",
            DmScope::PerAccountChannelPeer => "per-account-channel-peer",
        }
    }
}

/// Whether groups are conversations of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum GroupScope {
    /// Each is one.
    #[default]
    PerGroup,
    /// All of them are the agent's main conversation.
    Main,
}

impl GroupScope {
    /// Both.
    pub const ALL: [GroupScope; 2] = [GroupScope::PerGroup, GroupScope::Main];

    /// Reads the configuration's word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<GroupScope> {
        GroupScope::ALL.into_iter().find(|s| s.word() == word)
    }

    /// The configuration's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            GroupScope::PerGroup => "per-group",
            GroupScope::Main => MAIN,
        }
    }
}

/// What a message's peer is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PeerKind {
    /// One person.
    Direct,
    /// A group.
    Group,
    /// A channel of a server.
    Channel,
    /// A room.
    Room,
}

impl PeerKind {
    /// All of them.
    pub const ALL: [PeerKind; 4] =
        [PeerKind::Direct, PeerKind::Group, PeerKind::Channel, PeerKind::Room];

    /// Reads the word that keys use.
    #[must_use]
    pub fn from_word(word: &str) -> Option<PeerKind> {
        PeerKind::ALL.into_iter().find(|k| k.word() == word)
    }

    /// The word that keys use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            PeerKind::Direct => "direct",
            PeerKind::Group => "group",
            PeerKind::Channel => "channel",
            PeerKind::Room => "room",
        }
    }
}

/// Where a message came from. An empty text is one that is missing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Origin<'a> {
    /// The channel's name.
    pub channel: &'a str,
    /// Our account there.
    pub account: &'a str,
    /// The person, or the group.
    pub peer: &'a str,
    /// Which of the two.
    pub kind: PeerKind,
    /// The thread, where threads are conversations of their own.
    pub thread: Option<&'a str>,
}

/// How origins become conversations.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Scopes {
    /// For single people.
    pub dm: DmScope,
    /// For groups.
    pub group: GroupScope,
    /// Who is the same person; only where `dm` is not [`DmScope::Main`].
    pub links: IdentityLinks,
}

/// Which peers are one person (K12): `peer` on every channel, or `channel:peer` on one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct IdentityLinks {
    by_peer: BTreeMap<(String, String), String>,
    /// The canonical names as keys spell them.
    names: BTreeSet<String>,
}

/// Why identity links are refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkError {
    /// One peer would be two people.
    #[error("{peer:?} is linked to {one:?} and to {other:?}")]
    Twice {
        /// The peer.
        peer: String,
        /// One name.
        one: String,
        /// The other.
        other: String,
    },
    /// A name or a peer without text.
    #[error("an identity link of {0:?} is empty")]
    Empty(String),
    /// More than [`IDENTITY_LINKS_MAX`].
    #[error("more than {IDENTITY_LINKS_MAX} linked peers")]
    TooMany,
}

impl IdentityLinks {
    /// Reads links: a canonical name and the peers it stands for.
    ///
    /// # Errors
    /// Which link is empty, or contradicts another.
    pub fn new<I, P>(links: I) -> Result<IdentityLinks, LinkError>
    where
        I: IntoIterator<Item = (String, P)>,
        P: IntoIterator<Item = String>,
    {
        let mut read = IdentityLinks::default();
        for (name, peers) in links {
            let name = name.trim().to_ascii_lowercase();
            if name.is_empty() {
                return Err(LinkError::Empty(name));
            }
            for peer in peers {
                read.link(&name, peer.trim())?;
            }
            read.names.insert(segment(&name, UNKNOWN, &[UNKNOWN]).to_ascii_lowercase());
        }
        Ok(read)
    }

    fn link(&mut self, name: &str, peer: &str) -> Result<(), LinkError> {
        let at = split_link(&peer.to_ascii_lowercase());
        if at.1.is_empty() {
            return Err(LinkError::Empty(name.to_owned()));
        }
        if self.by_peer.len() >= IDENTITY_LINKS_MAX {
            return Err(LinkError::TooMany);
        }
        let before = self.by_peer.insert(at, name.to_owned());
        before.filter(|one| one != name).map_or(Ok(()), |one| {
            let other = name.to_owned();
            Err(LinkError::Twice { peer: peer.to_owned(), one, other })
        })
    }

    /// The canonical name of a peer; a link of its channel comes before one of all channels.
    fn find(&self, channel: &str, peer: &str) -> Option<&str> {
        let (channel, peer) = (channel.to_ascii_lowercase(), peer.to_ascii_lowercase());
        let found = self.by_peer.get(&(channel, peer.clone()));
        found.or_else(|| self.by_peer.get(&(String::new(), peer))).map(String::as_str)
    }
}

/// `channel:peer`, or a peer of any channel. They are told apart here and not when a message
/// comes, since else a peer could call itself `otherchannel:somebody`.
fn split_link(link: &str) -> (String, String) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match link.split_once(':') {
        Some((channel, peer)) if !channel.is_empty() && channel.chars().all(plain) => {
            (channel.to_owned(), peer.to_owned())
        }
        Some(_) | None => (String::new(), link.to_owned()),
    }
}

/// The conversation that a message belongs to (K11). `main_key` is the configured name of the main
/// conversation; empty means `main`.
///
/// # Errors
/// A wrong agent id or main key, or a key that gets too long.
pub fn key_for(
    agent: &str,
    origin: &Origin<'_>,
    scopes: &Scopes,
    main_key: &str,
) -> Result<SessionKey, KeyError> {
    if !is_agent(agent) {
        return Err(KeyError::new(agent, KeyFault::Agent));
    }
    let main = main_word(main_key)?;
    let parts = [origin.channel, origin.account, origin.peer, origin.thread.unwrap_or_default()];
    // Spelling them makes them longer, never shorter.
    if let Some(long) = parts.into_iter().find(|p| p.len() > KEY_BYTES_MAX) {
        return Err(KeyError::new(long, KeyFault::Long));
    }
    let channel = segment(origin.channel, UNKNOWN, &STRUCTURE);
    let rest = match origin.kind {
        PeerKind::Direct => {
            let account = segment(origin.account, DEFAULT, &STRUCTURE);
            match scopes.dm {
                DmScope::Main => main,
                DmScope::PerPeer => format!("direct:{}", person(origin, &scopes.links)),
                DmScope::PerChannelPeer => {
                    format!("{channel}:direct:{}", person(origin, &scopes.links))
                }
                DmScope::PerAccountChannelPeer => {
                    format!("{channel}:{account}:direct:{}", person(origin, &scopes.links))
                }
            }
        }
        PeerKind::Group | PeerKind::Channel | PeerKind::Room => match scopes.group {
            GroupScope::Main => main,
            GroupScope::PerGroup => {
                format!("{channel}:{}:{}", origin.kind.word(), peer(origin))
            }
        },
    };
    let thread = origin.thread.filter(|t| !t.trim().is_empty());
    let thread = thread.map(|t| format!("{THREAD}{}", spell(t))).unwrap_or_default();
    SessionKey::parse(&format!("{HEAD}{agent}:{rest}{thread}"))
}

/// The configured name of the main conversation as keys spell it; empty means `main`.
///
/// # Errors
/// [`KeyFault::MainKey`] for what is not one plain word.
pub fn main_word(main_key: &str) -> Result<String, KeyError> {
    let word = main_key.trim().to_lowercase();
    if word.contains(|c: char| c == ':' || c.is_whitespace() || c.is_control()) {
        return Err(KeyError::new(main_key, KeyFault::MainKey));
    }
    Ok(if word.is_empty() { MAIN.to_owned() } else { word })
}

/// A person: the linked name, or else the peer, which is spelled like no linked name.
fn person(origin: &Origin<'_>, links: &IdentityLinks) -> String {
    if let Some(name) = links.find(origin.channel, origin.peer) {
        return segment(name, UNKNOWN, &[UNKNOWN]);
    }
    let spelled = peer(origin);
    if links.names.contains(&spelled.to_ascii_lowercase()) { disguised(spelled) } else { spelled }
}

fn peer(origin: &Origin<'_>) -> String {
    if origin.channel.eq_ignore_ascii_case("matrix")
        && let Some((local, server)) = matrix_id(origin.peer)
    {
        return format!("{}:{server}", spell(local));
    }
    segment(origin.peer, UNKNOWN, &[UNKNOWN])
}

/// The halves of a Matrix id, `!room:server` or `@user:server:port`: its colons are its own. A
/// server that is called like a part of a key's structure does not count, so that it forges none.
fn matrix_id(id: &str) -> Option<(&str, &str)> {
    let (local, server) = id.split_once(':')?;
    let (host, port) = server.split_once(':').unwrap_or((server, "0"));
    let host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let fine = local.len() > 1
        && local.starts_with(['!', '@', '#'])
        && !host.is_empty()
        && host.chars().all(host_char)
        && !STRUCTURE.iter().any(|w| w.eq_ignore_ascii_case(host))
        && (1..=5).contains(&port.len())
        && port.chars().all(|c| c.is_ascii_digit());
    fine.then_some((local, server))
}

/// One segment of a key, never spelled like one of `taken`.
fn segment(text: &str, missing: &str, taken: &[&str]) -> String {
    if text.trim().is_empty() {
        return missing.to_owned();
    }
    let spelled = spell(text);
    let clash = taken.iter().any(|t| t.eq_ignore_ascii_case(&spelled));
    if clash { disguised(spelled) } else { spelled }
}

/// Another spelling of the same id, which nothing else gets: a code is never cut off.
fn disguised(mut spelled: String) -> String {
    spelled.push('%');
    spelled
}

/// Spells an id so that it has no colon, blank, control or look-alike character, and so that two
/// ids that differ in more than ASCII case are spelled differently (K6).
fn spell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let plain = if c.is_ascii() {
            c.is_ascii_graphic() && !matches!(c, '%' | ':')
        } else {
            // What lower-casing would change might become another peer's id.
            c.is_alphanumeric() && c.to_lowercase().eq([c])
        };
        if plain {
            out.push(c);
        } else {
            encode(c, &mut out);
        }
    }
    out
}

fn encode(c: char, out: &mut String) {
    let mut bytes = [0; 4];
    for byte in c.encode_utf8(&mut bytes).bytes() {
        out.push('%');
        out.push_str(&crate::base::id::hex(&[byte]));
    }
}
