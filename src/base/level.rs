//! How much a line of the log matters.

/// A level; what is less than the one that is wanted is not written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Level {
    /// Something that was promised or stored has failed.
    Error,
    /// Something that a person should look at.
    Warn,
    /// What an operator follows.
    #[default]
    Info,
    /// Everything.
    Debug,
}

impl Level {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }

    /// The level of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Level> {
        let all = [Level::Error, Level::Warn, Level::Info, Level::Debug];
        all.into_iter().find(|level| level.word() == word)
    }
}
