//! Cases of the config.

use super::*;
use crate::base::Rng;

const FULL: &str = r#"{
  // Everything that is known.
  $schema: "https://example.com/schema.json",
  models: {
    mode: "merge",
    providers: {
      local: {
        baseUrl: "http://user:pw@127.0.0.1:${PORT}/v1?k=v",
        apiKey: { source: "env", provider: "default", id: "LOCAL_KEY" },
        api: "openai-completions",
        headers: { "x-team": "blue", "x-key": "${LOCAL_KEY}" },
        models: [
          {
            id: "m/1",
            name: "Model One",
            contextWindow: 32768,
            maxTokens: 4096,
            input: ["text", "image"],
            reasoning: true,
            cost: { input: 0, output: 0 },
            compat: {
              maxTokensField: "max_completion_tokens",
              supportsUsageInStreaming: false,
              supportsStore: true,
              supportsDeveloperRole: true,
              supportsTools: false,
              requiresToolResultName: true,
              requiresAssistantAfterToolResult: true,
              requiresMistralToolIds: true,
              requiresStringContent: false,
              emptyAssistantContent: "empty",
            },
          },
        ],
      },
    },
  },
  agents: {
    defaults: {
      model: { primary: "local/m/1", fallbacks: [] },
      workspace: "~/work",
      timeoutSeconds: 600,
      maxConcurrent: 3,
      compaction: {
        enabled: false,
        reserveTokens: 9000,
        keepRecentTokens: 8000,
        midTurnPrecheck: { enabled: true },
      },
      subagents: { maxConcurrent: 2 },
      skipBootstrap: true,
      contextInjection: "never",
      bootstrapMaxChars: 1000,
      bootstrapTotalMaxChars: 3000,
    },
  },
  messages: {
    queue: {
      mode: "steer-backlog",
      debounceMs: 250,
      cap: 5000,
      drop: "old",
      byChannel: { Telegram: "queue", discord: "collect" },
      debounceMsByChannel: { discord: 0 },
    },
  },
  session: {
    dmScope: "per-peer",
    groupScope: "main",
    mainKey: "Home",
    identityLinks: { alice: ["telegram:1", "2"], bob: ["3"] },
    reset: { mode: "daily", atHour: 5, idleMinutes: 45 },
  },
  cron: { maxConcurrentRuns: 4 },
  diagnostics: { stuckSessionWarnMs: 1000, stuckSessionAbortMs: 2000 },
  tools: {
    exec: { timeoutSeconds: 60, applyPatch: { enabled: false, workspaceOnly: false } },
    loopDetection: { enabled: false },
  },
  store: { synchronous: "normal" },
}
"#;

fn env(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("8080".to_owned()),
        "LOCAL_KEY" => Some("sk-very-secret".to_owned()),
        _ => None,
    }
}

fn error(text: &str) -> ConfigError {
    match parse(text, &env) {
        Err(error) => error,
        Ok(config) => panic!("{text}: {config:?}"),
    }
}

/// C4: every key that is known, read into its place.
#[test]
fn a_full_config() {
    let config = parse(FULL, &env).unwrap();
    let provider = &config.providers[0];
    let url = provider.base_url.get().unwrap().expose().to_owned();
    assert_eq!(url, "http://user:pw@127.0.0.1:8080/v1?k=v");
    let key = provider.api_key.as_ref().unwrap().get().unwrap().expose().to_owned();
    assert_eq!(key, "sk-very-secret");
    assert_eq!(provider.headers.len(), 2);
    let model = &provider.models[0];
    assert_eq!((model.id.as_str(), model.name.as_str()), ("m/1", "Model One"));
    assert_eq!((model.context_window, model.max_tokens, model.reasoning), (32_768, 4_096, true));
    let compat = model.compat;
    assert!(compat.encoding.images && compat.encoding.result_name && compat.store);
    assert!(!compat.usage && !compat.tools);
    assert_eq!(config.agent.model.as_deref(), Some("local/m/1"));
    assert_eq!(config.agent.timeout_seconds, Some(600));
    assert!(config.agent.skip_bootstrap && config.agent.injection == Injection::Never);
    let limits = (config.agent.bootstrap_max_chars, config.agent.bootstrap_total_max_chars);
    assert_eq!(limits, (Some(1_000), Some(3_000)));
    let skip = error("{ agents: { defaults: { contextInjection: 'continuation-skip' } } }");
    assert!(skip.to_string().contains("\"continuation-skip\" is not supported yet"), "{skip}");
    assert_eq!(config.tools.exec_timeout_seconds, Some(60));
    assert!(!config.tools.apply_patch && !config.tools.loop_detection);
    assert_eq!(config.store.synchronous, Synchronous::Normal);
}

