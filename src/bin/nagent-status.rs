//! Becomes `nagent`, which acts as nagent-status.

#[path = "../stub.rs"]
mod stub;

fn main() -> std::process::ExitCode {
    stub::become_nagent()
}
