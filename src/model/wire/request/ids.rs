//! Call ids on the wire (spec/model.md M22): in the provider's alphabet, short enough, unique in
//! the request, the same for a call and its result, and the same in every later request.

use crate::base::id;
use std::collections::{BTreeSet, VecDeque};

/// How a backend wants its call ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdStyle {
    /// Letters, digits, `_` and `-`, at most 40.
    #[default]
    Usual,
    /// Exactly nine letters and digits.
    Nine,
}

/// A call whose result has not come.
#[derive(Clone, Debug)]
struct Open {
    stored: String,
    sent: String,
    name: String,
}

/// The ids of one conversation.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    style: IdStyle,
    used: BTreeSet<String>,
    /// Open calls in the order in which they were made.
    open: VecDeque<Open>,
}

impl Ids {
    pub fn new(style: IdStyle) -> Ids {
        Ids { style, used: BTreeSet::new(), open: VecDeque::new() }
    }

    /// The id to send for a call that is made now.
    pub fn open(&mut self, stored: &str, name: &str) -> String {
        let mut sent = self.plain(stored);
        let mut round = 0;
        while sent.as_ref().is_none_or(|id| self.used.contains(id)) {
            sent = Some(self.hashed(stored, round));
            round += 1;
        }
        let sent = sent.unwrap_or_default();
        self.used.insert(sent.clone());
        let (stored, name) = (stored.to_owned(), name.to_owned());
        self.open.push_back(Open { stored, sent: sent.clone(), name });
        sent
    }

    /// The id to send with a result: that of the first open call with its stored id.
    pub fn close(&mut self, stored: &str) -> Option<String> {
        let at = self.open.iter().position(|open| open.stored == stored)?;
        self.open.remove(at).map(|open| open.sent)
    }

    /// Whether calls wait for results.
    pub fn pending(&self) -> bool {
        !self.open.is_empty()
    }

    /// Ids and tool names of the calls whose results will not come.
    pub fn take_pending(&mut self) -> Vec<(String, String)> {
        self.open.drain(..).map(|open| (open.sent, open.name)).collect()
    }

    /// The stored id itself, where it can be sent with small changes that lose nothing.
    fn plain(&self, stored: &str) -> Option<String> {
        match self.style {
            IdStyle::Nine => {
                let fits = stored.len() == 9 && stored.bytes().all(|b| b.is_ascii_alphanumeric());
                fits.then(|| stored.to_owned())
            }
            IdStyle::Usual => {
                let id = clean(stored);
                (!id.is_empty() && id.len() <= 40).then_some(id)
            }
        }
    }

    fn hashed(&self, stored: &str, round: u32) -> String {
        let seed = format!("{round}\n{stored}");
        let digest = ring::digest::digest(&ring::digest::SHA256, seed.as_bytes());
        let hash = id::hex(&digest.as_ref()[..8]);
        match self.style {
            IdStyle::Nine => hash[..9].to_owned(),
            IdStyle::Usual => {
                let mut base = clean(stored);
                base.truncate(40 - 1 - hash.len());
                if base.is_empty() { format!("call_{hash}") } else { format!("{base}_{hash}") }
            }
        }
    }
}

/// The part before the bar, other characters replaced; pure ASCII.
fn clean(stored: &str) -> String {
    let part = stored.split('|').next().unwrap_or_default();
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    part.chars().map(|c| if legal(c) { c } else { '_' }).collect()
}
