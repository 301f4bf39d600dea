//! A file in, its summary out.

fn main() -> std::process::ExitCode {
    nagent::cli::main::<nagent::cmd::file_summarize::Args>()
}
