//! Messages that are commands to the gateway and never reach the model (Z7, Z8, B209).

use super::turns::{DropPolicy, Mode, Partial};
use crate::base::limits::{BAD_WORD_CHARS_MAX, QUIET_MAX_MS, STOP_PHRASE_BYTES_MAX, TURNS_CAP_MAX};
use std::fmt;

/// What a person asks of the gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command<'a> {
    /// `/new [TEXT]`: the session begins anew, with this message if there is one.
    New(Option<&'a str>),
    /// `/reset [TEXT]`: the same, by its other name.
    Reset(Option<&'a str>),
    /// `/stop`, or one of the plain phrases for it: everything of the session is stopped.
    Stop,
    /// `/steer TEXT`, `/tell TEXT`: for the running turn, whatever the queue's mode; a turn of its
    /// own if none can take it.
    Steer(&'a str),
    /// `/compact [TEXT]`: the history is made shorter; the text says what is to be minded.
    Compact(Option<&'a str>),
    /// `/queue`: how waiting turns are treated.
    Queue(QueueCommand),
}

/// What `/queue` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueCommand {
    /// What holds now.
    Show,
    /// These settings, for this session.
    Set(Partial),
    /// The session's own settings are forgotten.
    Clear,
}

/// Why a command cannot be followed; for the person who wrote it, never for the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// `/steer` without a text.
    NoText {
        /// The command.
        command: &'static str,
    },
    /// A word that `/queue` does not know.
    UnknownOption {
        /// The word, cut if it is long.
        word: String,
    },
    /// An option of `/queue` with a value that it cannot have.
    BadValue {
        /// The option.
        option: &'static str,
        /// The value, cut if it is long.
        value: String,
        /// What it can be.
        wanted: String,
    },
    /// The same option twice, or two modes.
    Twice {
        /// The option.
        option: &'static str,
    },
    /// `/reset soft`, which keeps the history: not offered, and a full reset is not what was meant.
    NoSoftReset,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::NoText { command } => write!(f, "{command} needs a message after it"),
            CommandError::UnknownOption { word } => write!(
                f,
                "/queue does not know \"{word}\"; it takes steer, followup, collect or interrupt, \
                 debounce:TIME, cap:N, drop:old|new|summarize, or default"
            ),
            CommandError::BadValue { option, value, wanted } => {
                write!(f, "/queue: \"{value}\" is no value for {option}; it takes {wanted}")
            }
            CommandError::Twice { option } => write!(f, "/queue: {option} is given twice"),
            CommandError::NoSoftReset => {
                f.write_str("/reset soft is not offered; /reset alone begins a new session")
            }
        }
    }
}

impl std::error::Error for CommandError {}

/// Whole messages that mean `/stop`, without end marks, in lower case.
const STOP_PHRASES: [&str; 44] = [
    "stop",
    "esc",
    "abort",
    "exit",
    "interrupt",
    "halt",
    "please stop",
    "stop please",
    "stop run",
    "stop current run",
    "stop action",
    "stop current action",
    "stop agent",
    "stop the agent",
    "stop openclaw",
    "openclaw stop",
    "stop stepclaw",
    "stepclaw stop",
    "stop doing anything",
    "stop don't do anything",
    "stop dont do anything",
    "stop do not do anything",
    "do not do that",
    "stopp",
    "anhalten",
    "aufhören",
    "hör auf",
    "arrete",
    "arrête",
    "detente",
    "detén",
    "pare",
    "停止",
    "停下来",
    "暂停",
    "やめて",
    "止めて",
    "रुको",
    "توقف",
    "стоп",
    "остановись",
    "останови",
    "остановить",
    "прекрати",
];

/// The command of a message, or why it cannot be followed; `None` if it is a message for the model.
pub fn command(text: &str) -> Option<Result<Command<'_>, CommandError>> {
    let text = text.trim();
    let Some(rest) = text.strip_prefix('/') else {
        return is_stop_phrase(text).then_some(Ok(Command::Stop));
    };
    let end = rest.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(rest.len());
    let (word, rest) = rest.split_at(end);
    let rest = rest.strip_prefix(':').unwrap_or(rest).trim();
    let some = Some(rest).filter(|rest| !rest.is_empty());
    let found = match word.to_ascii_lowercase().as_str() {
        "new" => Ok(Command::New(some)),
        "reset" if is_soft(rest) => Err(CommandError::NoSoftReset),
        "reset" => Ok(Command::Reset(some)),
        "compact" => Ok(Command::Compact(some)),
        // Somebody who is in a hurry writes more than the command; it still means that.
        "stop" => Ok(Command::Stop),
        "steer" => some.map(Command::Steer).ok_or(CommandError::NoText { command: "/steer" }),
        "tell" => some.map(Command::Steer).ok_or(CommandError::NoText { command: "/tell" }),
        "queue" => queue(rest).map(Command::Queue),
        _ => return None,
    };
    Some(found)
}

