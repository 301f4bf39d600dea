//! Links executables for development at a fixed address: the tests start them ten thousand times, and moving one to a random
//! address takes a third of such a start.
#![allow(clippy::disallowed_methods, reason = "a build script is made of effects")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    // The startup code of musl wants to be moved.
    let is_glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is_glibc && is("PROFILE", "debug") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-tests=-no-pie");
    }
}
