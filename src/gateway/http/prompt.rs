//! A body of chat completions, taken apart (J7, J8).

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Fields that say how a model is to be called. The agent's own settings hold; the answer names
/// them in a header.
const HINTS: [&str; 17] = [
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "verbosity",
    "store",
    "metadata",
    "service_tier",
    "parallel_tool_calls",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
];

/// What is asked for.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Prompt {
    pub model: String,
    pub user: Option<String>,
    pub stream: bool,
    /// The stream ends with a piece about tokens.
    pub usage: bool,
    /// The message for the agent.
    pub text: String,
    /// Pictures of the last message, as data URLs.
    pub pictures: Vec<String>,
    /// Hints that were given.
    pub hints: Vec<&'static str>,
}

/// What is wrong with a body, and with which of its fields.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{words}")]
pub(super) struct Unfit {
    pub words: String,
    pub param: String,
}

fn unfit(param: &str, words: &str) -> Unfit {
    Unfit { words: format!("{param}: {words}"), param: param.to_owned() }
}

/// Reads a body.
///
/// # Errors
/// The first field that is wrong or is not supported.
pub(super) fn read(body: &Map<String, Value>) -> Result<Prompt, Unfit> {
    let mut prompt = Prompt {
        model: "openclaw".to_owned(),
        user: None,
        stream: false,
        usage: false,
        text: String::new(),
        pictures: vec![],
        hints: vec![],
    };
    for (name, value) in body.iter().filter(|(_, value)| !value.is_null()) {
        match name.as_str() {
            "messages" => {}
            "model" => prompt.model = text(name, value)?.trim().to_owned(),
            "user" => prompt.user = Some(text(name, value)?.to_owned()),
            "stream" => prompt.stream = flag(name, value)?,
            "stream_options" => prompt.usage = stream_options(value)?,
            other => match HINTS.iter().find(|hint| **hint == other) {
                Some(hint) => prompt.hints.push(hint),
                None if means_nothing(other, value) => {}
                None if known(other) => return Err(unfit(other, "is not supported")),
                None => return Err(unfit(other, "is not known")),
            },
        }
    }
    messages(body.get("messages"), &mut prompt)?;
    Ok(prompt)
}

fn text<'v>(name: &str, value: &'v Value) -> Result<&'v str, Unfit> {
    value.as_str().ok_or_else(|| unfit(name, "must be a string"))
}

fn flag(name: &str, value: &Value) -> Result<bool, Unfit> {
    value.as_bool().ok_or_else(|| unfit(name, "must be true or false"))
}

fn stream_options(value: &Value) -> Result<bool, Unfit> {
    let Some(options) = value.as_object() else {
        return Err(unfit("stream_options", "must be an object"));
    };
    let mut usage = false;
    for (name, value) in options {
        match name.as_str() {
            "include_usage" => usage = flag("stream_options.include_usage", value)?,
            "include_obfuscation" if *value == false => {}
            other => return Err(unfit(&format!("stream_options.{other}"), "is not supported")),
        }
    }
    Ok(usage)
}

/// A field of the API that would change what the answer means.
fn known(name: &str) -> bool {
    const KNOWN: [&str; 14] = [
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "n",
        "response_format",
        "stop",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "modalities",
        "audio",
        "prediction",
        "web_search_options",
    ];
    KNOWN.contains(&name)
}

/// A field whose value asks for what is done anyway.
fn means_nothing(name: &str, value: &Value) -> bool {
    let empty =
        value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty);
    match name {
        "n" => *value == 1,
        "tools" | "functions" | "stop" | "logit_bias" => empty,
        "tool_choice" | "function_call" => *value == "none" || *value == "auto",
        "response_format" => value["type"] == "text",
        "logprobs" => *value == false,
        "top_logprobs" => *value == 0,
        "modalities" => value.as_array().is_some_and(|list| list.iter().all(|one| one == "text")),
        _ => false,
    }
}

/// A message as text.
struct Said<'v> {
    who: &'static str,
    text: String,
    pictures: Vec<&'v str>,
}

fn messages(value: Option<&Value>, prompt: &mut Prompt) -> Result<(), Unfit> {
    let list = value.and_then(Value::as_array).filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| unfit("messages", "must be a list with a message"))?;
    let said: Result<Vec<Said<'_>>, Unfit> =
        list.iter().enumerate().map(|(n, message)| read_message(n, message)).collect();
    let mut said = said?;
    let last = said.pop().filter(|last| last.who == "User");
    let last = last.ok_or_else(|| unfit("messages", "the last message must be the user's"))?;
    if last.text.trim().is_empty() && last.pictures.is_empty() {
        return Err(unfit("messages", "the last message is empty"));
    }
    prompt.text = joined(&said, &last.text);
    prompt.pictures = last.pictures.into_iter().map(str::to_owned).collect();
    Ok(())
}

/// The last message, with what was said before it in front (J8).
fn joined(before: &[Said<'_>], last: &str) -> String {
    let mut text = String::new();
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(text, "[{title}]\n{}\n\n", lines.join("\n\n"));
        }
    };
    let (rules, turns): (Vec<&Said<'_>>, Vec<&Said<'_>>) =
        before.iter().partition(|said| said.who == "System");
    section("Instructions of the client", rules.iter().map(|said| said.text.clone()).collect());
    let turn = |said: &&Said<'_>| {
        let pictures = if said.pictures.is_empty() { "" } else { " [with a picture]" };
        format!("{}: {}{pictures}", said.who, said.text)
    };
    section("The conversation so far", turns.iter().map(turn).collect());
    if text.is_empty() {
        return last.to_owned();
    }
    let _ = write!(text, "[The message to answer]\n{last}");
    text
}

