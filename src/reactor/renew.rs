//! Another configuration for a loop that goes on (O20).

use super::links::{Observer, Outfit};
use super::{Reactor, ReactorError};
use crate::engine::Setup;
use crate::engine::sessions::{Input, Options};
use crate::model::catalog::Resolved;

/// What holds for everything that begins from now on.
#[derive(Debug)]
pub struct Renewal {
    /// How sessions are treated.
    pub options: Options,
    /// Options of every run.
    pub setup: Setup,
    /// The model where nothing else is set.
    pub model: Resolved,
    /// Models that a session may be set to.
    pub models: Vec<Resolved>,
    /// Of this: the tools, the system prompt, what commands see of the environment, and their
    /// limits. Where everything is stays as it was.
    pub outfit: Outfit,
}

impl Reactor {
    /// Takes up another configuration. What runs goes on with its model and its tools.
    ///
    /// # Errors
    /// When the loop itself cannot go on.
    pub fn renew(
        &mut self,
        renewal: Renewal,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let Renewal { options, setup, model, models, outfit } = renewal;
        (self.setup, self.model, self.models) = (setup, model, models);
        let own = &mut self.links.outfit;
        (own.env, own.specs, own.prompter) = (outfit.env, outfit.specs, outfit.prompter);
        (own.exec_timeout_s, own.compaction) = (outfit.exec_timeout_s, outfit.compaction);
        own.workspace_only_patch = outfit.workspace_only_patch;
        self.links.overhead = super::compact::overhead(&own.specs);
        // What was read ahead belongs to the former model.
        self.ahead = None;
        self.daily_hour = options.reset.daily_hour;
        if self.daily_hour.is_some() {
            self.zone = jiff::tz::TimeZone::system();
        }
        self.decide(Input::Configure(Box::new(options)), observer)
    }
}
