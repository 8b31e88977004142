//! How a session's waiting turns are treated, and which setting wins (Q1, Q2).

use crate::base::limits::{QUIET_MS, TURNS_CAP, TURNS_CAP_MAX};
use serde::{Deserialize, Serialize};

/// What happens to a message that arrives while a run is active (Q1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It joins the running turn; a run that cannot take it is followed by a turn for it.
    #[default]
    Steer,
    /// It has a turn of its own, later.
    FollowUp,
    /// It shares one later turn with the others of its group.
    Collect,
    /// It stops the running turn and takes its place.
    Interrupt,
}

impl Mode {
    /// The mode of a word in a setting or a command, old names included; case does not matter.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Mode> {
        Some(match word.to_ascii_lowercase().as_str() {
            "steer" | "queue" => Mode::Steer,
            "followup" | "follow-up" | "steer+backlog" | "steer-backlog" => Mode::FollowUp,
            "collect" => Mode::Collect,
            "interrupt" => Mode::Interrupt,
            _ => return None,
        })
    }

    /// The word that settings use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Mode::Steer => "steer",
            Mode::FollowUp => "followup",
            Mode::Collect => "collect",
            Mode::Interrupt => "interrupt",
        }
    }

    /// Whether waiting turns are run only after the quiet window (Q5).
    #[must_use]
    pub fn waits_for_quiet(self) -> bool {
        match self {
            Mode::FollowUp | Mode::Collect => true,
            Mode::Steer | Mode::Interrupt => false,
        }
    }
}

/// What happens when one turn more than the cap arrives (Q4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DropPolicy {
    /// The oldest leaves without a trace.
    Old,
    /// The arriving one is rejected.
    New,
    /// The oldest leaves one line behind.
    #[default]
    Summarize,
}

impl DropPolicy {
    /// The policy of a word; case does not matter.
    #[must_use]
    pub fn from_word(word: &str) -> Option<DropPolicy> {
        Some(match word.to_ascii_lowercase().as_str() {
            "old" | "oldest" => DropPolicy::Old,
            "new" | "newest" => DropPolicy::New,
            "summarize" | "summarise" => DropPolicy::Summarize,
            _ => return None,
        })
    }

    /// The word that settings use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            DropPolicy::Old => "old",
            DropPolicy::New => "new",
            DropPolicy::Summarize => "summarize",
        }
    }
}

/// The settings that hold for one arrival.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueueSettings {
    /// What an arriving message does to the active run.
    pub mode: Mode,
    /// Quiet window, ms.
    pub debounce_ms: u32,
    /// Most turns that wait.
    pub cap: u16,
    /// What leaves when there are more.
    pub drop: DropPolicy,
}

impl Default for QueueSettings {
    fn default() -> QueueSettings {
        QueueSettings {
            mode: Mode::default(),
            debounce_ms: QUIET_MS,
            cap: TURNS_CAP,
            drop: DropPolicy::default(),
        }
    }
}

impl QueueSettings {
    /// The cap as it is kept: at least one turn, and no more than the machine allows.
    #[must_use]
    pub fn limit(&self) -> usize {
        usize::from(self.cap.clamp(1, TURNS_CAP_MAX))
    }
}

/// What one place says; what it leaves out is looked up in the next one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Partial {
    /// The mode, if it says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The quiet window, ms, if it says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce_ms: Option<u32>,
    /// The cap, if it says one; below 1 it says none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<u16>,
    /// The drop policy, if it says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<DropPolicy>,
}

/// The settings that win (Q2). A channel has a say in the mode and the quiet window only, a plugin
/// in the quiet window.
#[must_use]
pub fn resolve(
    inline: &Partial,
    session: &Partial,
    channel: &Partial,
    plugin_debounce: Option<u32>,
    global: &Partial,
) -> QueueSettings {
    let base = QueueSettings::default();
    let mode = inline.mode.or(session.mode).or(channel.mode).or(global.mode);
    let quiet = inline.debounce_ms.or(session.debounce_ms).or(channel.debounce_ms);
    let quiet = quiet.or(plugin_debounce).or(global.debounce_ms);
    let cap = [inline.cap, session.cap, global.cap].into_iter().flatten().find(|cap| *cap >= 1);
    let drop = inline.drop.or(session.drop).or(global.drop);
    QueueSettings {
        mode: mode.unwrap_or(base.mode),
        debounce_ms: quiet.unwrap_or(base.debounce_ms),
        cap: cap.unwrap_or(base.cap).min(TURNS_CAP_MAX),
        drop: drop.unwrap_or(base.drop),
    }
}

/// What arrives at a session (Q3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arriving {
    /// A message for the model.
    Message,
    /// A heartbeat: there will be another one.
    Heartbeat,
    /// A command that resets the session.
    Reset,
    /// A command that makes the history shorter: it needs the session to itself.
    Compaction,
}

