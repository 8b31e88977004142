//! The end of a reply (semantics 11.1, spec/model.md M8 to M11): what it amounts to.

use super::super::{End, Finished, args};
use super::{API, Ended, Meta, Piecewise, Reply};
use crate::base::{FailKind, Failure, Millis};
use crate::transcript::{Assistant, Block, StopReason, Usage};

/// What the provider gives as its reason to stop.
enum Finish {
    Stop,
    Length,
    ToolUse,
    Bad(FailKind),
}

/// Decides how the reply ended.
pub(super) fn end(mut reply: Reply, meta: &Meta, why: Ended, at: Millis) -> End {
    let failure = reply.failure.take();
    let verdict = match (failure, why) {
        (_, Ended::Aborted(reason)) => {
            let failure = Failure::new(FailKind::Unknown, reason);
            return failed(reply, meta, failure, StopReason::Aborted, at);
        }
        (Some(failure), _) => Err(failure),
        (None, why) => stop_reason(&reply, &why),
    };
    match verdict.and_then(|stop| complete(&reply, stop)) {
        Ok((stop, content, bad_args)) => {
            let message = message(&reply, meta, content, stop, at);
            End::Done(Finished { message, bad_args })
        }
        Err(failure) => failed(reply, meta, failure, StopReason::Error, at),
    }
}

/// The stop reason, before the content is looked at.
fn stop_reason(reply: &Reply, why: &Ended) -> Result<Option<Finish>, Failure> {
    // A reason to stop is enough: a break behind it only costs the usage.
    if let Some(reason) = &reply.finish {
        return match finish_of(reason) {
            Finish::Bad(kind) => {
                let text = format!("The provider stopped the reply: {reason}");
                Err(Failure::new(kind, text))
            }
            good => Ok(Some(good)),
        };
    }
    if reply.done {
        return Ok(None);
    }
    Err(match why {
        Ended::Cut(text) => Failure::new(FailKind::Network, text.clone()),
        _ => match (&reply.foreign, reply.chunks) {
            (Some(line), 0) => {
                let text = format!("The provider's answer is no event stream: {line}");
                Failure::new(FailKind::MalformedResponse, text)
            }
            _ => Failure::new(FailKind::Incomplete, "Stream ended without finish_reason"),
        },
    })
}

fn finish_of(reason: &str) -> Finish {
    match reason {
        "stop" | "end" => Finish::Stop,
        "length" => Finish::Length,
        "tool_calls" | "function_call" | "tool_call" => Finish::ToolUse,
        "content_filter" => Finish::Bad(FailKind::Refusal),
        "network_error" => Finish::Bad(FailKind::Network),
        _ => Finish::Bad(FailKind::Unknown),
    }
}

type Complete = (StopReason, Vec<Block>, Vec<(u16, String)>);

/// The content of a reply that came to its end, and the stop reason that fits it.
fn complete(reply: &Reply, finish: Option<Finish>) -> Result<Complete, Failure> {
    let visible = reply.pieces.iter().any(|p| matches!(p, Piecewise::Text(t) if !blank(t)));
    let calls = !reply.calls.list.is_empty();
    let stop = match finish {
        Some(Finish::Length) => StopReason::Length,
        Some(Finish::ToolUse) | None if calls => StopReason::ToolUse,
        Some(Finish::Stop) if calls && !visible => StopReason::ToolUse,
        _ => StopReason::Stop,
    };
    if stop == StopReason::ToolUse {
        let mut content = said(reply, true);
        let bad_args = fill_args(reply, &mut content)?;
        return Ok((stop, content, bad_args));
    }
    if visible {
        return Ok((stop, said(reply, false), Vec::new()));
    }
    Err(if !reply.refusal.trim().is_empty() {
        Failure::new(FailKind::Refusal, super::excerpt(reply.refusal.trim(), 900))
    } else if stop == StopReason::Length {
        Failure::new(FailKind::Length, "The output limit was reached before any text")
    } else {
        Failure::new(FailKind::Empty, "The model's reply holds neither text nor tool calls")
    })
}

