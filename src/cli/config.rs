//! `stepclaw config`: where it is, what it says, whether it is right.

use super::args::{ConfigArgs, ConfigCommand};
use super::client::{ANSWER, Client, running};
use super::settings::Keeper;
use super::{Done, Failed, OK, USAGE, print_all};
use crate::config::{Config, Paths, Wanted, load, lookup, paths, process_env, setting, show};
use crate::model::catalog;
use crate::store::StateLock;
use serde_json::{Value, json};

/// The paths and the config, as every command starts.
pub(super) fn loaded() -> Result<(Paths, Config), Failed> {
    let usage = |text: String| Failed::new(USAGE, text);
    let paths = paths(&process_env).map_err(|e| usage(e.to_string()))?;
    let config = load(&paths.config, &process_env).map_err(|e| usage(e.to_string()))?;
    Ok((paths, config))
}

pub(super) fn run(args: &ConfigArgs) -> Done {
    let usage = |text: String| Failed::new(USAGE, text);
    let paths = paths(&process_env).map_err(|e| usage(e.to_string()))?;
    match &args.command {
        ConfigCommand::Path => print_all(format!("{}\n", paths.config.display()).as_bytes()),
        ConfigCommand::Show => {
            let (_, config) = loaded()?;
            let text = serde_json::to_string_pretty(&show(&config)).unwrap_or_default();
            print_all((text + "\n").as_bytes())
        }
        ConfigCommand::Get { key } => {
            let (_, config) = loaded()?;
            let value = lookup(key).ok_or_else(|| no_key(key))?;
            let shown = show(&config);
            let steps = key.split(['.', '/']);
            let found = steps.fold(&shown, |value, step| &value[step]);
            let found = if found.is_null() { &value["schema"]["default"] } else { found };
            let text = match found {
                Value::String(text) => text.clone(),
                value => serde_json::to_string_pretty(value).unwrap_or_default(),
            };
            print_all((text + "\n").as_bytes())
        }
        ConfigCommand::Set { key, value } => changed(&paths, key, Some(value)),
        ConfigCommand::Unset { key } => changed(&paths, key, None),
        ConfigCommand::Reload => {
            let (paths, config) = loaded()?;
            let mut client = Client::connect(&config, &paths)?;
            let seen = client.call("config.get", &json!({}), ANSWER)?;
            let mut params = json!({"raw": seen["raw"].as_str().unwrap_or("{}")});
            if seen["hash"].is_string() {
                params["baseHash"] = seen["hash"].clone();
            }
            told(&client.call("config.apply", &params, ANSWER)?)
        }
        ConfigCommand::Validate { file } => {
            let path = file.as_deref().unwrap_or(&paths.config);
            if !path.exists() {
                let text = format!("{}: no such file; the defaults apply\n", path.display());
                return if file.is_some() { Err(usage(text)) } else { print_all(text.as_bytes()) };
            }
            let config = load(path, &process_env).map_err(|e| usage(e.to_string()))?;
            // The file is right; what this environment lacks is for whoever uses the model.
            let primary = config.agent.model.as_deref();
            if let Some(Err(error)) = primary.map(|name| catalog::resolve(&config, name)) {
                eprintln!("stepclaw: the primary model cannot be used here: {error}");
            }
            print_all(format!("{}: fine\n", path.display()).as_bytes())?;
            Ok(OK)
        }
    }
}

fn no_key(key: &str) -> Failed {
    Failed::new(USAGE, format!("there is no key {key}; `stepclaw config show` lists them"))
}

/// Sets one key or takes it away: through the gateway that runs, else under the lock.
fn changed(paths: &Paths, key: &str, value: Option<&str>) -> Done {
    let usage = |text: String| Failed::new(USAGE, text);
    let wanted = setting(key, value).map_err(usage)?;
    if running(paths).is_some() {
        let (paths, config) = loaded()?;
        let mut client = Client::connect(&config, &paths)?;
        let seen = client.call("config.get", &json!({}), ANSWER)?;
        let Wanted::Patch { patch, replace } = wanted else { return Err(no_key(key)) };
        let mut params = json!({"raw": patch, "replacePaths": replace});
        if seen["hash"].is_string() {
            params["baseHash"] = seen["hash"].clone();
        }
        return told(&client.call("config.patch", &params, ANSWER)?);
    }
    let lock = StateLock::take(&paths.state, &super::agent::owner("config set"))?;
    let keeper = Keeper::new(paths.config.clone(), |_| Ok(()));
    let stored = keeper.stored().map_err(usage)?;
    let mut done = Err(no_key(key));
    keeper.change(&wanted, stored.hash.as_deref(), |made| {
        done = made.map_err(|refusal| usage(refusal.words()));
    });
    drop(lock);
    let text = if done?.written {
        format!("{} is written.\n", paths.config.display())
    } else {
        "It is so already.\n".to_owned()
    };
    print_all(text.as_bytes())
}

/// What a running gateway has made of a change.
fn told(answer: &Value) -> Done {
    let list = |name: &str| {
        let paths = answer[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        paths.collect::<Vec<_>>().join(", ")
    };
    let (applied, restart) = (list("applied"), list("requiresRestart"));
    let mut text = String::new();
    if !applied.is_empty() {
        text += &format!("The gateway has taken up: {applied}\n");
    }
    if !restart.is_empty() {
        text += &format!("This waits for the gateway's next start: {restart}\n");
    }
    if text.is_empty() {
        text += "Nothing has changed for the gateway.\n";
    }
    print_all(text.as_bytes())
}
