#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stepclaw::tools::fuzz::fuzz_args(data));
