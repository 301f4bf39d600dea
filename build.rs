//! Links executables for development at a fixed address.
//!
//! The tests start them ten thousand times, and moving an executable to a random address takes a third of such a start. What
//! is released is linked as ever.
#![allow(clippy::disallowed_methods, reason = "a build script is made of effects")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let get = |name: &str| std::env::var(name).unwrap_or_default();
    if get("PROFILE") == "debug" && get("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