fn blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// The blocks of the reply, in the order in which they began.
fn said(reply: &Reply, with_calls: bool) -> Vec<Block> {
    let blocks = reply.pieces.iter().filter_map(|piece| match piece {
        Piecewise::Text(text) => Some(Block::text(text.clone())),
        Piecewise::Thinking(thinking) => Some(Block::Thinking { thinking: thinking.clone() }),
        Piecewise::Call(at) => {
            let call = reply.calls.list.get(*at).filter(|_| with_calls)?;
            let (id, name) = (call.id.clone(), call.name.clone());
            Some(Block::ToolCall { id, name, arguments: serde_json::Map::new() })
        }
    });
    blocks.collect()
}

/// Reads the arguments of all calls. One that cannot be read spoils the reply; one that is no
/// object is only a fault of its own call.
fn fill_args(reply: &Reply, content: &mut [Block]) -> Result<Vec<(u16, String)>, Failure> {
    let mut bad = Vec::new();
    let calls = content.iter_mut().filter_map(|block| match block {
        Block::ToolCall { arguments, .. } => Some(arguments),
        _ => None,
    });
    for (at, (arguments, call)) in calls.zip(&reply.calls.list).enumerate() {
        if call.name.is_empty() {
            let text = "The reply asks for a tool without naming it";
            return Err(Failure::new(FailKind::MalformedCalls, text));
        }
        match args::read(&call.args) {
            args::Args::Object(map) => *arguments = map,
            args::Args::NotObject(text) => {
                bad.push((u16::try_from(at).unwrap_or(u16::MAX), text));
            }
            args::Args::Broken(text) => {
                let text = format!("{}: {text}", super::excerpt(&call.name, 100));
                return Err(Failure::new(FailKind::MalformedCalls, text));
            }
        }
    }
    Ok(bad)
}

fn failed(reply: Reply, meta: &Meta, failure: Failure, stop: StopReason, at: Millis) -> End {
    let content = said(&reply, false);
    let mut message = message(&reply, meta, content, stop, at);
    message.error_message = Some(failure.message.clone());
    let code = if stop == StopReason::Aborted { "aborted" } else { failure.kind.name() };
    message.error_code = Some(code.to_owned());
    End::Failed(failure, message)
}

fn message(
    reply: &Reply,
    meta: &Meta,
    content: Vec<Block>,
    stop_reason: StopReason,
    at: Millis,
) -> Assistant {
    Assistant {
        content,
        api: API.to_owned(),
        provider: meta.provider.clone(),
        model: meta.model.clone(),
        response_model: reply.response_model.clone(),
        response_id: reply.response_id.clone(),
        usage: reply.usage.and_then(usage_of),
        stop_reason,
        error_message: None,
        error_code: None,
        timestamp: at,
    }
}

/// Token counts in our terms: `input` excludes what a cache served or stored. An object without
/// counts says nothing, which is not zero.
fn usage_of(wire: super::chunk::Usage) -> Option<Usage> {
    wire.prompt_tokens.0.or(wire.completion_tokens.0).or(wire.total_tokens.0)?;
    let details = wire.prompt_tokens_details.unwrap_or_default();
    let hit = wire.prompt_cache_hit_tokens.or_zero();
    let cache_read = details.cached_tokens.0.unwrap_or(hit);
    let created = wire.cache_creation_input_tokens.or_zero();
    let cache_write = details.cache_write_tokens.0.unwrap_or(created);
    let prompt = wire.prompt_tokens.or_zero();
    let input = prompt.saturating_sub(cache_read).saturating_sub(cache_write);
    let output = wire.completion_tokens.or_zero();
    let sum = input.saturating_add(output).saturating_add(cache_read).saturating_add(cache_write);
    let total_tokens = wire.total_tokens.0.filter(|n| *n > 0).unwrap_or(sum);
    Some(Usage { input, output, cache_read, cache_write, total_tokens })
}
