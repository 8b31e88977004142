//! From the tree to the typed config: every key is known, every value has its type.

use super::conduct;
use super::keys;
use super::secret::{expand, is_name};
use super::tree::{Node, Step};
use super::{Config, Deferred, Model, ModelCompat, Provider, Synchronous};
use crate::base::Level;
use crate::model::wire::request::{IdStyle, MaxTokensField};

/// Something wrong, and the path to it.
pub(super) struct Fault {
    pub path: Vec<Step>,
    /// The key is wrong, not its value.
    pub key: bool,
    pub message: String,
}

pub(super) type Read<T> = Result<T, Fault>;
pub(super) type Env<'e> = &'e dyn Fn(&str) -> Option<String>;

/// A value and where it stands.
pub(super) struct At<'n> {
    pub node: &'n Node,
    pub path: Vec<Step>,
}

/// The path as people write it.
pub(super) fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Item(at) => text.push_str(&format!("[{at}]")),
            Step::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
        }
    }
    if text.is_empty() { "the config".to_owned() } else { text }
}

impl<'n> At<'n> {
    pub fn bad<T>(&self, message: impl Into<String>) -> Read<T> {
        let message = format!("{}: {}", shown(&self.path), message.into());
        Err(Fault { path: self.path.clone(), key: false, message })
    }

    pub fn wrong<T>(&self, wanted: &str) -> Read<T> {
        self.bad(format!("expected {wanted}, found {}", self.node.kind()))
    }

    fn inside(&self, step: Step, node: &'n Node) -> At<'n> {
        let mut path = self.path.clone();
        path.push(step);
        At { node, path }
    }

    pub fn fields(&self) -> Read<Vec<(&'n str, At<'n>)>> {
        let Node::Object(fields) = self.node else { return self.wrong("an object") };
        let at = |(key, node): &'n (String, Node)| {
            (key.as_str(), self.inside(Step::Key(key.clone()), node))
        };
        Ok(fields.iter().map(at).collect())
    }

    pub fn items(&self) -> Read<Vec<At<'n>>> {
        let Node::List(items) = self.node else { return self.wrong("a list") };
        Ok(items.iter().enumerate().map(|(n, node)| self.inside(Step::Item(n), node)).collect())
    }

    pub fn text(&self) -> Read<&'n str> {
        match self.node {
            Node::Text(text) if text.trim().is_empty() => self.bad("must not be empty"),
            Node::Text(text) => Ok(text),
            _ => self.wrong("a string"),
        }
    }

    /// A text whose variables must be there now.
    fn expanded(&self, env: Env<'_>) -> Read<String> {
        expand(self.text()?, env)
            .or_else(|name| self.bad(format!("the environment variable {name} is not set")))
    }

    /// A text whose variables are only needed by those who use it.
    fn deferred(&self, env: Env<'_>) -> Read<Deferred> {
        Ok(Deferred::expand(self.text()?, &shown(&self.path), env))
    }

    pub fn flag(&self) -> Read<bool> {
        match self.node {
            Node::Bool(flag) => Ok(*flag),
            _ => self.wrong("true or false"),
        }
    }

    /// A whole number from 1.
    pub fn count(&self) -> Read<u64> {
        match self.node {
            Node::Number(n) if n.fract() == 0.0 && (1.0..1e15).contains(n) =>
            {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                Ok(*n as u64)
            }
            Node::Number(_) => self.bad("expected a whole number above 0"),
            _ => self.wrong("a whole number above 0"),
        }
    }

    /// A whole number up to `most`.
    pub fn whole(&self, most: u32) -> Read<u32> {
        match self.node {
            Node::Number(n) if n.fract() == 0.0 && (0.0..=f64::from(most)).contains(n) =>
            {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                Ok(*n as u32)
            }
            Node::Number(_) => self.bad(format!("expected a whole number from 0 to {most}")),
            _ => self.wrong(&format!("a whole number from 0 to {most}")),
        }
    }

    /// One of a few words.
    pub fn word<T>(&self, read: impl Fn(&str) -> Option<T>, wanted: &str) -> Read<T> {
        let word = self.text()?;
        read(word).map_or_else(|| self.bad(format!("expected {wanted}")), Ok)
    }

    /// A key that nobody reads: OpenClaw's, or nobody's.
    pub fn unknown<T>(&self, later: &[&str]) -> Read<T> {
        let path = shown(&self.path);
        let object = self.path.len().saturating_sub(1);
        let known = super::table::names(&self.path[..object]);
        let key = match self.path.last() {
            Some(Step::Key(key)) => key.as_str(),
            _ => "",
        };
        let message = if later.contains(&key) {
            format!("{path} is not supported yet")
        } else {
            let near = nearest(key, known.iter().chain(later));
            let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            format!("unknown key {path}{hint}")
        };
        Err(Fault { path: self.path.clone(), key: true, message })
    }
}

