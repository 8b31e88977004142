//! Session keys: which agent a conversation belongs to, and which of its conversations it is.

use std::fmt;

/// A session key that was read: `agent:<id>:<rest>` (semantics 7.2), in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SessionKey {
    text: String,
    agent_end: usize,
}

/// Why a text is no session key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a session key: {1}; it looks like agent:main:main")]
pub struct KeyError(String, &'static str);

/// Longest agent id.
const AGENT_CHARS_MAX: usize = 64;
/// Longest key, bytes.
const KEY_BYTES_MAX: usize = 512;

impl SessionKey {
    /// Reads a key. A bare name is taken as a conversation of the agent `main`; a text that starts
    /// with `agent:` and does not parse is an error, never the default agent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<SessionKey, KeyError> {
        let no = |why| KeyError(text.to_owned(), why);
        let lower = text.trim().to_lowercase();
        if lower.is_empty() {
            return Err(no("it is empty"));
        }
        if lower.len() > KEY_BYTES_MAX {
            return Err(no("it is longer than 512 bytes"));
        }
        if lower.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(no("it has blanks or control characters"));
        }
        let Some(rest) = lower.strip_prefix("agent:") else {
            let full = format!("agent:main:{lower}");
            return if lower.starts_with(':') {
                Err(no("it starts with a colon"))
            } else {
                Ok(SessionKey { text: full, agent_end: "agent:main".len() })
            };
        };
        let Some((agent, name)) = rest.split_once(':') else {
            return Err(no("nothing follows the agent"));
        };
        let mut chars = agent.chars();
        let first = chars.next().is_some_and(|c| c.is_ascii_alphanumeric());
        let others = chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if !first || !others || agent.len() > AGENT_CHARS_MAX {
            return Err(no("the agent's id takes a-z, 0-9, _ and -, at most 64"));
        }
        if name.is_empty() || name.starts_with(':') {
            return Err(no("nothing follows the agent"));
        }
        let agent_end = "agent:".len() + agent.len();
        Ok(SessionKey { text: lower, agent_end })
    }

    /// The agent's id.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.text["agent:".len()..self.agent_end]
    }

    /// The whole key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_or_refused() {
        let key = SessionKey::parse("agent:Main:Discord:group:42").unwrap();
        assert_eq!((key.agent(), key.as_str()), ("main", "agent:main:discord:group:42"));
        assert_eq!(SessionKey::parse("work").unwrap().as_str(), "agent:main:work");
        for bad in ["", "agent:", "agent:main", "agent:main:", "agent::x", "agent:a/b:x", "a b"] {
            assert!(SessionKey::parse(bad).is_err(), "{bad:?}");
        }
        assert!(SessionKey::parse("agent:../../etc:x").is_err());
    }
}
