//! `stepclaw config`: where it is, what it says, whether it is right.

use super::args::{ConfigArgs, ConfigCommand};
use super::{Done, Failed, OK, USAGE, print_all};
use crate::config::{Config, Paths, load, paths, process_env, show};
use crate::model::catalog;

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
