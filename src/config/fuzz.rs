//! Fuzzing entry: any text is read or refused, and a refusal has a place inside the text.

/// Reads any bytes as a config.
///
/// # Panics
/// When a rule is broken; that is what a fuzzer looks for.
pub fn fuzz_config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let env = |name: &str| name.len().is_multiple_of(2).then(|| "value".to_owned());
    match super::parse(&text, &env) {
        Ok(config) => assert!(super::show(&config).is_object()),
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1, "{error}");
            assert!(error.line <= text.split(['\n', '\r']).count() + 1, "{error}");
            assert!(!error.message.is_empty());
        }
    }
}
