//! All tools in one executable, which acts by the name that it is called by.

fn main() -> std::process::ExitCode {
    nagent::cmd::main()
}
