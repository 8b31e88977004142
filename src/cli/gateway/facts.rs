//! What the gateway tells of the process and its configuration.

use crate::base::id;
use crate::config::{self, Config, Paths};
use crate::gateway::{ConfigFacts, Facts, ModelFacts, Pages, ToolFacts};
use crate::model::catalog::{Backend, Resolved};
use crate::reactor::{Outfit, entropy};
use serde_json::Value;

/// Collects it.
pub(super) fn collect(
    agent: &str,
    config: &Config,
    paths: &Paths,
    outfit: &Outfit,
    model: &Resolved,
) -> Facts {
    let mut models: Vec<ModelFacts> = config.providers.iter().flat_map(configured).collect();
    let offline = crate::model::catalog::all(config).into_iter();
    models.extend(offline.filter(|m| m.backend == Backend::Scripted).map(|m| ModelFacts {
        provider: m.provider,
        id: m.model,
        name: "offline script".to_owned(),
        window: m.context_window,
        reasoning: false,
        images: false,
        tools: true,
    }));
    let tool = |spec: &crate::tools::ToolSpec| ToolFacts {
        name: spec.name.clone(),
        description: spec.description.clone(),
        safe: spec.replay_safe,
    };
    Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: id::hex(&entropy::<8>()),
        pid: std::process::id(),
        host: host(),
        platform: std::env::consts::OS.to_owned(),
        agent: agent.to_owned(),
        model: model.reference.clone(),
        models,
        tools: outfit.specs.iter().map(tool).collect(),
        workspace: outfit.cwd.to_string_lossy().into_owned(),
        state_dir: paths.state.to_string_lossy().into_owned(),
        database: outfit.database.to_string_lossy().into_owned(),
        config: ConfigFacts {
            path: paths.config.to_string_lossy().into_owned(),
            effective: marked(config::show(config)),
            made_at: jiff::Timestamp::now().to_string(),
        },
        auth_mode: "none",
        http: Pages {
            ui: config.network.ui,
            ui_root: config.network.ui_root.is_some(),
            base: config.network.ui_base.clone(),
            chat: config.network.chat_completions,
        },
    }
}

fn configured(provider: &config::Provider) -> impl Iterator<Item = ModelFacts> + '_ {
    provider.models.iter().map(|model| ModelFacts {
        provider: provider.id.clone(),
        id: model.id.clone(),
        name: model.name.clone(),
        window: model.context_window,
        reasoning: model.reasoning,
        images: model.compat.encoding.images,
        tools: model.compat.tools,
    })
}

/// What is shown to people as left out is marked for clients as they know it.
fn marked(value: Value) -> Value {
    match value {
        Value::String(text) if text == "[redacted]" => config::REDACTED.into(),
        Value::Array(items) => items.into_iter().map(marked).collect(),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(key, value)| (key, marked(value))).collect())
        }
        value => value,
    }
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}