/// The known key that differs least, if it differs little.
fn nearest<'k>(key: &str, known: impl Iterator<Item = &'k &'k str>) -> Option<&'k str> {
    let limit = key.chars().count().div_ceil(3).clamp(1, 3);
    let near = known.map(|name| (distance(key, name), *name));
    near.filter(|(far, _)| *far <= limit).min().map(|(_, name)| name)
}

/// Letters to insert, remove or replace to get from one text to the other, case aside.
fn distance(a: &str, b: &str) -> usize {
    let lower = |text: &str| text.to_lowercase().chars().take(64).collect::<Vec<char>>();
    let (a, b) = (lower(a), lower(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

/// Reads the whole config.
pub(super) fn config(root: &Node, env: Env<'_>) -> Read<Config> {
    let mut config = Config::default();
    let mut primary = None;
    for (key, at) in (At { node: root, path: Vec::new() }).fields()? {
        match key {
            "$schema" => {}
            "models" => config.providers = models(&at, env)?,
            "agents" => primary = agents(&at, env, &mut config)?,
            "tools" => tools(&at, &mut config)?,
            "messages" => conduct::messages(&at, &mut config)?,
            "session" => conduct::session(&at, &mut config)?,
            "cron" => conduct::cron(&at, &mut config)?,
            "diagnostics" => conduct::diagnostics(&at, &mut config)?,
            "gateway" => super::network::gateway(&at, env, &mut config)?,
            "store" => store(&at, &mut config)?,
            "logging" => logging(&at, &mut config)?,
            _ => return at.unknown(keys::TOP),
        }
    }
    if let Some(at) = primary {
        served(&at, &config)?;
    }
    // What was read is in the table too, so that it is shown and its changes are known.
    if let Some(path) = super::table::stranger(root, &mut Vec::new()) {
        return At { node: root, path }.unknown(&[]);
    }
    Ok(config)
}

/// The primary model has to be one of those that are configured, or the built-in one. Whether its
/// provider's variables are set is for whoever uses it.
fn served(at: &At<'_>, config: &Config) -> Read<()> {
    let name = at.text()?;
    let is = |p: &Provider, m: &Model| {
        name.split_once('/').is_some_and(|(provider, id)| p.id == provider && m.id == id)
    };
    let there = config.providers.iter().any(|p| p.models.iter().any(|m| is(p, m)));
    if there || name == crate::model::catalog::SCRIPTED {
        return Ok(());
    }
    at.bad(format!("there is no model {name:?}; {}", crate::model::catalog::known(config)))
}

fn models(at: &At<'_>, env: Env<'_>) -> Read<Vec<Provider>> {
    let mut providers = Vec::new();
    for (key, at) in at.fields()? {
        match key {
            "providers" => {
                for (id, at) in at.fields()? {
                    providers.push(provider(id, &at, env)?);
                }
            }
            "mode" if at.node == &Node::Text("merge".to_owned()) => {}
            _ => return at.unknown(keys::MODELS),
        }
    }
    providers.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(providers)
}

fn provider(id: &str, at: &At<'_>, env: Env<'_>) -> Read<Provider> {
    if id == crate::model::catalog::OFFLINE {
        return at.bad("this name belongs to the built-in offline model");
    }
    if id.is_empty() || id.contains('/') {
        return at.bad("a provider's id must not be empty or hold a slash");
    }
    let (mut base_url, mut api_key) = (None, None);
    let (mut headers, mut models) = (Vec::new(), Vec::new());
    for (key, at) in at.fields()? {
        match key {
            "baseUrl" => base_url = Some(address(&at, env)?),
            "apiKey" => api_key = Some(secret(&at, env)?),
            "api" => protocol(&at)?,
            "headers" => {
                for (name, at) in at.fields()? {
                    headers.push((name.to_owned(), secret(&at, env)?));
                }
            }
            "models" => {
                for at in at.items()? {
                    models.push(model(&at)?);
                }
            }
            _ => return at.unknown(keys::PROVIDER),
        }
    }
    let Some(base_url) = base_url else { return at.bad("baseUrl is missing") };
    Ok(Provider { id: id.to_owned(), base_url, api_key, headers, models })
}

fn address(at: &At<'_>, env: Env<'_>) -> Read<Deferred> {
    let url = at.deferred(env)?;
    if let Ok(text) = url.get()
        && let Err(wrong) = address_fault(text.expose())
    {
        return at.bad(wrong);
    }
    Ok(url)
}

/// What is wrong with an address. The words do not repeat it: it may hold a password.
fn address_fault(text: &str) -> Result<(), &'static str> {
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
        return Err("expected an address that begins with http:// or https://");
    };
    if !text.chars().all(|c| c.is_ascii_graphic()) {
        return Err("an address has no blanks and only ASCII characters");
    }
    let server = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let server = server.rsplit('@').next().unwrap_or_default();
    // The colons of an IPv6 address are inside its brackets.
    let (host, port) = match server.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => (host, Some(port)),
        None => (server, None),
    };
    let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let good = match bracketed {
        Some(inside) => inside.parse::<core::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(['[', ']', ':', '\\', '<', '>', '"', '{', '}']),
    };
    if !good {
        return Err("the address names no server");
    }
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return Err("the port has to be a number from 1 to 65535");
    }
    Ok(())
}

