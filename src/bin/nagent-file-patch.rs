//! Edited segments back into the file that they were split from.

fn main() -> std::process::ExitCode {
    nagent::cli::main::<nagent::cmd::file_patch::Args>()
}
