//! Cases of changes: C12 to C15.

use super::*;
use crate::base::Rng;
use crate::config::Reload;

const STORED: &str = r#"{
  // Mine.
  models: { providers: {
    local: {
      baseUrl: "http://me:pw-canary@h/v1",
      apiKey: 'sk-canary\'s', // the key
      headers: { "x-team": "blue-canary", "x-ref": "${TEAM}" },
      models: [{ id: "a", maxTokens: 5 }, { id: "b" }],
    },
  } },
  gateway: { auth: { token: "tok-canary" } },
}
"#;

fn env(name: &str) -> Option<String> {
    (name == "TEAM").then(|| "red".to_owned())
}

fn patch(text: &str) -> Result<Change, ChangeError> {
    change(STORED, &Wanted::Patch { patch: text.into(), replace: vec![] }, &env)
}

fn paths(after: &str) -> Vec<(String, Reload)> {
    changed(STORED, after).into_iter().map(|c| (c.path, c.reload)).collect()
}

/// C12: what is shown has marks for secrets and keeps everything else, comments too; references
/// are no secrets.
#[test]
fn secrets_are_marked() {
    let seen = seen(STORED).unwrap();
    let all = format!("{} {}", seen.text, seen.source);
    assert!(!all.contains("canary"), "{all}");
    assert!(seen.text.contains("// Mine.") && seen.text.contains("// the key"), "{}", seen.text);
    let provider = &seen.source["models"]["providers"]["local"];
    assert_eq!(provider["headers"]["x-ref"], "${TEAM}");
    for marked in [&provider["baseUrl"], &provider["apiKey"], &provider["headers"]["x-team"]] {
        assert_eq!(marked, REDACTED);
    }
    assert_eq!(provider["models"][0]["maxTokens"], 5);
    assert!(super::seen("{ a: ").is_none());
}

/// C12: what was shown can be stored again, and is what it was.
#[test]
fn marks_come_back_as_what_they_stand_for() {
    let shown = seen(STORED).unwrap().text;
    let same = change(STORED, &Wanted::Text(shown.clone()), &env).unwrap();
    assert_eq!(parsed(&same.text), parsed(STORED));
    assert!(same.text.contains("// Mine."), "comments of the text are kept");
    let elsewhere = shown.replace("local:", "other:");
    let error = change(STORED, &Wanted::Text(elsewhere), &env).unwrap_err();
    assert!(matches!(&error, ChangeError::Mark(path) if path.contains("other")), "{error}");
    for text in [
        format!("{{ gateway: {{ controlUi: {{ root: '{REDACTED}' }} }} }}"),
        format!("{{ gateway: {{ auth: {{ token: 'x{REDACTED}' }} }} }}"),
        format!("{{ /* {REDACTED} */ }}"),
    ] {
        let refused = change(STORED, &Wanted::Text(text.clone()), &env);
        assert!(matches!(refused, Err(ChangeError::Mark(_))), "{text}: {refused:?}");
    }
    let patched = patch(&format!("{{ gateway: {{ port: 1, auth: {{ token: '{REDACTED}' }} }} }}"));
    assert!(patched.unwrap().text.contains("tok-canary"));
}

/// C13: a patch merges objects, takes away by null, and merges items by their id.
#[test]
fn patches_are_merged() {
    let local = "models: { providers: { local: ";
    let with = |inside: &str| patch(&format!("{{ {local} {inside} }} }} }}")).unwrap();
    let gone = with("{ apiKey: null, headers: null }");
    assert!(gone.config.providers[0].api_key.is_none() && !gone.text.contains("blue"));
    let more = with("{ models: [{ id: 'a', maxTokens: 6 }, { id: 'c' }] }");
    let models: Vec<(&str, u64)> =
        more.config.providers[0].models.iter().map(|m| (m.id.as_str(), m.max_tokens)).collect();
    assert_eq!(models, [("a", 6), ("b", 8_192), ("c", 8_192)]);
    let replace = vec!["models.providers.local.models".to_owned()];
    let text = "{ models: { providers: { local: { models: [{ id: 'c' }] } } } }".to_owned();
    let only = change(STORED, &Wanted::Patch { patch: text, replace }, &env).unwrap();
    assert_eq!(only.config.providers[0].models.len(), 1);
    let lists = patch("{ gateway: { controlUi: { allowedOrigins: ['a', 'b'] } } }").unwrap();
    let again = Wanted::Patch {
        patch: "{ gateway: { controlUi: { allowedOrigins: ['c'] } } }".into(),
        replace: vec![],
    };
    let again = change(&lists.text, &again, &env).unwrap();
    assert_eq!(again.config.network.origins, ["c"]);
    let nothing = patch("{ gateway: { auth: { token: 'tok-canary' } } }").unwrap();
    assert_eq!(nothing.text, STORED, "what changes nothing writes nothing anew");
}

