//! Becomes `nagent`, which acts as nagent-each.

#[path = "../stub.rs"]
mod stub;

fn main() -> std::process::ExitCode {
    stub::become_nagent()
}
