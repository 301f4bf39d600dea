//! A command within walls.

fn main() -> std::process::ExitCode {
    nagent::cli::main::<nagent::cmd::sandbox::Args>()
}
