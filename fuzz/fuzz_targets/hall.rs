#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| stepclaw::sim::hall::fuzz_hall(data));
