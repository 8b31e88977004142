//! What lanes there are, and how many runs each of them takes (N2, N3).

use super::LaneRefusal;
use crate::base::limits::{
    LANE_BACKGROUND, LANE_MAIN_MIN, LANE_MAIN_PER_CPU, LANE_NAME_BYTES_MAX, LANE_WIDE,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A global lane: what kind of work it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// Answers to people.
    Main,
    /// Children, bound to their parent's owner (N5).
    Subagent,
    /// Memory that works along.
    ActiveMemory,
    /// Scheduled jobs.
    Cron,
    /// Work inside a scheduled job, and heartbeats.
    CronNested,
    /// Work that HTTP hooks begin.
    HookDispatch,
    /// Work inside a run.
    Nested,
    /// What can wait.
    Background,
    /// The gateway's own helper.
    SystemAgent,
    /// Any other name: one at a time.
    Named(Arc<str>),
}

impl Lane {
    /// The lanes with a name of ours.
    pub const KNOWN: [Lane; 9] = [
        Lane::Main,
        Lane::Subagent,
        Lane::ActiveMemory,
        Lane::Cron,
        Lane::CronNested,
        Lane::HookDispatch,
        Lane::Nested,
        Lane::Background,
        Lane::SystemAgent,
    ];

    /// Reads a lane's name; nothing means `main`, and the older spelling `cron-nested` is read too.
    ///
    /// # Errors
    /// [`LaneRefusal::Name`] for a name that is too long.
    pub fn parse(name: &str) -> Result<Lane, LaneRefusal> {
        let name = name.trim();
        if name.len() > LANE_NAME_BYTES_MAX {
            return Err(LaneRefusal::Name);
        }
        if name.is_empty() {
            return Ok(Lane::Main);
        }
        if name == "cron-nested" {
            return Ok(Lane::CronNested);
        }
        let known = Lane::KNOWN.into_iter().find(|lane| lane.name() == name);
        Ok(known.unwrap_or_else(|| Lane::Named(name.into())))
    }

    /// The lane of work that a run asks for (N3): inside a scheduled job `cron` would wait for the
    /// slot that the job itself holds, so it means the lane for work inside jobs.
    ///
    /// # Errors
    /// [`LaneRefusal::Name`] for a name that is too long.
    pub fn resolve(name: &str) -> Result<Lane, LaneRefusal> {
        Lane::parse(name).map(|lane| if lane == Lane::Cron { Lane::CronNested } else { lane })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Lane::Main => "main",
            Lane::Subagent => "subagent",
            Lane::ActiveMemory => "active-memory",
            Lane::Cron => "cron",
            Lane::CronNested => "cron:nested",
            Lane::HookDispatch => "hook-dispatch",
            Lane::Nested => "nested",
            Lane::Background => "background",
            Lane::SystemAgent => "system-agent",
            Lane::Named(name) => name,
        }
    }
}

/// How many runs each lane takes at once (N2). 0 counts as 1: a lane never closes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Caps {
    /// `main`.
    pub main: u16,
    /// `subagent`, for each owner.
    pub subagent: u16,
    /// `active-memory`.
    pub active_memory: u16,
    /// `cron`.
    pub cron: u16,
    /// `cron:nested` and `hook-dispatch` together.
    pub cron_nested: u16,
    /// `nested`.
    pub nested: u16,
    /// `background`.
    pub background: u16,
    /// Whether one slot of the shared budget is kept for hooks: where HTTP hooks are on.
    pub hooks_reserved: bool,
}

impl Caps {
    /// The defaults on a machine with this many processors.
    #[must_use]
    pub fn for_cpus(cpus: usize) -> Caps {
        let cpus = u16::try_from(cpus).unwrap_or(u16::MAX);
        Caps {
            main: LANE_MAIN_MIN.max(cpus.saturating_mul(LANE_MAIN_PER_CPU)),
            subagent: LANE_WIDE,
            active_memory: LANE_WIDE,
            cron: LANE_WIDE,
            cron_nested: LANE_WIDE,
            nested: 1,
            background: LANE_BACKGROUND,
            hooks_reserved: false,
        }
    }

    /// The most of one lane, of itself; nothing where there is no bound.
    pub(super) fn of(&self, lane: &Lane) -> Option<usize> {
        let cap = match lane {
            Lane::Main => self.main,
            Lane::Subagent => self.subagent,
            Lane::ActiveMemory => self.active_memory,
            Lane::Cron => self.cron,
            Lane::CronNested => {
                let kept = u16::from(self.hooks_reserved);
                // The last slot is not kept for anybody, since then nested work would never run.
                self.cron_nested.saturating_sub(kept)
            }
            Lane::HookDispatch => self.cron_nested,
            Lane::Nested => self.nested,
            Lane::Background => self.background,
            Lane::SystemAgent => return None,
            Lane::Named(_) => 1,
        };
        Some(usize::from(cap.max(1)))
    }

    /// The budget that `cron:nested` and `hook-dispatch` share.
    pub(super) fn shared(&self) -> usize {
        usize::from(self.cron_nested.max(1))
    }
}

impl Default for Caps {
    fn default() -> Caps {
        Caps::for_cpus(1)
    }
}