/// C4, Q1, Q2: queues, resets, scopes, lanes and the watch; old names are read as new ones.
#[test]
fn how_conversations_are_conducted() {
    use crate::base::key::{DmScope, GroupScope, Origin, PeerKind, key_for};
    use crate::engine::turns::{DropPolicy, Mode, Partial};
    let config = parse(FULL, &env).unwrap();
    let all = Partial {
        mode: Some(Mode::FollowUp),
        debounce_ms: Some(250),
        cap: Some(crate::base::limits::TURNS_CAP_MAX),
        drop: Some(DropPolicy::Old),
    };
    assert_eq!(config.queue.all, all);
    let channel = |name: &str| config.queue.by_channel[name];
    assert_eq!(channel("telegram"), Partial { mode: Some(Mode::Steer), ..Partial::default() });
    let discord = Partial { mode: Some(Mode::Collect), debounce_ms: Some(0), ..Partial::default() };
    assert_eq!(channel("discord"), discord);
    let session = &config.session;
    assert_eq!((session.scopes.dm, session.scopes.group), (DmScope::PerPeer, GroupScope::Main));
    let (peer, kind) = ("1", PeerKind::Direct);
    let origin = Origin { channel: "telegram", account: "", peer, kind, thread: None };
    let main = session.main_key.as_deref().unwrap();
    let key = key_for("main", &origin, &session.scopes, main).unwrap();
    assert_eq!(key.as_str(), "agent:main:direct:alice");
    let group = Origin { kind: PeerKind::Group, ..origin };
    let key = key_for("main", &group, &session.scopes, main).unwrap();
    assert_eq!(key.as_str(), "agent:main:home");
    let lanes = Lanes { main: Some(3), subagent: Some(2), cron: Some(4) };
    assert_eq!(config.lanes, lanes);
    assert_eq!((config.watch.warn_ms, config.watch.abort_ms), (1_000, 2_000));
    // What is shown can be written into a config again.
    let mut shown = show(&config);
    for gone in ["models", "agents", "tools", "store"] {
        shown.as_object_mut().unwrap().remove(gone);
    }
    let again = parse(&shown.to_string(), &env).unwrap();
    assert_eq!(
        (&again.queue, &again.session, again.watch),
        (&config.queue, &config.session, config.watch)
    );
    let warned = parse("{ diagnostics: { stuckSessionWarnMs: 200000 } }", &env).unwrap();
    assert_eq!(warned.watch.abort_ms, 600_000, "three times the warning limit");
}

/// C4, Z1: each mode of a reset, and what it needs.
#[test]
fn resets_have_modes() {
    let policy = |text: &str| {
        let config = parse(&format!("{{ session: {{ reset: {{ {text} }} }} }}"), &env);
        config.map(|config| (config.session.reset.daily_hour, config.session.reset.idle_minutes))
    };
    assert_eq!(policy("mode: 'daily'"), Ok((Some(4), None)));
    assert_eq!(policy("mode: 'daily', atHour: 0, idleMinutes: 60"), Ok((Some(0), Some(60))));
    assert_eq!(policy("idleMinutes: 45, mode: 'idle', atHour: 7"), Ok((None, Some(45))));
    assert_eq!(policy("mode: 'none', idleMinutes: 45"), Ok((None, None)));
    for (text, words) in [
        ("", "session.reset: mode is missing"),
        ("mode: 'idle'", "session.reset: idleMinutes is missing"),
        ("mode: 'weekly'", "session.reset.mode: expected \"daily\", \"idle\" or \"none\""),
        ("mode: 'daily', atHour: 24", "session.reset.atHour: expected a whole number from 0 to 23"),
        ("mode: 'daily', at: 3", "unknown key session.reset.at"),
    ] {
        let error = policy(text).unwrap_err();
        assert!(error.message.contains(words), "{text}: {error}");
    }
}

/// C5: nothing at all means the defaults.
#[test]
fn an_empty_config_is_the_default() {
    assert_eq!(parse("{}", &env).unwrap(), Config::default());
    assert!(Config::default().tools.loop_detection);
    let text = "{models:{providers:{a:{baseUrl:'http://h',models:[{id:'m'}]}}}}";
    let config = parse(text, &env).unwrap();
    let model = &config.providers[0].models[0];
    assert_eq!((model.context_window, model.max_tokens), (200_000, 8_192));
    assert!(model.compat.usage && model.compat.tools && !model.compat.encoding.images);
}

