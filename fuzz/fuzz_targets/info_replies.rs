#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| _ = (fuzzed::INFO_REPLIES.property)(bytes));
