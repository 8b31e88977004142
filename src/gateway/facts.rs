//! What the gateway knows of the process and its configuration: collected at the edge, told to
//! clients.

use super::http::Pages;
use serde_json::Value;

/// A model as clients are shown it.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelFacts {
    /// Its provider's id.
    pub provider: String,
    /// Its id at the provider.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Tokens that fit its window.
    pub window: u64,
    /// Whether it shows reasoning.
    pub reasoning: bool,
    /// Whether it sees pictures.
    pub images: bool,
    /// Whether it calls tools.
    pub tools: bool,
}

impl ModelFacts {
    /// `provider/model`.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }
}

/// A tool as clients are shown it.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolFacts {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Whether it changes nothing.
    pub safe: bool,
}

/// The configuration as clients are shown it: secrets are left out at the edge.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ConfigFacts {
    /// The file.
    pub path: String,
    /// What holds.
    pub effective: Value,
    /// When this was collected, as people write a time.
    pub made_at: String,
}

/// Everything that does not change while the process lives, but for the configuration.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    /// This program's version.
    pub version: String,
    /// This start of it.
    pub boot_id: String,
    /// The process.
    pub pid: u32,
    /// The machine's name.
    pub host: String,
    /// Its system, as `linux`.
    pub platform: String,
    /// The agent that is served.
    pub agent: String,
    /// The reference of the model that holds where nothing else is set.
    pub model: String,
    /// Every model that can be called.
    pub models: Vec<ModelFacts>,
    /// The tools of a run.
    pub tools: Vec<ToolFacts>,
    /// Where the agent works.
    pub workspace: String,
    /// Where everything is stored.
    pub state_dir: String,
    /// The agent's database.
    pub database: String,
    /// The configuration.
    pub config: ConfigFacts,
    /// How clients show who they are: `none`, `token` or `password`.
    pub auth_mode: &'static str,
    /// What is served by HTTP.
    pub http: Pages,
}

impl Facts {
    /// The model of that reference.
    #[must_use]
    pub fn model_of(&self, reference: &str) -> Option<&ModelFacts> {
        self.models.iter().find(|model| model.reference() == reference)
    }

    /// The key of the agent's main conversation.
    #[must_use]
    pub fn main_key(&self) -> String {
        format!("agent:{}:main", self.agent)
    }
}
