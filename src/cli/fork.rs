//! `stepclaw sessions fork`, and what `reset` and `delete` ask of a gateway that runs.

use super::args::Reason;
use super::client::{ANSWER, Client};
use super::{Done, FAILED, Failed, USAGE, print_all};
use crate::base::{SessionKey, id};
use crate::config::{Config, Paths};
use crate::reactor::{Clock, entropy};
use crate::records::Fork;
use crate::store::{
    Change, Denied, Make, Manage, Part, Reader, StateLock, Synchronous, agent_db, execute_all, open,
};
use serde_json::{Value, json};

fn parsed(key: &str) -> Result<SessionKey, Failed> {
    SessionKey::parse(key).map_err(|e| Failed::new(USAGE, e.to_string()))
}

fn told(answer: &Value, as_json: bool, words: &str) -> Done {
    let text = if as_json { format!("{answer:#}\n") } else { format!("{words}\n") };
    print_all(text.as_bytes())
}

/// A reset through the gateway.
pub(super) fn reset(
    config: &Config,
    paths: &Paths,
    key: &str,
    reason: Reason,
    as_json: bool,
) -> Done {
    let key = parsed(key)?;
    let reason = match reason {
        Reason::New => "new",
        Reason::Reset => "reset",
    };
    let params = json!({"key": key.as_str(), "reason": reason});
    let answer = Client::connect(config, paths)?.call("sessions.reset", &params, ANSWER)?;
    told(&answer, as_json, &format!("{key} begins anew"))
}

/// A deletion through the gateway.
pub(super) fn delete(config: &Config, paths: &Paths, key: &str, yes: bool, as_json: bool) -> Done {
    let key = parsed(key)?;
    if !yes {
        let words = format!("{key} would be deleted for good: say --yes if that is meant");
        return Err(Failed::new(USAGE, words));
    }
    let params = json!({ "key": key.as_str() });
    let answer = Client::connect(config, paths)?.call("sessions.delete", &params, ANSWER)?;
    if answer["deleted"] != true {
        return Err(Failed::new(FAILED, format!("there is no conversation {key}")));
    }
    told(&answer, as_json, &format!("{key} is deleted"))
}

/// A fork: through the gateway, or under the lock.
pub(super) fn fork(
    config: &Config,
    paths: &Paths,
    key: &str,
    new: Option<&str>,
    as_json: bool,
) -> Done {
    let key = parsed(key)?;
    let now = Clock::start().now();
    let fresh = || format!("agent:{}:fork-{}", key.agent(), id::uuid_v7(now, entropy()));
    let new = parsed(&new.map_or_else(fresh, str::to_owned))?;
    let words = format!("{new} goes on from {key}");
    if super::client::running(paths).is_some() {
        let params = json!({"key": new.as_str(), "parentSessionKey": key.as_str(), "fork": true});
        let answer = Client::connect(config, paths)?.call("sessions.create", &params, ANSWER)?;
        return told(&answer, as_json, &words);
    }
    let _lock = StateLock::take(&paths.state, &super::agent::owner("sessions fork"))?;
    let path = agent_db(&paths.state, key.agent());
    let known = |of: &SessionKey| -> Result<bool, Failed> {
        let Some(reader) = Reader::open(&path)? else { return Ok(false) };
        Ok(reader.session(of.as_str())?.is_some())
    };
    if !known(&key)? {
        return Err(Failed::new(FAILED, format!("there is no conversation {key}")));
    }
    if known(&new)? {
        return Err(Failed::new(FAILED, format!("{new} is there already")));
    }
    let make = Make {
        session: crate::base::SessionId::new(id::uuid_v7(now, entropy())),
        cwd: String::new(),
        parent: Some(key.to_string()),
        meta: None,
        fork: Some(Fork::Completed),
    };
    let what = Change::Make(Box::new(make));
    let manage = Manage { key: new.to_string(), at: now, what };
    let mut db = open(&path, Synchronous::Full)?;
    let done = execute_all(&mut db, &path, &[Part::Manage(Box::new(manage))]);
    match done.into_iter().next() {
        Some(Ok(_)) => {
            let answer = json!({"ok": true, "key": new.as_str(), "parentSessionKey": key.as_str()});
            told(&answer, as_json, &words)
        }
        Some(Err(Denied::Fenced(why))) => Err(Failed::new(FAILED, why.to_string())),
        Some(Err(Denied::Failed(error))) => Err(error.into()),
        None => Err(Failed::new(FAILED, "nothing was stored")),
    }
}
