#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stepclaw::transcript::fuzz::fuzz_repair(data));