fn read_message(n: usize, message: &Value) -> Result<Said<'_>, Unfit> {
    let at = |rest: &str| format!("messages[{n}]{rest}");
    let who = match message["role"].as_str() {
        Some("system" | "developer") => "System",
        Some("user") => "User",
        Some("assistant") => "Assistant",
        Some("tool" | "function") => "Tool",
        Some(_) => return Err(unfit(&at(".role"), "is not known")),
        None => return Err(unfit(&at(".role"), "must be a string")),
    };
    let mut said = Said { who, text: String::new(), pictures: vec![] };
    match &message["content"] {
        Value::String(text) => said.text = text.clone(),
        // An answer that only called tools has no words.
        Value::Null if who == "Assistant" => {}
        Value::Array(parts) => {
            for (m, part) in parts.iter().enumerate() {
                read_part(&at(&format!(".content[{m}]")), part, &mut said)?;
            }
        }
        _ => return Err(unfit(&at(".content"), "must be a string or a list of parts")),
    }
    if said.text.contains('\0') {
        return Err(unfit(&at(".content"), "has a NUL character"));
    }
    Ok(said)
}

fn read_part<'v>(at: &str, part: &'v Value, said: &mut Said<'v>) -> Result<(), Unfit> {
    match part["type"].as_str() {
        Some("text" | "input_text" | "refusal") => {
            let text = part["text"].as_str().or_else(|| part["refusal"].as_str());
            let text = text.ok_or_else(|| unfit(&format!("{at}.text"), "must be a string"))?;
            if !said.text.is_empty() {
                said.text.push('\n');
            }
            said.text.push_str(text);
        }
        Some("image_url") => {
            let url = &part["image_url"];
            let url = url.as_str().or_else(|| url["url"].as_str()).unwrap_or_default();
            if !url.starts_with("data:") {
                let words = "pictures come as data: URLs; none is fetched from the network";
                return Err(unfit(&format!("{at}.image_url.url"), words));
            }
            said.pictures.push(url);
        }
        _ => return Err(unfit(&format!("{at}.type"), "only text and image_url are supported")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(body: &Value) -> Result<Prompt, Unfit> {
        read(body.as_object().unwrap())
    }

    fn said(messages: Value) -> String {
        of(&json!({ "messages": messages })).unwrap().text
    }

    /// J8: a lone message goes as it is; what was said before it stands in front.
    #[test]
    fn earlier_turns_stand_in_front() {
        let user = json!({"role": "user", "content": "now"});
        assert_eq!(said(json!([user])), "now");
        let part = |text: &str| json!({"type": "text", "text": text});
        let text = said(json!([
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [part("a"), part("b")]},
            {"role": "assistant", "content": null},
            {"role": "tool", "content": "t", "tool_call_id": "1"},
            {"role": "developer", "content": "be kind"},
            user,
        ]));
        let want = "[Instructions of the client]\nbe brief\n\nbe kind\n\n[The conversation so \
                    far]\nUser: a\nb\n\nAssistant: \n\nTool: t\n\n[The message to answer]\nnow";
        assert_eq!(text, want);
    }

    /// J7: what would change the answer's meaning is refused by name; what asks for nothing is not.
    #[test]
    fn fields_are_judged() {
        let with = |name: &str, value: Value| {
            let user = json!({"role": "user", "content": "x"});
            let mut body = json!({ "messages": [user] });
            body[name] = value;
            of(&body)
        };
        for (name, bad, fine) in [
            ("tools", json!([{}]), json!([])),
            ("n", json!(2), json!(1)),
            ("response_format", json!({"type": "json_object"}), json!({"type": "text"})),
            ("stop", json!("x"), json!([])),
            ("logprobs", json!(true), json!(false)),
            ("modalities", json!(["audio"]), json!(["text"])),
            ("tool_choice", json!("required"), json!("none")),
            ("stream", json!("yes"), json!(true)),
            ("stream_options", json!({"x": 1}), json!({"include_usage": true})),
            ("bogus", json!(1), Value::Null),
        ] {
            assert_eq!(with(name, bad).unwrap_err().param.split('.').next(), Some(name));
            assert!(with(name, fine).is_ok(), "{name}");
        }
        assert_eq!(with("seed", json!(1)).unwrap().hints, ["seed"]);
        let words = with("bogus", json!(1)).unwrap_err().to_string();
        assert_eq!(words, "bogus: is not known");
    }

    /// J7, J8: messages that cannot be answered.
    #[test]
    fn messages_are_judged() {
        let user = |content: Value| json!([{"role": "user", "content": content}]);
        for (messages, param) in [
            (json!([]), "messages"),
            (json!("x"), "messages"),
            (json!([{"role": "assistant", "content": "x"}]), "messages"),
            (json!([{"role": "robot", "content": "x"}]), "messages[0].role"),
            (json!([{"content": "x"}]), "messages[0].role"),
            (user(json!(" ")), "messages"),
            (user(json!(1)), "messages[0].content"),
            (user(json!("a\0b")), "messages[0].content"),
            (user(json!([{"type": "input_audio"}])), "messages[0].content[0].type"),
            (
                user(json!([{"type": "image_url", "image_url": {"url": "https://x/y.png"}}])),
                "messages[0].content[0].image_url.url",
            ),
        ] {
            assert_eq!(of(&json!({ "messages": messages })).unwrap_err().param, param);
        }
        let url = "data:image/png;base64,AAAA";
        let part = json!([{"type": "image_url", "image_url": {"url": url}}]);
        assert_eq!(of(&json!({"messages": user(part)})).unwrap().pictures, [url]);
    }
}