fn is_soft(rest: &str) -> bool {
    rest.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("soft"))
}

fn is_stop_phrase(text: &str) -> bool {
    if text.len() > STOP_PHRASE_BYTES_MAX {
        return false;
    }
    const ENDS: &[char] = &[
        '.', '!', '?', '…', ',', ';', ':', '\'', '"', ')', ']', '}', '’', '”', '。', '！', '？',
        '，', '；', '：',
    ];
    let lower = text.to_lowercase().replace(['’', '`'], "'");
    let words: Vec<&str> = lower.split_whitespace().collect();
    let phrase = words.join(" ");
    let phrase = phrase.trim_end_matches(ENDS).trim_end();
    STOP_PHRASES.contains(&phrase)
}

fn queue(rest: &str) -> Result<QueueCommand, CommandError> {
    let mut words = rest.split_whitespace();
    let Some(first) = words.next() else { return Ok(QueueCommand::Show) };
    if ["default", "reset"].iter().any(|word| first.eq_ignore_ascii_case(word)) {
        return match words.next() {
            None => Ok(QueueCommand::Clear),
            Some(word) => Err(CommandError::UnknownOption { word: shown(word) }),
        };
    }
    let mut set = Partial::default();
    for word in std::iter::once(first).chain(words) {
        option(word, &mut set)?;
    }
    Ok(QueueCommand::Set(set))
}

/// One word of `/queue`: a mode, or `option:value`.
fn option(word: &str, set: &mut Partial) -> Result<(), CommandError> {
    let unknown = || CommandError::UnknownOption { word: shown(word) };
    let Some((name, value)) = word.split_once([':', '=']) else {
        let mode = Mode::from_word(word).ok_or_else(unknown)?;
        return put(&mut set.mode, mode, "the mode");
    };
    match name.to_ascii_lowercase().as_str() {
        "debounce" => {
            let wanted = || "a time of at most a day, as 500, 500ms, 2s or 1m".to_owned();
            let ms = time(value).ok_or_else(|| bad("debounce", value, wanted()))?;
            put(&mut set.debounce_ms, ms, "debounce")
        }
        "cap" => {
            let wanted = || format!("a number from 1 to {TURNS_CAP_MAX}");
            let cap = value.parse().ok().filter(|cap| (1..=TURNS_CAP_MAX).contains(cap));
            put(&mut set.cap, cap.ok_or_else(|| bad("cap", value, wanted()))?, "cap")
        }
        "drop" => {
            let wanted = || "old, new or summarize".to_owned();
            let drop = DropPolicy::from_word(value).ok_or_else(|| bad("drop", value, wanted()))?;
            put(&mut set.drop, drop, "drop")
        }
        _ => Err(unknown()),
    }
}

fn put<T>(place: &mut Option<T>, value: T, option: &'static str) -> Result<(), CommandError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(CommandError::Twice { option }),
    }
}

fn bad(option: &'static str, value: &str, wanted: String) -> CommandError {
    CommandError::BadValue { option, value: shown(value), wanted }
}

/// What the user wrote, for the answer: short and on one line.
fn shown(word: &str) -> String {
    word.chars().filter(|c| !c.is_control()).take(BAD_WORD_CHARS_MAX).collect()
}

