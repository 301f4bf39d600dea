//! How executables are linked: for development at a fixed address; for release with packed relocations, and with the functions
//! of a run side by side, where this machine can do that.
//!
//! The tests start executables ten thousand times, and moving one to a random address takes a third of such a start. What is
//! released moves, with a table of a twentieth of the size, which saves a megabyte on the disk and two in memory. A run calls
//! a sixth of the functions: the kernel maps 64 KiB around each one that it comes to, so that they took 7 MB where they lie
//! among the others, and take 3 MB.
#![allow(clippy::disallowed_methods, reason = "a build script is made of effects")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The functions of a run, as patterns of names, one on a line. `make layout` writes it.
const FUNCTIONS: &str = "layout/functions";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={FUNCTIONS}");
    let get = |name: &str| std::env::var(name).unwrap_or_default();
    if get("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    if get("PROFILE") == "debug" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-tests=-no-pie");
    } else if get("HOST") == get("TARGET") {
        if reads_packed_relocations() {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
        if let Some(script) = group_functions(&PathBuf::from(get("OUT_DIR"))) {
            println!("cargo::rustc-link-arg-bin=nagent={}", script.display());
        }
    }
}

/// Writes a linker script that puts the functions of a run before all others, and tries it: lld, which rustc brings on x86-64,
/// takes it, GNU ld does not. Patterns that fit no function do nothing.
fn group_functions(folder: &Path) -> Option<PathBuf> {
    let patterns = std::fs::read_to_string(FUNCTIONS).ok()?;
    let sections: String = patterns
        .lines()
        .map(|pattern| format!("*(.text.{pattern} .text.unlikely.{pattern})\n"))
        .collect();
    let script = folder.join("functions.ld");
    let text = format!("SECTIONS {{ .text.run : {{\n{sections}}} }}\nINSERT BEFORE .text;\n");
    std::fs::write(&script, text).ok()?;
    let source = folder.join("probe.rs");
    std::fs::write(&source, "fn main() {}").ok()?;
    let mut probe = Command::new(std::env::var("RUSTC").ok()?);
    probe.arg(&source).arg("-o").arg(folder.join("probe"));
    probe.args(["-C".to_owned(), format!("link-arg={}", script.display())]);
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        probe.args(["-C".to_owned(), format!("linker={linker}")]);
    }
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    probe.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    probe.output().is_ok_and(|output| output.status.success()).then_some(script)
}

/// Whether this machine's C library is glibc 2.36 or newer, the first that reads them
/// (<https://sourceware.org/bugzilla/show_bug.cgi?id=27924>). With an older one such an executable says so, and does not start.
fn reads_packed_relocations() -> bool {
    let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    let Some((major, minor)) =
        text.trim().strip_prefix("glibc ").and_then(|version| version.split_once('.'))
    else {
        return false;
    };
    (major.parse().ok(), minor.parse().ok()) >= (Some(2), Some(36))
}
