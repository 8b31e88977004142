//! Which model a name stands for (decision 27): configured entries, and the built-in offline
//! model, which is always there.

use crate::config::{Config, MissingVar, Model, ModelCompat, Provider, Secret};

/// The provider of the built-in model.
pub const OFFLINE: &str = "offline";
/// The built-in model.
pub const SCRIPTED: &str = "offline/scripted";

/// A model that can be called.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// `provider/model`.
    pub reference: String,
    /// The provider's id.
    pub provider: String,
    /// The model's id at the provider.
    pub model: String,
    /// Tokens that fit its window.
    pub context_window: u64,
    /// Most tokens of a reply.
    pub max_tokens: u64,
    /// Where it is served.
    pub backend: Backend,
}

impl Resolved {
    /// Whether it runs on a machine of one's own: nobody offers models to others without TLS.
    #[must_use]
    pub fn self_hosted(&self) -> bool {
        match &self.backend {
            Backend::Scripted => false,
            Backend::OpenAi { url, .. } => url.starts_with("http://"),
        }
    }
}

/// Where a model is served.
#[derive(Clone, PartialEq, Debug)]
pub enum Backend {
    /// Inside this process.
    Scripted,
    /// At an endpoint that speaks OpenAI chat completions.
    OpenAi {
        /// The address of the completions endpoint.
        url: String,
        /// The key.
        api_key: Option<Secret>,
        /// Headers for every request.
        headers: Vec<(String, Secret)>,
        /// What the backend wants otherwise.
        compat: ModelCompat,
    },
}

/// Why a name stands for no model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CatalogError {
    /// Not of the form `provider/model`.
    #[error("{name:?} is no model name: expected provider/model; {known}")]
    Shape {
        /// What was asked for.
        name: String,
        /// The models that there are.
        known: String,
    },
    /// Nothing of that name.
    #[error("there is no model {name:?}; {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The models that there are.
        known: String,
    },
    /// A setting of its provider needs a variable that is not set.
    #[error(transparent)]
    Missing(#[from] MissingVar),
}

/// The model that a name stands for. The first slash divides; ids may hold more of them.
///
/// # Errors
/// [`CatalogError`] with what is configured instead.
pub fn resolve(config: &Config, name: &str) -> Result<Resolved, CatalogError> {
    if name == SCRIPTED {
        return Ok(scripted());
    }
    let Some((provider_id, model_id)) = name.split_once('/') else {
        return Err(CatalogError::Shape { name: name.to_owned(), known: known(config) });
    };
    let provider = config.providers.iter().find(|p| p.id == provider_id);
    let model = |p: &Provider| p.models.iter().find(|m| m.id == model_id).cloned();
    match provider.and_then(|p| model(p).map(|m| (p, m))) {
        Some((provider, model)) => Ok(served(name, provider, &model)?),
        None => Err(CatalogError::Unknown { name: name.to_owned(), known: known(config) }),
    }
}

/// Every model that can be called as things are: one whose provider needs a variable that is not
/// set is left out.
#[must_use]
pub fn all(config: &Config) -> Vec<Resolved> {
    let served = config.providers.iter().flat_map(|provider| {
        let name = |model: &Model| format!("{}/{}", provider.id, model.id);
        provider.models.iter().filter_map(move |m| served(&name(m), provider, m).ok())
    });
    served.chain([scripted()]).collect()
}

fn scripted() -> Resolved {
    Resolved {
        reference: SCRIPTED.to_owned(),
        provider: OFFLINE.to_owned(),
        model: "scripted".to_owned(),
        context_window: 200_000,
        max_tokens: 8_192,
        backend: Backend::Scripted,
    }
}

fn served(name: &str, provider: &Provider, model: &Model) -> Result<Resolved, MissingVar> {
    let base = provider.base_url.get()?.expose().trim_end_matches('/');
    let url = match base.ends_with("/chat/completions") {
        true => base.to_owned(),
        false => format!("{base}/chat/completions"),
    };
    let mut headers = Vec::new();
    for (header, value) in &provider.headers {
        headers.push((header.clone(), value.get()?.clone()));
    }
    let api_key = match &provider.api_key {
        Some(key) => Some(key.get()?.clone()),
        None => None,
    };
    Ok(Resolved {
        reference: name.to_owned(),
        provider: provider.id.clone(),
        model: model.id.clone(),
        context_window: model.context_window,
        max_tokens: model.max_tokens,
        backend: Backend::OpenAi { url, api_key, headers, compat: model.compat },
    })
}

/// What there is, for an error.
pub(crate) fn known(config: &Config) -> String {
    let mut names: Vec<String> = config
        .providers
        .iter()
        .flat_map(|p| p.models.iter().map(move |m| format!("{}/{}", p.id, m.id)))
        .collect();
    names.push(SCRIPTED.to_owned());
    format!("configured: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn config() -> Config {
        let text = r#"{ models: { providers: {
            a: { baseUrl: "http://h/v1/", apiKey: "${KEY}", headers: { "x-a": "1" },
                 models: [{ id: "org/m" }] },
            b: { baseUrl: "http://h/v1", models: [{ id: "n" }] } } } }"#;
        parse(text, &|_| None).unwrap()
    }

    /// M28: the offline model needs no config, ids may hold slashes, errors list what there is.
    #[test]
    fn names_are_resolved_or_explained() {
        let scripted = resolve(&Config::default(), SCRIPTED).unwrap();
        assert_eq!(scripted.backend, Backend::Scripted);
        let found = resolve(&config(), "b/n").unwrap();
        let Backend::OpenAi { url, .. } = found.backend else { panic!() };
        assert_eq!(url, "http://h/v1/chat/completions");
        let error = resolve(&config(), "b/x").unwrap_err().to_string();
        assert!(error.contains("a/org/m, b/n, offline/scripted"), "{error}");
        assert!(matches!(resolve(&config(), "gpt"), Err(CatalogError::Shape { .. })));
    }

    /// C8: a missing variable only matters to those who use the provider.
    #[test]
    fn missing_keys_are_named_when_used() {
        let error = resolve(&config(), "a/org/m").unwrap_err().to_string();
        assert!(error.contains("KEY") && error.contains("models.providers.a.apiKey"), "{error}");
    }
}
