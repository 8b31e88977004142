#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stepclaw::config::fuzz::fuzz_config(data));