/// Where it goes (Q3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// It runs now.
    Run,
    /// It is offered to the active run; refused there, it waits.
    Steer,
    /// It waits for its turn.
    Wait,
    /// The active run is aborted, older turns are given up, then it runs.
    Interrupt,
    /// It is not needed.
    Drop,
}

/// Where an arrival goes. `active` means that a run has the session, `waiting` that turns wait.
#[must_use]
pub fn place(arriving: Arriving, mode: Mode, active: bool, waiting: bool) -> Place {
    match arriving {
        Arriving::Reset => Place::Run,
        Arriving::Heartbeat if active || waiting => Place::Drop,
        Arriving::Heartbeat => Place::Run,
        Arriving::Compaction if active || waiting => Place::Wait,
        Arriving::Compaction => Place::Run,
        Arriving::Message if !active && !waiting => Place::Run,
        Arriving::Message => match mode {
            Mode::Interrupt => Place::Interrupt,
            Mode::Steer if active => Place::Steer,
            Mode::Steer | Mode::FollowUp | Mode::Collect => Place::Wait,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Q1: old names are understood, unknown ones are not guessed.
    #[test]
    fn words_are_modes() {
        for mode in [Mode::Steer, Mode::FollowUp, Mode::Collect, Mode::Interrupt] {
            assert_eq!(Mode::from_word(mode.word()), Some(mode));
        }
        assert_eq!(Mode::from_word("queue"), Some(Mode::Steer));
        assert_eq!(Mode::from_word("Steer+Backlog"), Some(Mode::FollowUp));
        assert_eq!(Mode::from_word("steer-backlog"), Some(Mode::FollowUp));
        assert_eq!(Mode::from_word("later"), None);
        for drop in [DropPolicy::Old, DropPolicy::New, DropPolicy::Summarize] {
            assert_eq!(DropPolicy::from_word(drop.word()), Some(drop));
        }
    }

    /// Q2: the nearer place wins, part by part.
    #[test]
    fn the_nearer_place_wins() {
        let none = Partial::default();
        assert_eq!(resolve(&none, &none, &none, None, &none), QueueSettings::default());
        let global = Partial {
            mode: Some(Mode::FollowUp),
            debounce_ms: Some(1),
            cap: Some(5),
            drop: Some(DropPolicy::Old),
        };
        let channel = Partial {
            mode: Some(Mode::Collect),
            debounce_ms: Some(3),
            cap: Some(6),
            drop: Some(DropPolicy::New),
        };
        let found = resolve(&none, &none, &channel, Some(2), &global);
        let want =
            QueueSettings { mode: Mode::Collect, debounce_ms: 3, cap: 5, drop: DropPolicy::Old };
        assert_eq!(found, want, "a channel has no cap and no drop policy");
        assert_eq!(resolve(&none, &none, &none, Some(2), &global).debounce_ms, 2);
        assert_eq!(resolve(&none, &none, &none, None, &global).debounce_ms, 1);
        let session = Partial { mode: Some(Mode::Interrupt), cap: Some(7), ..none };
        let inline = Partial { mode: Some(Mode::Steer), ..none };
        let found = resolve(&inline, &session, &channel, None, &global);
        assert_eq!((found.mode, found.cap), (Mode::Steer, 7));
    }

    /// Q2: a cap below one says nothing, a huge one is cut.
    #[test]
    fn caps_below_one_are_ignored() {
        let none = Partial::default();
        let zero = Partial { cap: Some(0), ..none };
        let nine = Partial { cap: Some(9), ..none };
        assert_eq!(resolve(&zero, &zero, &none, None, &nine).cap, 9);
        assert_eq!(resolve(&zero, &none, &none, None, &zero).cap, TURNS_CAP);
        let huge = Partial { cap: Some(u16::MAX), ..none };
        assert_eq!(resolve(&huge, &none, &none, None, &none).cap, TURNS_CAP_MAX);
    }

    /// Q3: idle sessions run at once, heartbeats never wait, a reset never does.
    #[test]
    fn arrivals_have_their_place() {
        use Arriving::{Heartbeat, Message, Reset};
        for mode in [Mode::Steer, Mode::FollowUp, Mode::Collect, Mode::Interrupt] {
            assert_eq!(place(Message, mode, false, false), Place::Run);
            assert_eq!(place(Heartbeat, mode, false, false), Place::Run);
            assert_eq!(place(Heartbeat, mode, true, false), Place::Drop);
            assert_eq!(place(Reset, mode, true, true), Place::Run);
        }
        assert_eq!(place(Message, Mode::Steer, true, true), Place::Steer);
        assert_eq!(place(Message, Mode::Steer, false, true), Place::Wait);
        assert_eq!(place(Message, Mode::FollowUp, true, false), Place::Wait);
        assert_eq!(place(Message, Mode::Collect, true, false), Place::Wait);
        assert_eq!(place(Message, Mode::Interrupt, true, false), Place::Interrupt);
    }
}