fn protocol(at: &At<'_>) -> Read<()> {
    match at.text()? {
        crate::model::wire::openai::API => Ok(()),
        api if keys::APIS.contains(&api) => at.bad(format!("{api:?} is not supported yet")),
        api => at.bad(format!("unknown protocol {api:?}; known is \"openai-completions\"")),
    }
}

/// A credential: a text, with references or not, or `{source: "env", id: "NAME"}`.
pub(super) fn secret(at: &At<'_>, env: Env<'_>) -> Read<Deferred> {
    if matches!(at.node, Node::Text(_)) {
        return at.deferred(env);
    }
    if !matches!(at.node, Node::Object(_)) {
        return at.wrong("a string or {source: \"env\", id: \"NAME\"}");
    }
    let (mut source, mut name) = (None, None);
    for (key, at) in at.fields()? {
        match key {
            "source" => match at.text()? {
                "env" => source = Some(()),
                other @ ("file" | "exec" | "store") => {
                    return at.bad(format!("the source {other:?} is not supported yet"));
                }
                other => return at.bad(format!("unknown source {other:?}")),
            },
            "id" => match at.text()? {
                id if is_name(id) => name = Some(id),
                _ => return at.bad("expected a variable's name, such as OPENAI_API_KEY"),
            },
            "provider" if at.text()? == "default" => {}
            _ => return at.unknown(&["provider"]),
        }
    }
    match (source, name) {
        (Some(()), Some(name)) => Ok(Deferred::variable(name, &shown(&at.path), env)),
        (None, _) => at.bad("source is missing"),
        (_, None) => at.bad("id is missing"),
    }
}

