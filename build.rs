//! How executables are linked: for development at a fixed address, since the tests start them ten thousand times and moving one
//! to a random address takes a third of such a start; for release with packed relocations, where the C library reads them.
#![allow(clippy::disallowed_methods, reason = "a build script is made of effects")]

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let get = |name: &str| std::env::var(name).unwrap_or_default();
    // The startup code of musl wants to be moved.
    if get("CARGO_CFG_TARGET_OS") != "linux" || get("CARGO_CFG_TARGET_ENV") != "gnu" {
        return;
    }
    if get("PROFILE") == "debug" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-tests=-no-pie");
    } else if get("HOST") == get("TARGET") && reads_packed_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether this machine has glibc 2.36 or newer, the first that reads them
/// (<https://sourceware.org/bugzilla/show_bug.cgi?id=27924>). With an older one such an executable does not start.
fn reads_packed_relocations() -> bool {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text =
        output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
    let version = text.trim().strip_prefix("glibc 2.").and_then(|minor| minor.parse().ok());
    version.is_some_and(|minor: u32| minor >= 36)
}
