#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stepclaw::gateway::auth::fuzz::fuzz_connect(data));
