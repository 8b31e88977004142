//! Where the config comes from: paths, environment, file. The edge around [`super::parse`].

use super::{Config, ConfigError, parse};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Largest config that is read, bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Where this installation lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paths {
    /// State: databases, workspace (`STEPCLAW_STATE_DIR`, else `~/.stepclaw`).
    pub state: PathBuf,
    /// The config file (`STEPCLAW_CONFIG_PATH`, else `stepclaw.json` in the state directory).
    pub config: PathBuf,
}

/// Why there is no config.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Neither a state directory nor a home directory is known.
    #[error("no home directory: set STEPCLAW_STATE_DIR")]
    NoHome,
    /// The file cannot be read.
    #[error("cannot read the config {path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The paths that an environment stands for.
///
/// # Errors
/// [`LoadError::NoHome`] when nothing says where the state is.
pub fn paths(env: &dyn Fn(&str) -> Option<String>) -> Result<Paths, LoadError> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = match set("STEPCLAW_STATE_DIR") {
        Some(state) => state,
        None => set("HOME").ok_or(LoadError::NoHome)?.join(".stepclaw"),
    };
    let config = set("STEPCLAW_CONFIG_PATH").unwrap_or_else(|| state.join("stepclaw.json"));
    Ok(Paths { state, config })
}

/// The workspace: what the config says, `~` for the home directory, else `workspace` in the state
/// directory.
#[must_use]
pub fn workspace(config: &Config, paths: &Paths, env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let home = || env("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    match config.agent.workspace.as_deref() {
        None => paths.state.join("workspace"),
        Some("~") => home().unwrap_or_else(|| PathBuf::from("~")),
        Some(text) => match (text.strip_prefix("~/"), home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(text),
        },
    }
}

/// Reads a config file; one that does not exist means the defaults.
///
/// # Errors
/// [`LoadError`] when it cannot be read or is wrong.
pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, LoadError> {
    let Some(text) = text(path)? else { return Ok(Config::default()) };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let file = || Some(path.display().to_string());
    parse(text, env).map_err(|error| ConfigError { file: file(), ..error }.into())
}

/// The text of a config file; nothing if there is none.
///
/// # Errors
/// [`LoadError::Unreadable`].
pub fn text(path: &Path) -> Result<Option<String>, LoadError> {
    let unreadable = |error| LoadError::Unreadable { path: path.display().to_string(), error };
    let bytes = match read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let text = String::from_utf8(bytes)
        .map_err(|error| unreadable(std::io::Error::new(ErrorKind::InvalidData, error)))?;
    Ok(Some(text))
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    // Opening a pipe would wait for somebody to write into it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let file = std::fs::File::open(path)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let text = format!("it is larger than {FILE_BYTES_MAX} bytes");
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// The process's environment, for the functions of this module.
#[must_use]
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
