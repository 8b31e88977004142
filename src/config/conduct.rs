//! How conversations are conducted: queues, resets, scopes, lanes, and when one counts as stuck.

use super::read::{At, Read};
use super::{Config, Injection, Session, keys};
use crate::base::key::{self, DmScope, GroupScope, IdentityLinks};
use crate::base::limits::{QUIET_MAX_MS, RESET_HOUR, STUCK_WARN_MS, TURNS_CAP_MAX};
use crate::engine::reset::ResetPolicy;
use crate::engine::turns::{DropPolicy, Mode, Partial};
use crate::engine::watch::Thresholds;

const MODES: &str = "\"steer\", \"followup\", \"collect\" or \"interrupt\"";

/// How many runs a lane takes; more than the type holds is no bound either.
pub(super) fn slots(at: &At<'_>) -> Read<u16> {
    Ok(u16::try_from(at.count()?).unwrap_or(u16::MAX))
}

/// Reads `agents.defaults.subagents`.
pub(super) fn subagents(at: &At<'_>, config: &mut Config) -> Read<()> {
    for (key, at) in at.fields()? {
        match key {
            "maxConcurrent" => config.lanes.subagent = Some(slots(&at)?),
            _ => return at.unknown(keys::SUBAGENTS),
        }
    }
    Ok(())
}

/// Reads `agents.defaults.compaction`.
pub(super) fn compaction(at: &At<'_>, config: &mut Config) -> Read<()> {
    let compaction = &mut config.agent.compaction;
    for (key, at) in at.fields()? {
        match key {
            "enabled" => compaction.enabled = at.flag()?,
            "reserveTokens" => compaction.reserve_tokens = at.count()?,
            "keepRecentTokens" => compaction.keep_recent_tokens = at.count()?,
            "midTurnPrecheck" => {
                for (key, at) in at.fields()? {
                    match key {
                        "enabled" => compaction.mid_turn = at.flag()?,
                        _ => return at.unknown(&[]),
                    }
                }
            }
            _ => return at.unknown(keys::COMPACTION),
        }
    }
    Ok(())
}

/// Reads `agents.defaults.contextInjection`.
pub(super) fn injection(at: &At<'_>) -> Read<Injection> {
    match at.text()? {
        "always" => Ok(Injection::Always),
        "never" => Ok(Injection::Never),
        "continuation-skip" => at.bad("\"continuation-skip\" is not supported yet"),
        _ => at.bad("expected \"always\" or \"never\""),
    }
}

/// Reads `cron`.
pub(super) fn cron(at: &At<'_>, config: &mut Config) -> Read<()> {
    for (key, at) in at.fields()? {
        match key {
            "maxConcurrentRuns" => config.lanes.cron = Some(slots(&at)?),
            _ => return at.unknown(keys::CRON),
        }
    }
    Ok(())
}

/// Reads `messages`.
pub(super) fn messages(at: &At<'_>, config: &mut Config) -> Read<()> {
    for (key, at) in at.fields()? {
        match key {
            "queue" => queue(&at, config)?,
            _ => return at.unknown(keys::MESSAGES),
        }
    }
    Ok(())
}

fn queue(at: &At<'_>, config: &mut Config) -> Read<()> {
    let queue = &mut config.queue;
    for (key, at) in at.fields()? {
        match key {
            "mode" => queue.all.mode = Some(mode(&at)?),
            "debounceMs" => queue.all.debounce_ms = Some(at.whole(QUIET_MAX_MS)?),
            "cap" => {
                let cap = at.whole(u32::MAX)?.min(TURNS_CAP_MAX.into());
                queue.all.cap = u16::try_from(cap).ok().filter(|cap| *cap >= 1);
            }
            "drop" => {
                let wanted = "\"old\", \"new\" or \"summarize\"";
                queue.all.drop = Some(at.word(DropPolicy::from_word, wanted)?);
            }
            "byChannel" => {
                for (channel, at) in at.fields()? {
                    let mode = mode(&at)?;
                    of_channel(&mut queue.by_channel, channel).mode = Some(mode);
                }
            }
            "debounceMsByChannel" => {
                for (channel, at) in at.fields()? {
                    let quiet = at.whole(QUIET_MAX_MS)?;
                    of_channel(&mut queue.by_channel, channel).debounce_ms = Some(quiet);
                }
            }
            _ => return at.unknown(&[]),
        }
    }
    Ok(())
}

