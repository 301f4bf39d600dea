//! How executables are linked: for development at a fixed address, for release with packed relocations where they can be read.
//!
//! The tests start executables ten thousand times, and moving one to a random address takes a third of such a start. What is
//! released moves, with a table of a twentieth of the size, which saves a megabyte on the disk and two in memory.
#![allow(clippy::disallowed_methods, reason = "a build script is made of effects")]

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let get = |name: &str| std::env::var(name).unwrap_or_default();
    if get("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    if get("PROFILE") == "debug" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-tests=-no-pie");
    } else if get("HOST") == get("TARGET") && reads_packed_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
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
