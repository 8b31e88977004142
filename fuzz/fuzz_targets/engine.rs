#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    assert_eq!(stepclaw::sim::run_bytes(data).failed, None);
});
