//! `FUZZ_TARGET=NAME fuzzed [OPTION...] [DIR...]`: runs libFuzzer on a target, with the inputs in the directories. New
//! inputs go into the first directory. `scripts/fuzz` builds this program with the coverage that guides libFuzzer.

#![no_main]

use fuzzed::{FuzzTarget, TARGETS};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TARGET: LazyLock<FuzzTarget> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.into_iter().find(|(of, _)| *of == name);
    target.unwrap_or_else(|| {
        panic!(
            "FUZZ_TARGET={name}: give one of {}",
            TARGETS.map(|(name, _)| name).join(", ")
        )
    })
});

fuzz_target!(|bytes: &[u8]| {
    (TARGET.1)(bytes);
});
