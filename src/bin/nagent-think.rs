//! Becomes `nagent`, which acts as nagent-think.

#[path = "../stub.rs"]
mod stub;

fn main() -> std::process::ExitCode {
    stub::become_nagent()
}
