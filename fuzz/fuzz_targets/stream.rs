#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stepclaw::model::fuzz::fuzz_stream(data));