fn of_channel<'q>(
    by_channel: &'q mut std::collections::BTreeMap<String, Partial>,
    channel: &str,
) -> &'q mut Partial {
    by_channel.entry(channel.to_lowercase()).or_default()
}

/// A mode; old names are read as what they mean now.
fn mode(at: &At<'_>) -> Read<Mode> {
    at.word(Mode::from_word, MODES)
}

/// Reads `session`.
pub(super) fn session(at: &At<'_>, config: &mut Config) -> Read<()> {
    let session = &mut config.session;
    for (key, at) in at.fields()? {
        match key {
            "dmScope" => {
                let wanted = "\"main\", \"per-peer\", \"per-channel-peer\" or \
                              \"per-account-channel-peer\"";
                session.scopes.dm = at.word(DmScope::from_word, wanted)?;
            }
            "groupScope" => {
                let wanted = "\"per-group\" or \"main\"";
                session.scopes.group = at.word(GroupScope::from_word, wanted)?;
            }
            "mainKey" => match key::main_word(at.text()?) {
                Ok(word) => session.main_key = Some(word).filter(|word| word != key::MAIN),
                Err(error) => return at.bad(error.fault.to_string()),
            },
            "identityLinks" => links(&at, session)?,
            "reset" => session.reset = reset(&at)?,
            _ => return at.unknown(keys::SESSION),
        }
    }
    Ok(())
}

fn links(at: &At<'_>, session: &mut Session) -> Read<()> {
    let fields = at.fields()?;
    for (name, at) in &fields {
        let peers: Read<Vec<String>> =
            at.items()?.iter().map(|peer| Ok(peer.text()?.to_owned())).collect();
        session.links.push(((*name).to_owned(), peers?));
    }
    let first = |n: usize| IdentityLinks::new(session.links.iter().take(n).cloned());
    match first(fields.len()) {
        Ok(links) => session.scopes.links = links,
        Err(error) => {
            // The error stands at the first link that contradicts those before it.
            let counts: Vec<usize> = (1..=fields.len()).collect();
            let bad = counts.partition_point(|n| first(*n).is_ok());
            return fields.get(bad).map_or(at, |(_, at)| at).bad(error.to_string());
        }
    }
    Ok(())
}

/// What `session.reset.mode` can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Never,
    Daily,
    Idle,
}

fn reset(at: &At<'_>) -> Read<ResetPolicy> {
    let (mut when, mut hour, mut idle_minutes) = (None, RESET_HOUR, None);
    for (key, at) in at.fields()? {
        match key {
            "mode" => {
                let read = |word: &str| match word {
                    "none" => Some(When::Never),
                    "daily" => Some(When::Daily),
                    "idle" => Some(When::Idle),
                    _ => None,
                };
                when = Some(at.word(read, "\"daily\", \"idle\" or \"none\"")?);
            }
            "atHour" => match u8::try_from(at.whole(23)?) {
                Ok(at) => hour = at,
                Err(_) => return at.bad("expected an hour"),
            },
            "idleMinutes" => idle_minutes = Some(at.whole(u32::MAX)?),
            _ => return at.unknown(&[]),
        }
    }
    match when {
        None => at.bad("mode is missing: \"daily\", \"idle\" or \"none\""),
        Some(When::Never) => Ok(ResetPolicy::default()),
        Some(When::Daily) => Ok(ResetPolicy { daily_hour: Some(hour), idle_minutes }),
        Some(When::Idle) if idle_minutes.is_none() => at.bad("idleMinutes is missing"),
        Some(When::Idle) => Ok(ResetPolicy { daily_hour: None, idle_minutes }),
    }
}

/// Reads `diagnostics`.
pub(super) fn diagnostics(at: &At<'_>, config: &mut Config) -> Read<()> {
    let (mut warn_ms, mut abort_ms) = (STUCK_WARN_MS, None);
    let mut abort_at = None;
    for (key, at) in at.fields()? {
        match key {
            "stuckSessionWarnMs" => warn_ms = at.count()?,
            "stuckSessionAbortMs" => {
                abort_ms = Some(at.count()?);
                abort_at = Some(at);
            }
            _ => return at.unknown(keys::DIAGNOSTICS),
        }
    }
    config.watch = Thresholds::new(warn_ms);
    if let (Some(abort_ms), Some(at)) = (abort_ms, abort_at) {
        if abort_ms < warn_ms {
            return at.bad(format!("less than stuckSessionWarnMs, which is {warn_ms}"));
        }
        config.watch.abort_ms = abort_ms;
    }
    Ok(())
}
