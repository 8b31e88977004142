//! What a run's model is told before the conversation, and what is remembered of that.

use super::links::{Links, Observer};
use super::prompter::{Prompted, Wanted};
use super::seat::Seat;
use super::{ReactorError, workers};
use crate::base::OpId;
use crate::context::Prompt;
use crate::context::prompt::Outline;
use crate::engine::{Assembled, Input};
use crate::model::catalog::Backend;
use std::sync::Arc;

/// The prompt of a session's active run.
#[derive(Default)]
pub(super) struct Briefing {
    /// None yet, or for a model that reads none.
    pub prompt: Option<Prompt>,
    /// What the last run that noted its prompt noted.
    noted: Option<Outline>,
}

impl Briefing {
    /// Takes a new prompt; what is to be noted of it, if it is not the one that was noted last.
    fn take(&mut self, prompted: &Prompted) -> Option<serde_json::Value> {
        let outline = &prompted.outline;
        self.prompt = Some(prompted.prompt.clone());
        if self.noted.as_ref() == Some(outline) {
            return None;
        }
        self.noted = Some(outline.clone());
        serde_json::to_value(outline).ok()
    }
}

impl Seat {
    /// The prompt is made on a worker, since it reads files. The script reads none.
    pub(super) fn ask_prompt(&mut self, op: OpId, facts: Assembled, links: &Links) {
        let Backend::OpenAi { compat, .. } = &self.model.backend else {
            return self.inbox.push_back(Input::Assembled(op, facts));
        };
        let names = self.specs.iter().map(|spec| spec.name.clone());
        let wanted = Wanted {
            key: Arc::clone(self.key()),
            model: self.model.reference.clone(),
            tools: if compat.tools { names.collect() } else { vec![] },
            now: links.clock.now(),
        };
        if !workers::prompt(self.address, op, facts, wanted.clone(), links) {
            // Without a thread it is made here, late rather than not at all.
            let prompted = links.outfit.prompter.prompt(&wanted);
            self.brief(&prompted);
            self.inbox.push_back(Input::Assembled(op, facts));
        }
    }

    /// The prompt is ready: the run goes on with it.
    pub fn prompted(
        &mut self,
        op: OpId,
        facts: Assembled,
        prompted: &Prompted,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        self.brief(prompted);
        self.feed(Input::Assembled(op, facts), links, observer)
    }

    fn brief(&mut self, prompted: &Prompted) {
        if let Some(note) = self.briefing.take(prompted) {
            self.phases.prompt = Some(note);
        }
    }
}
