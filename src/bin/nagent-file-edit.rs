//! A file's own conversation, allowed to write the file.

fn main() -> std::process::ExitCode {
    nagent::cli::main::<nagent::cmd::file_edit::Args>()
}
