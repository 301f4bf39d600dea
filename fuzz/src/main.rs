//! Runs one of the targets of `tests/it/parsers` under libFuzzer: the one that `FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/it/parsers/mod.rs"]
mod parsers;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let wanted = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names the target");
    let found = parsers::TARGETS.iter().find(|(name, _)| *name == wanted);
    found.unwrap_or_else(|| panic!("there is no fuzz target {wanted}")).1
});

fuzz_target!(|data: &[u8]| TARGET(data));
