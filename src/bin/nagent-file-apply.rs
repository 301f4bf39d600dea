//! Search/replace blocks or a unified diff from stdin, put into a file.

fn main() -> std::process::ExitCode {
    nagent::cli::main::<nagent::cmd::file_apply::Args>()
}