fn model(at: &At<'_>) -> Read<Model> {
    let (mut id, mut name) = (None, None);
    let (mut context_window, mut max_tokens) = (200_000, 8_192);
    let (mut reasoning, mut images) = (false, false);
    let mut compat = ModelCompat { usage: true, tools: true, ..ModelCompat::default() };
    for (key, at) in at.fields()? {
        match key {
            "id" => id = Some(at.text()?.to_owned()),
            "name" => name = Some(at.text()?.to_owned()),
            "api" => protocol(&at)?,
            "contextWindow" => context_window = at.count()?,
            "maxTokens" => max_tokens = at.count()?,
            "input" => images = input(&at)?,
            "reasoning" => reasoning = at.flag()?,
            // Prices change nothing that we do; catalogues carry them everywhere.
            "cost" => drop(at.fields()?),
            "compat" => compat_of(&at, &mut compat)?,
            _ => return at.unknown(keys::MODEL),
        }
    }
    compat.encoding.images = images;
    let Some(id) = id else { return at.bad("id is missing") };
    let name = name.unwrap_or_else(|| id.clone());
    Ok(Model { id, name, context_window, max_tokens, reasoning, compat })
}

/// Whether the model takes images.
fn input(at: &At<'_>) -> Read<bool> {
    let mut images = false;
    for at in at.items()? {
        match at.text()? {
            "text" => {}
            "image" => images = true,
            kind @ ("audio" | "video") => {
                return at.bad(format!("{kind:?} is not supported yet"));
            }
            kind => return at.bad(format!("unknown kind of input {kind:?}")),
        }
    }
    Ok(images)
}

fn compat_of(at: &At<'_>, compat: &mut ModelCompat) -> Read<()> {
    use crate::model::wire::request::NoText;
    for (key, at) in at.fields()? {
        match key {
            "supportsStore" => compat.store = at.flag()?,
            "supportsDeveloperRole" => compat.developer_role = at.flag()?,
            "supportsUsageInStreaming" => compat.usage = at.flag()?,
            "supportsTools" => compat.tools = at.flag()?,
            "maxTokensField" => {
                compat.max_tokens_field = match at.text()? {
                    "max_tokens" => MaxTokensField::MaxTokens,
                    "max_completion_tokens" => MaxTokensField::MaxCompletionTokens,
                    _ => return at.bad("expected \"max_tokens\" or \"max_completion_tokens\""),
                }
            }
            "requiresToolResultName" => compat.encoding.result_name = at.flag()?,
            "requiresAssistantAfterToolResult" => {
                compat.encoding.assistant_after_result = at.flag()?;
            }
            "requiresMistralToolIds" => {
                let nine = at.flag()?;
                compat.encoding.ids = if nine { IdStyle::Nine } else { IdStyle::Usual };
            }
            "requiresStringContent" => compat.encoding.string_content = at.flag()?,
            "emptyAssistantContent" => {
                compat.encoding.no_text = match at.text()? {
                    "null" => NoText::Null,
                    "empty" => NoText::Empty,
                    "omit" => NoText::Omitted,
                    _ => return at.bad("expected \"null\", \"empty\" or \"omit\""),
                }
            }
            _ => return at.unknown(keys::COMPAT),
        }
    }
    Ok(())
}

/// Reads `agents`; gives back where the primary model is named.
fn agents<'n>(at: &At<'n>, env: Env<'_>, config: &mut Config) -> Read<Option<At<'n>>> {
    let mut primary = None;
    for (key, at) in at.fields()? {
        if key != "defaults" {
            return at.unknown(keys::AGENTS);
        }
        for (key, at) in at.fields()? {
            match key {
                "model" => {
                    let found = model_ref(&at)?;
                    config.agent.model = Some(found.text()?.to_owned());
                    primary = Some(found);
                }
                "workspace" => config.agent.workspace = Some(at.expanded(env)?),
                "timeoutSeconds" => config.agent.timeout_seconds = Some(at.count()?),
                "maxConcurrent" => config.lanes.main = Some(conduct::slots(&at)?),
                "subagents" => conduct::subagents(&at, config)?,
                "compaction" => conduct::compaction(&at, config)?,
                "skipBootstrap" => config.agent.skip_bootstrap = at.flag()?,
                "contextInjection" => config.agent.injection = conduct::injection(&at)?,
                "bootstrapMaxChars" => config.agent.bootstrap_max_chars = Some(at.count()?),
                "bootstrapTotalMaxChars" => {
                    config.agent.bootstrap_total_max_chars = Some(at.count()?);
                }
                _ => return at.unknown(keys::DEFAULTS),
            }
        }
    }
    Ok(primary)
}

