//! Questions and answers, and changes that need no run.

use super::{RunRow, SessionRow};
use crate::base::{Millis, SessionId};
use crate::engine::sessions::Key;

/// A question.
#[derive(Clone, PartialEq, Debug)]
pub enum Query {
    /// Sessions, by what they are and how they are sorted.
    List(Which),
    /// One session.
    Session(String),
    /// The newest entries of a conversation since its last reset.
    History {
        /// The conversation.
        key: String,
        /// Most entries.
        limit: u32,
        /// How many of the newest are left out.
        offset: u32,
    },
    /// One entry.
    Entry {
        /// The conversation.
        key: String,
        /// The entry.
        id: String,
    },
    /// The newest entries of several conversations.
    Preview {
        /// The conversations.
        keys: Vec<String>,
        /// Most entries of each.
        limit: u32,
    },
    /// The key of a session.
    KeyOf(SessionId),
    /// Keys of the sessions with this label, the latest first.
    Labelled(String),
}

/// Which sessions a list has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Which {
    /// Most of them.
    pub limit: u32,
    /// How many of the first are left out.
    pub offset: u32,
    /// Changed since then.
    pub since: Option<Millis>,
    /// By what they are sorted, the latest first.
    pub sort: Sort,
    /// With this in their key or label.
    pub search: Option<String>,
    /// With exactly this label.
    pub label: Option<String>,
    /// Children of this conversation.
    pub parent: Option<String>,
    /// Archived ones, others, or both.
    pub archived: Option<bool>,
    /// Pinned ones, or others.
    pub pinned: Option<bool>,
    /// In this group.
    pub category: Option<String>,
    /// Without those of children.
    pub no_children: bool,
    /// Without those of schedules.
    pub no_cron: bool,
    /// Whether the first message of each is told.
    pub titles: bool,
    /// Whether the last message of each is told.
    pub last: bool,
}

/// By what a list is sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    /// The last change.
    #[default]
    Updated,
    /// The last time that a person had to do with it.
    Interaction,
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Found {
    /// Sessions, and how many there are in all.
    List(Vec<Listed>, u64),
    /// One session.
    Session(Option<Box<Listed>>),
    /// A part of a history.
    History(Box<Page>),
    /// One entry.
    Entry(Option<Box<Stored>>),
    /// The newest entries of several conversations, in the order of the question; nothing for one
    /// that is not there.
    Preview(Vec<(String, Option<Vec<Stored>>)>),
    /// Keys.
    Keys(Vec<String>),
}

/// A session in a list.
#[derive(Clone, PartialEq, Debug)]
pub struct Listed {
    /// Its row.
    pub row: SessionRow,
    /// Its last run that has begun.
    pub last: Option<RunRow>,
    /// The beginning of its first message, where that was asked for: its stored body.
    pub title: Option<String>,
    /// Its last entry with words, where that was asked for.
    pub latest: Option<Stored>,
}

/// A part of a history.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    /// The session, if there is one.
    pub session: Option<Listed>,
    /// Its entries, the oldest first.
    pub entries: Vec<Stored>,
    /// How many there are since the last reset.
    pub total: u64,
    /// Accepted messages without a place in the transcript: run, body.
    pub waiting: Vec<(Option<String>, String)>,
}

/// An entry as it is stored.
#[derive(Clone, PartialEq, Debug)]
pub struct Stored {
    /// Its place in the session, from 1.
    pub seq: u64,
    /// Its id.
    pub id: String,
    /// When it was made.
    pub at: Millis,
    /// The run that wrote it.
    pub run: Option<String>,
    /// The key under which it was sent.
    pub idem: Option<String>,
    /// What it says, as JSON.
    pub body: String,
}

/// How much of a parent's history a fork begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fork {
    /// Everything but what a run that has not ended wrote.
    Completed,
    /// Up to this entry, with it.
    Through(String),
}

/// A change of a session that no run is needed for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The session is made, with what is set for it; one that is there stays as it is.
    Make {
        /// The conversation that it belongs to.
        parent: Option<Key>,
        /// What is set for it, as JSON.
        meta: Option<String>,
        /// What of its parent it begins with.
        fork: Option<Fork>,
    },
    /// Words of the gateway, as an assistant's, that the model is never shown as its own run.
    Inject {
        /// The entry's text.
        text: String,
    },
    /// What is set for it, from what was read to what it is to be.
    Meta {
        /// What was read.
        before: Option<String>,
        /// What it is to be.
        after: Option<String>,
    },
}