/// C2, C6, C7: what is wrong is named with its path, its place, and what was perhaps meant.
#[test]
fn errors_name_path_and_place() {
    let cases = [
        ("{ agent: {} }", 1, 3, "unknown key agent; did you mean \"agents\"?"),
        ("{\n  tools: {\n    exce: {} } }", 3, 5, "tools.exce; did you mean \"exec\"?"),
        ("{ zebra: 1 }", 1, 3, "unknown key zebra"),
        ("{ channels: {} }", 1, 3, "channels is not supported yet"),
        ("{ tools: { allow: ['x'] } }", 1, 12, "tools.allow is not supported yet"),
        ("{ agents: { defaults: { sandbox: {} } } }", 1, 25, "sandbox is not supported yet"),
        (
            "{ agents: { defaults: { model: { primary: 'a/b', fallbacks: ['c/d'] } } } }",
            1,
            61,
            "agents.defaults.model.fallbacks: is not supported yet",
        ),
        ("{ agents: { defaults: { model: 'gpt' } } }", 1, 32, "expected \"provider/model\""),
        ("{ agents: { defaults: { timeoutSeconds: '5' } } }", 1, 41, "found a string"),
        ("{ agents: { defaults: { timeoutSeconds: 0 } } }", 1, 41, "above 0"),
        ("{ tools: [] }", 1, 10, "tools: expected an object, found a list"),
        ("{ store: { synchronous: 'off' } }", 1, 25, "expected \"full\" or \"normal\""),
        ("{ models: { providers: { offline: {} } } }", 1, 35, "built-in"),
        ("{ models: { providers: { a: {} } } }", 1, 29, "models.providers.a: baseUrl is missing"),
        (
            "{ models: { providers: { a: { baseUrl: 'h' } } } }",
            1,
            40,
            "begins with http:// or https://",
        ),
        (
            "{ models: { providers: { a: { baseUrl: 'http://:80/v1' } } } }",
            1,
            40,
            "models.providers.a.baseUrl: the address names no server",
        ),
        (
            "{ agents: { defaults: { model: { primary: 'a/b' } } } }",
            1,
            43,
            "there is no model \"a/b\"; configured: offline/scripted",
        ),
        (
            "{ models: { providers: { a: { baseUrl: 'http://h', api: 'ollama' } } } }",
            1,
            57,
            "\"ollama\" is not supported yet",
        ),
        (
            "{ models: { providers: { a: { baseUrl: 'http://h',\n models: [{}, 1] } } } }",
            2,
            11,
            "models.providers.a.models[0]: id is missing",
        ),
        ("{ agents: { defaults: { workspace: '${NOPE}/x' } } }", 1, 36, "NOPE is not set"),
        ("{ messages: { queue: { mode: 'later' } } }", 1, 30, "expected \"steer\", \"followup\""),
        ("{ messages: { queue: { mod: 'steer' } } }", 1, 24, "queue.mod; did you mean \"mode\"?"),
        ("{ messages: { queue: { byChannel: { x: 'y' } } } }", 1, 40, "byChannel.x: expected"),
        ("{ messages: { queue: { debounceMs: -1 } } }", 1, 36, "from 0 to 86400000"),
        ("{ messages: { queue: { drop: 'all' } } }", 1, 30, "\"summarize\""),
        ("{ messages: { ackReaction: 'x' } }", 1, 15, "ackReaction is not supported yet"),
        ("{ session: { resetByType: {} } }", 1, 14, "session.resetByType is not supported yet"),
        ("{ session: { resetByChannel: {} } }", 1, 14, "resetByChannel is not supported yet"),
        ("{ session: { dmScope: 'all' } }", 1, 23, "\"per-channel-peer\""),
        ("{ session: { mainKey: 'a:b' } }", 1, 23, "one word without colons"),
        (
            "{ session: { identityLinks: { a: ['x:1'], b: ['x:1'] } } }",
            1,
            46,
            "\"x:1\" is linked to \"a\" and to \"b\"",
        ),
        ("{ session: { identityLinks: { a: 'x' } } }", 1, 34, "expected a list"),
        ("{ cron: { enabled: true } }", 1, 11, "cron.enabled is not supported yet"),
        ("{ cron: { maxConcurrentRuns: 0 } }", 1, 30, "above 0"),
        (
            "{ agents: { defaults: { subagents: { maxDepth: 1 } } } }",
            1,
            38,
            "unknown key agents.defaults.subagents.maxDepth",
        ),
        (
            "{ diagnostics: { stuckSessionAbortMs: 5 } }",
            1,
            39,
            "less than stuckSessionWarnMs, which is 120000",
        ),
        ("{ tools: {}, tools: {} }", 1, 14, "a second time"),
        ("[]", 1, 1, "the config: expected an object, found a list"),
    ];
    for (text, line, column, words) in cases {
        let error = error(text);
        assert!(error.message.contains(words), "{text}: {error}");
        assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
    }
}

