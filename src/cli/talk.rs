//! A conversation from the command line: what is typed becomes messages and commands.

use super::screen::Screen;
use crate::base::{RunId, id};
use crate::engine::command::{Command, QueueCommand, command};
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{Arrival, Input, Key, Sessions, Target, Waits};
use crate::engine::turns::Partial;
use crate::engine::{Cause, Termination};
use crate::reactor::{Reactor, ReactorError, Wish, entropy, plain, request};
use crate::transcript::{Content, User};
use std::sync::Arc;

/// One conversation, talked to.
pub(super) struct Talk<'a> {
    pub reactor: &'a mut Reactor,
    pub screen: &'a mut Screen,
    pub key: Key,
}

/// A run id that nobody has used.
pub(super) fn fresh_id(reactor: &Reactor) -> String {
    id::uuid_v7(reactor.now(), entropy())
}

/// The end of a command that was no message: there is nothing to be done any more.
const DONE: Termination = Termination::Completed { cut: false };

impl Talk<'_> {
    /// What was typed: a command, or a message that asks for a run by this name.
    pub fn say(&mut self, run: RunId, text: String) -> Result<(), ReactorError> {
        match command(&text) {
            None => self.message(run, text, Partial::default()),
            Some(Ok(of)) => self.command(run, of),
            Some(Err(error)) => {
                self.screen.line(&error.to_string());
                self.screen.end(run, DONE);
                Ok(())
            }
        }
    }

    /// A message beside every conversation: nothing of it is kept.
    pub fn aside(&mut self, run: RunId, text: String) -> Result<(), ReactorError> {
        self.reactor.start_detached(run, text, self.screen)
    }

    fn message(&mut self, run: RunId, text: String, inline: Partial) -> Result<(), ReactorError> {
        let waits = Waits { inline, ..plain(&text) };
        self.arrive(run, text, waits)
    }

    fn arrive(&mut self, run: RunId, text: String, waits: Waits) -> Result<(), ReactorError> {
        let timestamp = self.reactor.now();
        let identity = request(&self.key, &text);
        let content = Content::Text(text);
        let arrival = Arrival {
            key: Arc::clone(&self.key),
            run,
            request: identity,
            body: Arc::new(User { content, timestamp, idempotency_key: None }),
            wait: waits,
            interaction: true,
            boundary: self.reactor.boundary(),
        };
        self.reactor.give(Input::Arrive(Box::new(arrival)), self.screen)
    }

    fn command(&mut self, run: RunId, of: Command<'_>) -> Result<(), ReactorError> {
        let key = Arc::clone(&self.key);
        let input = match of {
            Command::New(then) => return self.anew(run, ResetReason::New, then),
            Command::Reset(then) => return self.anew(run, ResetReason::Reset, then),
            Command::Compact(wish) => {
                let text = format!("/compact {}", wish.unwrap_or_default());
                let waits = plain(&text).compacting();
                return self.arrive(run, text, waits);
            }
            Command::Steer(text) => {
                return self.message(run, text.to_owned(), Sessions::steering());
            }
            Command::Stop => Input::Abort(Target::Session(key), Cause::User),
            Command::Queue(QueueCommand::Set(partial)) => Input::Settings(key, partial),
            Command::Queue(QueueCommand::Clear) => Input::Settings(key, Partial::default()),
            Command::Queue(QueueCommand::Show) => {
                let settings = self.reactor.sessions().queue_settings(&key);
                self.screen.line(&format!(
                    "queue: {}, debounce {} ms, cap {}, drop {}",
                    settings.mode.word(),
                    settings.debounce_ms,
                    settings.cap,
                    settings.drop.word()
                ));
                self.screen.end(run, DONE);
                return Ok(());
            }
        };
        self.screen.awaits(run);
        self.reactor.give(input, self.screen)
    }

    /// `/new` and `/reset`: at once, whatever runs (B209); a text after it is the first message.
    fn anew(
        &mut self,
        run: RunId,
        reason: ResetReason,
        then: Option<&str>,
    ) -> Result<(), ReactorError> {
        if then.is_none() {
            self.screen.awaits(run.clone());
        }
        self.reactor.give(Input::Reset(Arc::clone(&self.key), reason), self.screen)?;
        match then {
            Some(text) => self.message(run, text.to_owned(), Partial::default()),
            None => Ok(()),
        }
    }

    /// Goes on until this run is over and nothing that was typed waits any more.
    pub fn until_over(&mut self, run: &RunId) -> Result<Termination, ReactorError> {
        loop {
            if let Some(termination) = self.screen.ended(run)
                && self.reactor.sessions().unfinished() == 0
            {
                return Ok(termination);
            }
            self.reactor.turn(self.screen)?;
            self.on_signals()?;
            while let Some(Some(line)) = self.reactor.next_line() {
                if !line.trim().is_empty() {
                    let run = RunId::new(fresh_id(self.reactor));
                    self.say(run, line)?;
                }
            }
        }
    }

    /// The first signal stops the runs in good order, the second one the process.
    fn on_signals(&mut self) -> Result<(), ReactorError> {
        for wish in self.reactor.take_signals() {
            if self.screen.signalled() > 1 {
                self.reactor.kill_all();
                std::process::exit(i32::from(super::ABORTED));
            }
            let input = match wish {
                Wish::Terminate => Input::Drain(self.reactor.now()),
                Wish::Interrupt => {
                    Input::Abort(Target::Session(Arc::clone(&self.key)), Cause::User)
                }
            };
            self.reactor.give(input, self.screen)?;
            self.reactor.stop_detached(cause_of(wish), self.screen)?;
        }
        Ok(())
    }
}

fn cause_of(wish: Wish) -> Cause {
    match wish {
        Wish::Terminate => Cause::Restart,
        Wish::Interrupt => Cause::User,
    }
}
