//! Replay files: a head that says what failed and with which options, then one move a line.

use super::moves::Move;
use super::sabotage::Sabotage;
use super::swarm::{Outcome, play_moves};
use super::town::{self, TownKnobs, TownMove, TownOutcome, TownSetup};
use super::world::Knobs;
use crate::engine::Setup;

/// A replay file.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The planted fault, if one was planted: with it the moves must fail, without it not.
    pub sabotage: Option<Sabotage>,
    /// Options of the runs.
    pub setup: Setup,
    /// The moves.
    pub moves: Vec<Move>,
}

impl Replay {
    /// The file's text. `why` is what failed.
    #[must_use]
    pub fn write(&self, seed: u64, why: &str) -> String {
        let mut text = format!("# seed {seed}\n");
        for line in why.lines().take(1) {
            let line: String = line.chars().take(200).collect();
            text.push_str(&format!("# fails: {line}\n"));
        }
        if let Some(sabotage) = self.sabotage {
            text.push_str(&format!("sabotage {}\n", sabotage.name()));
        }
        let setup = serde_json::to_string(&self.setup).unwrap_or_default();
        text.push_str(&format!("setup {setup}\n"));
        for m in &self.moves {
            text.push_str(&serde_json::to_string(m).unwrap_or_default());
            text.push('\n');
        }
        text
    }

    /// Reads a file of one session's moves.
    ///
    /// # Errors
    /// Which line is not understood, and why.
    pub fn read(text: &str) -> Result<Replay, String> {
        let mut replay = Replay { sabotage: None, setup: Setup::default(), moves: vec![] };
        for (n, line) in text.lines().enumerate() {
            let no = |why: String| format!("line {}: {why}", n + 1);
            if line.is_empty() || line.starts_with('#') {
            } else if let Some(name) = line.strip_prefix("sabotage ") {
                let known = Sabotage::named(name);
                replay.sabotage = Some(known.ok_or_else(|| no("unknown sabotage".into()))?);
            } else if let Some(setup) = line.strip_prefix("setup ") {
                replay.setup = serde_json::from_str(setup).map_err(|e| no(e.to_string()))?;
            } else {
                replay.moves.push(serde_json::from_str(line).map_err(|e| no(e.to_string()))?);
            }
        }
        Ok(replay)
    }

    /// Plays the moves, with or without the planted fault.
    #[must_use]
    pub fn play(&self, with_sabotage: bool) -> Outcome {
        let sabotage = self.sabotage.filter(|_| with_sabotage);
        play_moves(&self.moves, Knobs { checks: true, sabotage, setup: self.setup })
    }
}

/// A replay file of the town: its first line that is no comment is `town`.
#[derive(Clone, Debug)]
pub struct TownReplay {
    /// The planted fault, if one was planted: with it the moves must fail, without it not.
    pub sabotage: Option<Sabotage>,
    /// Options of the town.
    pub setup: TownSetup,
    /// The moves.
    pub moves: Vec<TownMove>,
}

impl TownReplay {
    /// Whether a text is a town's.
    #[must_use]
    pub fn is(text: &str) -> bool {
        text.lines().any(|line| line == "town")
    }

    /// The file's text. `why` is what failed.
    #[must_use]
    pub fn write(&self, seed: u64, why: &str) -> String {
        let why: String = why.lines().next().unwrap_or_default().chars().take(200).collect();
        let mut text = format!("# seed {seed}\n# fails: {why}\ntown\n");
        if let Some(sabotage) = self.sabotage {
            text.push_str(&format!("sabotage {}\n", sabotage.name()));
        }
        let setup = serde_json::to_string(&self.setup).unwrap_or_default();
        text.push_str(&format!("setup {setup}\n"));
        for m in &self.moves {
            text.push_str(&serde_json::to_string(m).unwrap_or_default());
            text.push('\n');
        }
        text
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Which line is not understood, and why.
    pub fn read(text: &str) -> Result<TownReplay, String> {
        let setup = TownSetup::default();
        let mut replay = TownReplay { sabotage: None, setup, moves: vec![] };
        for (n, line) in text.lines().enumerate() {
            let no = |why: String| format!("line {}: {why}", n + 1);
            if line.is_empty() || line.starts_with('#') || line == "town" {
            } else if let Some(name) = line.strip_prefix("sabotage ") {
                let known = Sabotage::named(name);
                replay.sabotage = Some(known.ok_or_else(|| no("unknown sabotage".into()))?);
            } else if let Some(setup) = line.strip_prefix("setup ") {
                replay.setup = serde_json::from_str(setup).map_err(|e| no(e.to_string()))?;
            } else {
                replay.moves.push(serde_json::from_str(line).map_err(|e| no(e.to_string()))?);
            }
        }
        Ok(replay)
    }

    /// Plays the moves, with or without the planted fault.
    #[must_use]
    pub fn play(&self, with_sabotage: bool) -> TownOutcome {
        let sabotage = self.sabotage.filter(|_| with_sabotage);
        let knobs = TownKnobs { setup: self.setup, sabotage, checks: true };
        town::play_moves(&self.moves, knobs)
    }
}