/// C4: an address has a server, and a port that can be one.
#[test]
fn addresses_are_read() {
    let wrong = |url: &str| {
        let text = format!("{{ models: {{ providers: {{ a: {{ baseUrl: '{url}' }} }} }} }}");
        parse(&text, &env).err().map(|error| error.message)
    };
    for url in [
        "http://h",
        "https://api.example.com/v1",
        "http://127.0.0.1:8080/v1/",
        "http://[::1]:8080/v1",
        "http://u:p@h:1/v1?k=v",
        "http://[::1]",
    ] {
        assert_eq!(wrong(url), None, "{url}");
    }
    for url in [
        "http://",
        "http:///v1",
        "http://:8080",
        "http://h:x",
        "http://h:0",
        "http://h:65536",
        "http://h:/v1",
        "http://[::1",
        "http://[x]:1",
        "http://a b/v1",
        "http://münchen/v1",
        "http://http://h/v1",
    ] {
        assert!(wrong(url).is_some(), "{url}");
    }
    assert!(!wrong("http://u:pw@/v1").unwrap().contains("pw"));
}

/// C4, C8: the primary model is one that there is; what its provider lacks is not asked here.
#[test]
fn the_primary_model_is_there() {
    let with = |model: &str| {
        let text = format!(
            "{{ agents: {{ defaults: {{ model: '{model}' }} }}, models: {{ providers: {{ \
             a: {{ baseUrl: '${{NOPE}}', models: [{{ id: 'x/y' }}] }} }} }} }}"
        );
        parse(&text, &env).map(|config| config.agent.model)
    };
    assert_eq!(with("a/x/y").unwrap().as_deref(), Some("a/x/y"));
    assert_eq!(with("offline/scripted").unwrap().as_deref(), Some("offline/scripted"));
    let error = with("a/x").unwrap_err();
    assert!(error.message.contains("configured: a/x/y, offline/scripted"), "{error}");
}

/// C8: a variable that is missing does no harm until its provider is used.
#[test]
fn missing_variables_wait() {
    let text = "{models:{providers:{a:{baseUrl:'http://h',apiKey:{source:'env',id:'NOPE'}}}}}";
    let config = parse(text, &env).unwrap();
    let missing = config.providers[0].api_key.as_ref().unwrap().get().unwrap_err();
    let text = missing.to_string();
    assert_eq!(text, "models.providers.a.apiKey: the environment variable NOPE is not set");
    assert_eq!(show(&config)["models"]["providers"]["a"]["apiKey"], "[missing: NOPE]");
}

/// C9: no secret is shown, neither by the command nor by a debug print.
#[test]
fn secrets_are_not_shown() {
    let config = parse(FULL, &env).unwrap();
    let shown = show(&config);
    let all = format!("{shown} {config:?}");
    for secret in ["sk-very-secret", "pw", "k=v", "blue"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
    let provider = &shown["models"]["providers"]["local"];
    assert_eq!(provider["baseUrl"], "http://127.0.0.1:8080/v1");
    assert_eq!(provider["apiKey"], "[redacted]");
}

/// C9: errors do not repeat the values that they complain about, where those may be secret.
#[test]
fn errors_do_not_show_secrets() {
    let text = "{ models: { providers: { a: { baseUrl: 'http://h', apiKey: 12345 } } } }";
    assert!(!error(text).to_string().contains("12345"));
    let text = "{ models: { providers: { a: { baseUrl: 'ftp://u:pw@h' } } } }";
    assert!(!error(text).to_string().contains("pw"));
}

/// C10: paths, a missing file, a broken file.
#[test]
fn loading() {
    use super::load::{LoadError, load, paths, workspace};
    let home = |name: &str| (name == "HOME").then(|| "/h".to_owned());
    let found = paths(&home).unwrap();
    assert_eq!(found.config.to_str(), Some("/h/.stepclaw/stepclaw.json"));
    let config = Config::default();
    assert_eq!(workspace(&config, &found, &home).to_str(), Some("/h/.stepclaw/workspace"));
    let own = parse("{agents:{defaults:{workspace:'~/w'}}}", &home).unwrap();
    assert_eq!(workspace(&own, &found, &home).to_str(), Some("/h/w"));
    assert!(matches!(paths(&|_| None), Err(LoadError::NoHome)));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stepclaw.json");
    assert_eq!(load(&file, &env).unwrap(), Config::default());
    std::fs::write(&file, "\u{feff}{\n tols: {} }").unwrap();
    let text = load(&file, &env).unwrap_err().to_string();
    assert!(
        text.ends_with("stepclaw.json:2:2: unknown key tols; did you mean \"tools\"?"),
        "{text}"
    );
    assert!(load(dir.path(), &env).is_err());
}

/// C1: no text makes the reader panic, and every refusal has a place.
#[test]
fn damaged_configs_are_refused_in_order() {
    for seed in 0..2_000 {
        let mut rng = Rng(seed);
        let mut bytes = FULL.as_bytes().to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, b"{}[]:,'\"/\\*$x0\n"[rng.below(15) as usize]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        fuzz::fuzz_config(&bytes);
    }
}
