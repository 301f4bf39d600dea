//! A large file into segments and their index.

fn main() -> std::process::ExitCode {
    nagent::cli::main::<nagent::cmd::file_split::Args>()
}
