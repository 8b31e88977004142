#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stepclaw::gateway::wire::fuzz::fuzz_socket(data));