/// C14: what would be wrong is refused with its place, by the reader that a start has.
#[test]
fn wrong_changes_are_refused() {
    let error = patch("{ gateway: { prot: 1 } }").unwrap_err();
    let ChangeError::Config(wrong) = &error else { panic!("{error}") };
    assert_eq!(wrong.path, "gateway.prot");
    assert!(wrong.line > 1 && wrong.message.contains("did you mean \"port\""), "{wrong}");
    assert!(matches!(patch("{ a: "), Err(ChangeError::Patch(_))));
    assert!(matches!(patch("[1]"), Err(ChangeError::Patch(_))));
    let broken = Wanted::Patch { patch: "{}".into(), replace: vec![] };
    assert!(matches!(change("{ a: ", &broken, &env), Err(ChangeError::Stored(_))));
    let mended = change("{ a: ", &Wanted::Text("{}".into()), &env);
    assert_eq!(mended.unwrap().config, Config::default());
}

/// C15: what differs is told key by key, with when it takes effect; secrets by their path alone.
#[test]
fn differences_are_told() {
    let after = patch(
        "{ models: { providers: { local: { apiKey: 'new', models: [{ id: 'd' }] } } },
           gateway: { port: 4, auth: null }, logging: { level: 'debug' } }",
    );
    let (hot, restart) = (Reload::Hot, Reload::Restart);
    assert_eq!(
        paths(&after.unwrap().text),
        [
            ("models.providers.local.apiKey".to_owned(), hot),
            ("models.providers.local.models".to_owned(), hot),
            ("gateway.auth.token".to_owned(), restart),
            ("gateway.port".to_owned(), restart),
            ("logging.level".to_owned(), hot),
        ]
    );
    assert!(paths(STORED).is_empty());
}

/// C16: one key by its name, with a value as people write it.
#[test]
fn one_key_is_set() {
    let set = |key: &str, value: Option<&str>| {
        let wanted = setting(key, value).unwrap();
        change(STORED, &wanted, &env).map(|change| change.config)
    };
    assert_eq!(set("gateway.port", Some("4711")).unwrap().network.port, 4_711);
    assert_eq!(set("agents.defaults.workspace", Some("1")).unwrap().agent.workspace.unwrap(), "1");
    assert!(!set("tools.exec.applyPatch.enabled", Some("false")).unwrap().tools.apply_patch);
    assert!(set("models.providers.local.apiKey", None).unwrap().providers[0].api_key.is_none());
    let models = set("models.providers.local.models", Some("[{id: 'z'}]")).unwrap();
    assert_eq!(models.providers[0].models.len(), 1, "a list is set as a whole");
    assert!(set("gateway.port", Some("many")).is_err());
    assert!(setting("models.providers.local.models[0].id", Some("x")).is_err());
}

/// C12: whatever is stored, no text that is shown holds a secret, and each can be stored again.
#[test]
fn no_text_shows_a_secret() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let mut text = STORED.to_owned();
        for _ in 0..rng.below(3) {
            let at = rng.below(text.len() as u64) as usize;
            if text.is_char_boundary(at) {
                text.insert(at, [' ', '\n', ',', '\'', '"', '\\'][rng.below(6) as usize]);
            }
        }
        let Some(shown) = seen(&text) else { continue };
        if change(&text, &Wanted::Text(text.clone()), &env).is_err() {
            continue;
        }
        for secret in ["pw-canary", "sk-canary", "blue-canary", "tok-canary"] {
            assert!(!shown.text.contains(secret), "{secret} in {}", shown.text);
        }
        let again = change(&text, &Wanted::Text(shown.text.clone()), &env).unwrap();
        assert_eq!(parsed(&again.text), parsed(&text), "{text}");
    }
}
