//! A text file in, a model's text out.

fn main() -> std::process::ExitCode {
    nagent::cli::main::<nagent::cmd::llm_text::Args>()
}
