//! `nagent-mcp`: with `--host` the process that keeps the MCP servers of a run. Otherwise it becomes `nagent`, which acts as
//! the tool: it starts such a process, or finds the one of its run, and asks it.
//!
//! It is an executable of its own because it alone links the SDK.

mod client;
mod host;
#[path = "../../stub.rs"]
mod stub;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    if words.next().is_some_and(|word| word == nagent::mcp::HOST_FLAG) {
        return host::run_host(&words.next().unwrap_or_default());
    }
    stub::main()
}
