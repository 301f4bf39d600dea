//! Tells the helpers that are shared with `tests/it` where the executables are.
//!
//! Cargo sets `CARGO_BIN_EXE_*` and `CARGO_TARGET_TMPDIR` only for the integration tests of the package that has the
//! executables. `make torture` builds those first and passes their folder in `NAGENT_BIN`.
#![allow(clippy::disallowed_methods, reason = "a build script is made of effects")]

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=NAGENT_BIN");
    let folder = std::env::var("NAGENT_BIN").unwrap_or_else(|_| {
        println!("cargo::error=NAGENT_BIN is not set: use `make torture`, which builds the executables first");
        std::process::exit(0);
    });
    let folder = PathBuf::from(folder);
    for name in [
        "nagent",
        "nagent-llm-text",
        "nagent-llm-upload",
        "nagent-file-edit",
        "nagent-file-split",
        "nagent-file-patch",
        "nagent-file-summarize",
        "nagent-sandbox",
        "nagent-conversations",
        "nagent-message",
        "nagent-each",
    ] {
        println!("cargo::rustc-env=CARGO_BIN_EXE_{name}={}", folder.join(name).display());
    }
    let scratch = folder.with_file_name("tmp");
    std::fs::create_dir_all(&scratch).expect("a folder for files of tests, beside the executables");
    println!("cargo::rustc-env=CARGO_TARGET_TMPDIR={}", scratch.display());
}
