//! The effective config for people: every setting with its value, secrets left out.

use super::{Config, Deferred, Model, Provider, Synchronous};
use crate::model::wire::openai::API;
use crate::model::wire::request::{IdStyle, MaxTokensField, NoText};
use serde_json::{Map, Value, json};

/// The config as JSON in OpenClaw's shape. Credentials and headers read `[redacted]`; settings
/// whose variable is missing say so.
#[must_use]
pub fn show(config: &Config) -> Value {
    let providers: Map<String, Value> =
        config.providers.iter().map(|p| (p.id.clone(), provider(p))).collect();
    let synchronous = match config.store.synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    };
    let tools = &config.tools;
    json!({
        "models": { "providers": providers },
        "agents": { "defaults": {
            "model": config.agent.model,
            "workspace": config.agent.workspace,
            "timeoutSeconds": config.agent.timeout_seconds,
        }},
        "tools": {
            "exec": {
                "timeoutSeconds": tools.exec_timeout_seconds,
                "applyPatch": {
                    "enabled": tools.apply_patch,
                    "workspaceOnly": tools.apply_patch_workspace_only,
                },
            },
            "loopDetection": { "enabled": tools.loop_detection },
        },
        "store": { "synchronous": synchronous },
    })
}

fn provider(provider: &Provider) -> Value {
    let headers: Map<String, Value> =
        provider.headers.iter().map(|(name, value)| (name.clone(), hidden(value))).collect();
    json!({
        "baseUrl": match provider.base_url.get() {
            Ok(url) => json!(bare(url.expose())),
            Err(error) => json!(format!("[missing: {}]", error.name)),
        },
        "api": API,
        "apiKey": provider.api_key.as_ref().map(hidden),
        "headers": headers,
        "models": provider.models.iter().map(model).collect::<Vec<Value>>(),
    })
}

/// An address without what may be a credential in it: user, password, query.
fn bare(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        None => url.to_owned(),
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..end].rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{}", &rest[end..])
        }
    }
}

fn hidden(value: &Deferred) -> Value {
    match value.get() {
        Ok(secret) => json!(secret),
        Err(error) => json!(format!("[missing: {}]", error.name)),
    }
}

fn model(model: &Model) -> Value {
    let compat = &model.compat;
    let input: &[&str] = if compat.encoding.images { &["text", "image"] } else { &["text"] };
    json!({
        "id": model.id,
        "name": model.name,
        "contextWindow": model.context_window,
        "maxTokens": model.max_tokens,
        "reasoning": model.reasoning,
        "input": input,
        "compat": {
            "supportsStore": compat.store,
            "supportsDeveloperRole": compat.developer_role,
            "supportsUsageInStreaming": compat.usage,
            "supportsTools": compat.tools,
            "maxTokensField": match compat.max_tokens_field {
                MaxTokensField::MaxTokens => "max_tokens",
                MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
            },
            "requiresToolResultName": compat.encoding.result_name,
            "requiresAssistantAfterToolResult": compat.encoding.assistant_after_result,
            "requiresMistralToolIds": compat.encoding.ids == IdStyle::Nine,
            "requiresStringContent": compat.encoding.string_content,
            "emptyAssistantContent": match compat.encoding.no_text {
                NoText::Null => "null",
                NoText::Empty => "empty",
                NoText::Omitted => "omit",
            },
        },
    })
}