/// `500`, `500ms`, `0.5s`, `1m`, `1h`, `1d` in ms; at most a day.
fn time(text: &str) -> Option<u32> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    // A few digits say all that a day in milliseconds can need; more would only overflow.
    if whole.is_empty() || whole.len() > 9 || part.len() > 6 || part.contains('.') {
        return None;
    }
    let scale = 10_u64.pow(u32::try_from(part.len()).ok()?);
    let part: u64 = if part.is_empty() { 0 } else { part.parse().ok()? };
    let ms = whole.parse::<u64>().ok()?.checked_mul(unit)? + part * unit / scale;
    u32::try_from(ms).ok().filter(|ms| *ms <= QUIET_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine(text: &str) -> Command<'_> {
        command(text).unwrap_or_else(|| panic!("{text}: no command")).unwrap()
    }

    fn wrong(text: &str) -> CommandError {
        command(text).unwrap_or_else(|| panic!("{text}: no command")).unwrap_err()
    }

    /// Z7: commands with and without a text, in any case.
    #[test]
    fn commands_are_known() {
        assert_eq!(fine("/new"), Command::New(None));
        assert_eq!(fine(" /NEW  hello\nthere "), Command::New(Some("hello\nthere")));
        assert_eq!(fine("/reset"), Command::Reset(None));
        assert_eq!(fine("/reset: now"), Command::Reset(Some("now")));
        assert_eq!(fine("/stop"), Command::Stop);
        assert_eq!(fine("/stop right now!"), Command::Stop);
        assert_eq!(fine("/steer keep it short"), Command::Steer("keep it short"));
        assert_eq!(fine("/tell a\nb"), Command::Steer("a\nb"));
        assert_eq!(wrong("/steer  "), CommandError::NoText { command: "/steer" });
        assert_eq!(wrong("/reset Soft hello"), CommandError::NoSoftReset);
        for text in ["", "/", "/newer", "/stopwatch", "new", "tell /new", "/unknown", "/ new"] {
            assert_eq!(command(text), None, "{text}");
        }
    }

    /// Z7: plain phrases stop, as whole messages only.
    #[test]
    fn plain_phrases_stop() {
        for text in
            ["stop", "STOP!!", " Please  stop. ", "abort", "exit", "don’t", "Стоп!", "停止。"]
        {
            let want = if text == "don’t" { None } else { Some(Ok(Command::Stop)) };
            assert_eq!(command(text), want, "{text}");
        }
        assert_eq!(fine("Stop, don’t do anything…".replace(',', "").as_str()), Command::Stop);
        let long = format!("stop{}", "!".repeat(STOP_PHRASE_BYTES_MAX));
        for text in ["stop the music", "how do I stop?", "wait", "nonstop", "!", &long] {
            assert_eq!(command(text), None, "{text}");
        }
        for phrase in STOP_PHRASES {
            assert_eq!(fine(phrase), Command::Stop, "{phrase}");
        }
    }

    /// Z8: every option of `/queue`.
    #[test]
    fn queue_options_are_read() {
        assert_eq!(fine("/queue"), Command::Queue(QueueCommand::Show));
        assert_eq!(fine("/queue default"), Command::Queue(QueueCommand::Clear));
        assert_eq!(fine("/queue RESET"), Command::Queue(QueueCommand::Clear));
        let set = Partial {
            mode: Some(Mode::Collect),
            debounce_ms: Some(500),
            cap: Some(25),
            drop: Some(DropPolicy::Summarize),
        };
        let text = "/queue collect debounce:0.5s cap:25 drop:summarize";
        assert_eq!(fine(text), Command::Queue(QueueCommand::Set(set)));
        let set = Partial { cap: Some(3), ..Partial::default() };
        assert_eq!(fine("/queue cap=3"), Command::Queue(QueueCommand::Set(set)));
        let set = Partial { mode: Some(Mode::Steer), ..Partial::default() };
        assert_eq!(fine("/queue queue"), Command::Queue(QueueCommand::Set(set)), "its old name");
    }

    /// Z8: times have units, and a bound.
    #[test]
    fn times_are_read() {
        for (text, ms) in
            [("500", 500), ("2s", 2_000), ("1.25s", 1_250), ("1m", 60_000), ("24h", QUIET_MAX_MS)]
        {
            assert_eq!(time(text), Some(ms), "{text}");
        }
        for text in ["", "s", "2x", "-1", "1.2.3s", "25h", "999999999d", "1e3", "٣s", ".", "1s2"] {
            assert_eq!(time(text), None, "{text}");
        }
        assert_eq!(time("0"), Some(0));
    }

    /// Z8, B209: what is wrong is said by name and never taken for a message.
    #[test]
    fn wrong_options_are_named() {
        let said = |text: &str| wrong(text).to_string();
        assert!(said("/queue later").contains("\"later\""));
        assert!(said("/queue collect speed:2").contains("\"speed:2\""));
        assert!(said("/queue cap:0").contains("from 1 to"));
        assert!(said("/queue cap:70000").contains("\"70000\""));
        assert!(said("/queue debounce:soon").contains("\"soon\""));
        assert!(said("/queue drop:all").contains("old, new or summarize"));
        assert!(said("/queue default collect").contains("\"collect\""));
        assert_eq!(wrong("/queue steer collect"), CommandError::Twice { option: "the mode" });
        assert_eq!(wrong("/queue cap:1 cap:2"), CommandError::Twice { option: "cap" });
        assert!(said(&format!("/queue {}", "x".repeat(10_000))).len() < 300);
    }
}
