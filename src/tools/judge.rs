//! From a finished reply to what the engine is given: calls resolved, coerced, and their facts.

use super::{ToolSpec, check};
use crate::base::json::{canonical, hash64};
use crate::transcript::{Block, CallFacts, Check, Finished, RejectKind, ReplyBody, ToolOutput};
use serde_json::{Map, Value};

/// Arguments that do not change what a call does: the loop detector leaves them out.
const COSMETIC: &[&str] = &["title"];

/// Judges every call of a reply.
#[must_use]
pub fn judge(finished: Finished, specs: &[ToolSpec]) -> ReplyBody {
    let mut checks = Vec::new();
    let mut facts = Vec::new();
    for (index, (_, name, raw)) in finished.message.calls().enumerate() {
        let bad = finished.bad_args.iter().find(|(i, _)| usize::from(*i) == index);
        let (verdict, fact) = one(name, raw, bad.map(|(_, text)| text.as_str()), specs);
        checks.push(verdict);
        facts.push(fact);
    }
    ReplyBody::new(finished.message, checks, facts)
}

fn one(
    name: &str,
    raw: &Map<String, Value>,
    bad: Option<&str>,
    specs: &[ToolSpec],
) -> (Check, CallFacts) {
    let tool = hash64(name);
    let named = specs.iter().find(|s| s.name == name);
    let (sequential, poll) = named.map_or((false, false), |s| (s.sequential, s.poll));
    let rejected = |kind, text: String, args| {
        let facts = CallFacts { tool, args, sequential, poll, rejected: Some(kind) };
        (Check::Rejected(text), facts)
    };
    if let Some(text) = bad {
        return rejected(RejectKind::Invalid, text.to_owned(), hash64(text));
    }
    match check(specs, name, raw) {
        Err(no) => rejected(no.kind, no.text, args_hash(raw, None)),
        Ok(checked) => {
            let spec = &specs[checked.index];
            let facts = CallFacts {
                tool,
                args: args_hash(&checked.args, Some(spec)),
                sequential,
                poll,
                rejected: None,
            };
            (Check::Ready(checked.args), facts)
        }
    }
}

/// Hash of what matters of the arguments: known parameters without the cosmetic ones.
fn args_hash(args: &Map<String, Value>, spec: Option<&ToolSpec>) -> u64 {
    let known = spec.map(|s| &s.parameters["properties"]);
    let matters = |key: &str| {
        !COSMETIC.contains(&key) && known.is_none_or(|properties| !properties[key].is_null())
    };
    let kept: Map<String, Value> = args
        .iter()
        .filter(|(key, _)| matters(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    hash64(&canonical(&Value::Object(kept)))
}

/// Hash of a result, for the loop detector: what the model sees of it.
#[must_use]
pub fn result_hash(output: &ToolOutput) -> u64 {
    let mut seen = String::new();
    for block in &output.content {
        match block {
            Block::Text { text } => seen.push_str(text),
            Block::Image { data, .. } => seen.push_str(data),
            Block::Thinking { .. } | Block::ToolCall { .. } => {}
        }
        seen.push('\u{1f}');
    }
    if output.is_error {
        seen.push('!');
    }
    hash64(&seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B118: a title that differs each time does not make another call of it.
    #[test]
    fn b118_cosmetic_arguments_do_not_count() {
        let specs = super::super::core();
        let args = |title: &str| -> Map<String, Value> {
            let value = serde_json::json!({"command": "echo noop", "title": title, "odd": title});
            value.as_object().unwrap().clone()
        };
        let (_, one_facts) = one("exec", &args("noop1"), None, &specs);
        let (_, two_facts) = one("exec", &args("noop2"), None, &specs);
        assert_eq!(one_facts, two_facts);
        assert_eq!(one_facts.rejected, None);
    }

    /// B115: arguments that are JSON but no object are that call's error, with a bounded text.
    #[test]
    fn b115_bad_arguments_are_one_calls_error() {
        let specs = super::super::core();
        let (verdict, facts) =
            one("read", &Map::new(), Some("Arguments must be an object"), &specs);
        assert!(matches!(verdict, Check::Rejected(text) if text.contains("object")));
        assert_eq!(facts.rejected, Some(RejectKind::Invalid));
    }
}
