//! The effective config for people: every setting with its value, secrets left out.

use super::{
    Bind, Config, Deferred, Injection, Model, Network, Provider, Queue, Session, Synchronous,
};
use crate::base::key::MAIN;
use crate::engine::turns::{Partial, resolve};
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
            "skipBootstrap": config.agent.skip_bootstrap,
            "contextInjection": match config.agent.injection {
                Injection::Always => "always",
                Injection::Never => "never",
            },
            "bootstrapMaxChars": config.agent.bootstrap_max_chars,
            "bootstrapTotalMaxChars": config.agent.bootstrap_total_max_chars,
            "maxConcurrent": config.lanes.main,
            "compaction": {
                "enabled": config.agent.compaction.enabled,
                "reserveTokens": config.agent.compaction.reserve_tokens,
                "keepRecentTokens": config.agent.compaction.keep_recent_tokens,
                "midTurnPrecheck": { "enabled": config.agent.compaction.mid_turn },
            },
            "subagents": { "maxConcurrent": config.lanes.subagent },
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
        "messages": { "queue": queue(&config.queue) },
        "session": session(&config.session),
        "cron": { "maxConcurrentRuns": config.lanes.cron },
        "diagnostics": {
            "stuckSessionWarnMs": config.watch.warn_ms,
            "stuckSessionAbortMs": config.watch.abort_ms,
        },
        "store": { "synchronous": synchronous },
        "logging": { "level": config.log.word() },
        "gateway": network(&config.network),
    })
}

fn network(network: &Network) -> Value {
    let hidden = |secret: &Option<Deferred>| secret.as_ref().map(|_| "[redacted]");
    let mut auth = Map::new();
    let mode = network.auth_mode.as_deref();
    let secrets = [("token", hidden(&network.token)), ("password", hidden(&network.password))];
    for (name, value) in [("mode", mode)].into_iter().chain(secrets) {
        if let Some(value) = value {
            auth.insert(name.to_owned(), value.into());
        }
    }
    let bind = match &network.bind {
        Bind::Loopback => "loopback",
        Bind::Lan => "lan",
        Bind::Custom(_) => "custom",
    };
    let mut value = json!({
        "port": network.port, "bind": bind,
        "auth": auth,
        "controlUi": {
            "enabled": network.ui,
            "allowedOrigins": network.origins,
            "dangerouslyAllowHostHeaderOriginFallback": network.host_origin,
        },
        "nodes": { "pairing": { "autoApproveLocal": network.auto_approve_local } },
        "http": { "endpoints": {
            "chatCompletions": { "enabled": network.chat_completions },
        }},
    });
    if !network.ui_base.is_empty() {
        value["controlUi"]["basePath"] = network.ui_base.as_str().into();
    }
    if let Some(root) = &network.ui_root {
        value["controlUi"]["root"] = root.as_str().into();
    }
    if let Bind::Custom(address) = network.bind {
        value["customBindHost"] = address.to_string().into();
    }
    value
}

fn queue(queue: &Queue) -> Value {
    let none = Partial::default();
    let all = resolve(&none, &none, &none, None, &queue.all);
    let mut value = json!({
        "mode": all.mode.word(), "debounceMs": all.debounce_ms, "cap": all.cap,
        "drop": all.drop.word(),
    });
    let channels = queue.by_channel.iter();
    let modes: Map<String, Value> = channels
        .clone()
        .filter_map(|(name, of)| Some((name.clone(), json!(of.mode?.word()))))
        .collect();
    let quiet: Map<String, Value> =
        channels.filter_map(|(name, of)| Some((name.clone(), json!(of.debounce_ms?)))).collect();
    value["byChannel"] = modes.into();
    value["debounceMsByChannel"] = quiet.into();
    value
}

fn session(session: &Session) -> Value {
    let links: Map<String, Value> =
        session.links.iter().map(|(name, peers)| (name.clone(), json!(peers))).collect();
    let policy = &session.reset;
    let mut reset = json!({ "mode": match (policy.daily_hour, policy.idle_minutes) {
        (Some(_), _) => "daily",
        (None, Some(_)) => "idle",
        (None, None) => "none",
    }});
    if let Some(hour) = policy.daily_hour {
        reset["atHour"] = hour.into();
    }
    if let Some(minutes) = policy.idle_minutes {
        reset["idleMinutes"] = minutes.into();
    }
    json!({
        "mainKey": session.main_key.as_deref().unwrap_or(MAIN),
        "dmScope": session.scopes.dm.word(),
        "groupScope": session.scopes.group.word(),
        "identityLinks": links,
        "reset": reset,
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
