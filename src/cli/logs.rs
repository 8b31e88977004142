//! Reading the gateway's log, for `logs.tail` and for `stepclaw logs`.

use super::args::LogsArgs;
use super::client::{ANSWER, Client, running};
use super::config::loaded;
use super::{Done, FAILED, Failed, print_all};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of the log that are read at once.
const BYTES: u64 = 1_000_000;
/// How often a log that is followed is looked at.
const PAUSE: Duration = Duration::from_millis(500);

/// Where the log of a state directory is.
pub(super) fn file(state: &Path) -> PathBuf {
    state.join("logs").join("gateway.log")
}

/// Where the former one is.
pub(super) fn former(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

/// Whole lines of the log, as `logs.tail` tells them: from `cursor` on, else the last ones. Where
/// the cursor does not fit the file any more (it was begun anew), or too much has come since, the
/// last ones too, and `reset` says so.
pub(super) fn tail(
    path: &Path,
    cursor: Option<u64>,
    limit: u64,
    bytes: u64,
) -> std::io::Result<Value> {
    let shown = path.to_string_lossy();
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Ok(json!({"file": shown, "cursor": 0, "size": 0, "lines": [],
                "reset": cursor.is_some_and(|cursor| cursor > 0)}));
        }
        Err(e) => return Err(e),
    };
    let size = file.metadata()?.len();
    let mut reset = false;
    let mut from = match cursor {
        Some(cursor) if cursor <= size && ends_a_line(&mut file, cursor)? => cursor,
        Some(_) => {
            reset = true;
            0
        }
        None => 0,
    };
    let mut skipped = 0;
    if size - from > bytes {
        if cursor.is_some() && !reset {
            (reset, skipped) = (true, size - bytes - from);
        }
        from = size - bytes;
    }
    file.seek(SeekFrom::Start(from))?;
    let mut read = Vec::new();
    file.take(size - from).read_to_end(&mut read)?;
    let mut begin = 0;
    if from > 0 && cursor != Some(from) {
        // A line that was cut is none.
        begin = read.iter().position(|b| *b == b'\n').map_or(read.len(), |at| at + 1);
    }
    // A line that is being written is told when it is whole.
    let end = read.iter().rposition(|b| *b == b'\n').map_or(begin, |at| at + 1).max(begin);
    let text = String::from_utf8_lossy(&read[begin..end]).into_owned();
    let all: Vec<&str> = text.lines().collect();
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let left = all.len().saturating_sub(most);
    let mut answer = json!({
        "file": shown, "size": size, "lines": all[left..],
        "cursor": from + u64::try_from(end).unwrap_or(0),
        "truncated": left > 0 || skipped > 0 || (cursor.is_none() && from > 0), "reset": reset,
    });
    if skipped > 0 {
        answer["skippedBytes"] = skipped.into();
    }
    Ok(answer)
}

/// Whether a line ends there: else the cursor belongs to another file.
fn ends_a_line(file: &mut File, at: u64) -> std::io::Result<bool> {
    let Some(before) = at.checked_sub(1) else { return Ok(true) };
    let mut byte = [0];
    file.seek(SeekFrom::Start(before))?;
    file.read_exact(&mut byte)?;
    Ok(byte == *b"\n")
}

/// `stepclaw logs`: through the gateway that runs, else from the file.
pub(super) fn run(args: &LogsArgs) -> Done {
    let (paths, config) = loaded()?;
    let path = file(&paths.state);
    let mut client = None;
    let (mut cursor, mut limit) = (None, args.limit);
    loop {
        if client.is_none() && running(&paths).is_some() {
            client = Some(Client::connect(&config, &paths)?);
        }
        let answer = match &mut client {
            Some(client) => {
                let mut params = json!({"limit": limit, "maxBytes": BYTES});
                if let Some(cursor) = cursor {
                    params["cursor"] = json!(cursor);
                }
                client.call("logs.tail", &params, ANSWER)
            }
            None => tail(&path, cursor, limit, BYTES)
                .map_err(|e| Failed::new(FAILED, format!("{}: {e}", path.display()))),
        };
        let answer = match answer {
            Ok(answer) => answer,
            // The gateway has ended meanwhile: its file is still there.
            Err(_) if client.is_some() && running(&paths).is_none() => {
                client = None;
                continue;
            }
            Err(failed) => return Err(failed),
        };
        if answer["reset"] == true && cursor.is_some() {
            eprintln!("stepclaw: the log goes on elsewhere; some lines may be missing here");
        }
        let lines = answer["lines"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let text: String = lines.map(|line| shown(line, args.json) + "\n").collect();
        let done = print_all(text.as_bytes())?;
        if !args.follow {
            return Ok(done);
        }
        (cursor, limit) = (answer["cursor"].as_u64(), 5_000);
        std::thread::sleep(PAUSE);
    }
}

/// A line for people.
fn shown(line: &str, as_json: bool) -> String {
    let parsed: Option<Value> = serde_json::from_str(line).ok();
    let Some(value) = parsed.filter(|_| !as_json) else { return line.to_owned() };
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let words = super::visible(&text("message"));
    format!("{} {:<5} {:<11} {words}", text("time"), text("level"), text("subsystem"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Y22: a log is read from its end, on from a cursor, and anew where the cursor does not fit.
    #[test]
    fn a_log_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let none = tail(&path, None, 10, 100).unwrap();
        assert_eq!((&none["size"], &none["lines"]), (&json!(0), &json!([])));
        std::fs::write(&path, "one\ntwo\nthree\nfo").unwrap();
        let first = tail(&path, None, 2, 100).unwrap();
        assert_eq!(first["lines"], json!(["two", "three"]), "{first}");
        assert_eq!((&first["truncated"], &first["cursor"]), (&json!(true), &json!(14)));
        std::fs::write(&path, "one\ntwo\nthree\nfour\n").unwrap();
        let next = tail(&path, Some(14), 10, 100).unwrap();
        assert_eq!((&next["lines"], &next["reset"]), (&json!(["four"]), &json!(false)), "{next}");
        assert_eq!(tail(&path, Some(19), 10, 100).unwrap()["lines"], json!([]));
        for wrong in [15, 99] {
            let again = tail(&path, Some(wrong), 10, 100).unwrap();
            assert_eq!((&again["reset"], &again["lines"][0]), (&json!(true), &json!("one")));
        }
        let much = tail(&path, Some(4), 10, 7).unwrap();
        assert_eq!(much["lines"], json!(["four"]), "{much}");
        assert_eq!((&much["reset"], &much["skippedBytes"]), (&json!(true), &json!(8)));
        let few = tail(&path, None, 10, 7).unwrap();
        assert_eq!((&few["lines"], &few["truncated"]), (&json!(["four"]), &json!(true)));
    }
}
