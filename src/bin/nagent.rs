//! The loop over one conversation.

fn main() -> std::process::ExitCode {
    nagent::cli::main::<nagent::cmd::nagent::Args>()
}