/// A model as `provider/model`, or as `{primary, fallbacks}` without fallbacks.
fn model_ref<'n>(at: &At<'n>) -> Read<At<'n>> {
    let named = |at: At<'n>| match at.text()? {
        name if name.split_once('/').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty()) => Ok(at),
        _ => at.bad("expected \"provider/model\""),
    };
    if matches!(at.node, Node::Text(_)) {
        return named(At { node: at.node, path: at.path.clone() });
    }
    if !matches!(at.node, Node::Object(_)) {
        return at.wrong("\"provider/model\" or {primary: \"provider/model\"}");
    }
    let mut primary = None;
    for (key, at) in at.fields()? {
        match key {
            "primary" => primary = Some(named(at)?),
            "fallbacks" if at.items()?.is_empty() => {}
            "fallbacks" => return at.bad("is not supported yet, unless it is empty"),
            _ => return at.unknown(&["timeoutMs"]),
        }
    }
    match primary {
        Some(primary) => Ok(primary),
        None => at.bad("primary is missing"),
    }
}

fn tools(at: &At<'_>, config: &mut Config) -> Read<()> {
    for (key, at) in at.fields()? {
        match key {
            "exec" => exec(&at, config)?,
            "loopDetection" => {
                for (key, at) in at.fields()? {
                    match key {
                        "enabled" => config.tools.loop_detection = at.flag()?,
                        _ => return at.unknown(keys::LOOP),
                    }
                }
            }
            _ => return at.unknown(keys::TOOLS),
        }
    }
    Ok(())
}

fn exec(at: &At<'_>, config: &mut Config) -> Read<()> {
    for (key, at) in at.fields()? {
        match key {
            // The second name is the one of older configs.
            "timeoutSeconds" | "timeoutSec" => {
                config.tools.exec_timeout_seconds = Some(at.count()?);
            }
            "applyPatch" => {
                for (key, at) in at.fields()? {
                    match key {
                        "enabled" => config.tools.apply_patch = at.flag()?,
                        "workspaceOnly" => config.tools.apply_patch_workspace_only = at.flag()?,
                        _ => {
                            return at.unknown(keys::APPLY_PATCH);
                        }
                    }
                }
            }
            _ => return at.unknown(keys::EXEC),
        }
    }
    Ok(())
}

fn store(at: &At<'_>, config: &mut Config) -> Read<()> {
    for (key, at) in at.fields()? {
        if key != "synchronous" {
            return at.unknown(&[]);
        }
        config.store.synchronous = match at.text()? {
            "full" => Synchronous::Full,
            "normal" => Synchronous::Normal,
            _ => return at.bad("expected \"full\" or \"normal\""),
        };
    }
    Ok(())
}

fn logging(at: &At<'_>, config: &mut Config) -> Read<()> {
    for (key, at) in at.fields()? {
        match key {
            "level" => {
                let word = at.text()?;
                match Level::from_word(word) {
                    Some(level) => config.log = level,
                    None if keys::LEVELS.contains(&word) => {
                        return at.bad(format!("{word:?} is not supported yet"));
                    }
                    None => return at.bad("expected \"error\", \"warn\", \"info\" or \"debug\""),
                }
            }
            _ => return at.unknown(keys::LOGGING),
        }
    }
    Ok(())
}
