//! A file and a prompt in, a model's text out.

fn main() -> std::process::ExitCode {
    nagent::cli::main::<nagent::cmd::llm_upload::Args>()
}
