//! Entry points for a fuzzer. Each takes any bytes, never panics on its own account, and asserts
//! what must hold of every answer.

use super::{check, patch, schema, spec, splice, text};
use serde_json::{Map, Value, json};

/// Arguments: any text for any core tool. What is accepted fits its schema and stays what it is
/// when it is checked again; what is refused is refused in a bounded text.
pub fn fuzz_args(data: &[u8]) {
    let specs = spec::core();
    let (first, rest) = data.split_first().unwrap_or((&0, &[]));
    let spec = &specs[usize::from(*first) % specs.len()];
    let raw = json!(String::from_utf8_lossy(rest));
    let checked = check::arguments(&spec.name, Some(&raw))
        .and_then(|args| check::check(&specs, &spec.name, &args));
    match checked {
        Ok(checked) => {
            let args = Value::Object(checked.args.clone());
            assert!(schema::validate(&spec.parameters, &args).is_empty());
            let again = check::check(&specs, &spec.name, &checked.args);
            assert_eq!(again, Ok(checked), "checking is settled after one pass");
        }
        Err(rejected) => assert!(rejected.text.chars().count() < 8_000),
    }
    // The same bytes as a schema: whatever it says, following it ends.
    if let Ok(schema) = serde_json::from_slice::<Value>(rest) {
        let once = super::coerce::coerce(&schema, Value::Object(Map::new()));
        let _ = schema::validate(&schema, &once);
    }
}

/// A patch over a text, divided by the first NUL byte. The lines of the result are lines of the
/// text or added ones, in order.
pub fn fuzz_patch(data: &[u8]) {
    let (input, original) = halves(data);
    let Ok(sections) = patch::parse(&input) else { return };
    for section in sections {
        let patch::Section::Update { chunks, .. } = section else { continue };
        let Ok(result) = patch::apply(&original, &chunks) else { continue };
        // A return at the end of a line may be its own or half of its ending: what follows decides.
        let bare = |line: &'_ str| line.trim_end_matches('\r').to_owned();
        let added = |line: &String| {
            let mut all = chunks.iter().flat_map(|chunk| &chunk.lines);
            all.any(|one| matches!(one, patch::Line::Add(text) if bare(text) == *line))
        };
        let old: Vec<String> = original.lines().map(bare).collect();
        let mut old = old.iter();
        for line in &result.lines().map(bare).collect::<Vec<_>>() {
            assert!(old.clone().any(|o| o == line) || added(line), "{line:?} came from nowhere");
            if !added(line) {
                assert!(old.any(|o| o == line), "{line:?} is out of order");
            }
        }
    }
}

/// An edit of a text: three parts divided by NUL bytes. Outside its ranges nothing changes.
pub fn fuzz_edit(data: &[u8]) {
    let (head, original) = halves(data);
    let (old, new) = halves(original.as_bytes());
    let edits = [splice::Edit { old, new: new.clone() }];
    let text = head;
    match splice::splice(&text, &edits) {
        Ok(spliced) => {
            assert_ne!(spliced.text, text);
            let (mut old_at, mut new_at) = (0, 0);
            for (range, len) in &spliced.ranges {
                let same = range.start - old_at;
                assert_eq!(text[old_at..range.start], spliced.text[new_at..new_at + same]);
                (old_at, new_at) = (range.end, new_at + same + len);
            }
            assert_eq!(text[old_at..], spliced.text[new_at..]);
        }
        Err(error) => assert!(error.to_string().len() < 4_000),
    }
    let clean = text::clean(data);
    assert!(!clean.text.chars().any(|c| c.is_control() && !"\t\r\n".contains(c)));
    assert_eq!(text::clean(clean.text.as_bytes()).text, clean.text);
}

fn halves(data: &[u8]) -> (String, String) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let mut next = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Rng;

    fn words(rng: &mut Rng, words: &[&str], most: u64) -> Vec<u8> {
        let mut data = Vec::new();
        for _ in 0..rng.below(most) {
            data.extend_from_slice(words[rng.below(words.len() as u64) as usize].as_bytes());
            if rng.below(30) == 0 {
                data.push(rng.next() as u8);
            }
        }
        data
    }

    /// tools#12.
    #[test]
    fn seeded_inputs_keep_the_promises() {
        let mut rng = Rng(77);
        let json = [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"path\"",
            "\"edits\"",
            "\"oldText\"",
            "\"newText\"",
            "\"command\"",
            "1",
            "null",
            "true",
            "\"$ref\"",
            "\"#\"",
            "\"anyOf\"",
            "\"type\"",
            "\"object\"",
            "\"\\ud83d\"",
            "{\"path\":\"a\"}",
            "{\"command\":5,\"env\":{\"A\":1}}",
        ];
        let lines = [
            "*** Add File: a\n",
            "*** Delete File: b\n",
            "@@\n",
            "@@ a\n",
            " a\n",
            "-a\n",
            "+a\n",
            " b\n",
            "-b\n",
            "+c\n",
            "+a\r\n",
            "*** End of File\n",
            "*** Move to: c\n",
            "\n",
        ];
        let body = ["a\n", "b\n", "c\n", "a \n", "\ta\r\n", "\n", "b"];
        let text =
            ["a", "b", " ", "\n", "\r\n", "\u{2019}", "'", "\u{fb01}", "fi", "\u{301}", "\0"];
        for _ in 0..400 {
            let mut data = vec![rng.below(6) as u8];
            data.extend(words(&mut rng, &json, 12));
            fuzz_args(&data);
            let mut data = b"*** Begin Patch\n*** Update File: f\n".to_vec();
            data.extend(words(&mut rng, &lines, 6));
            data.extend(b"*** End Patch\n\0");
            data.extend(words(&mut rng, &body, 8));
            fuzz_patch(&data);
            fuzz_edit(&words(&mut rng, &text, 24));
        }
    }
}
