//! `nagent-js`: with `--worker` the process that has the JavaScript engine and no rights. Otherwise it becomes `nagent`,
//! which acts as the tool: it starts such a process and answers its calls.
//!
//! It is an executable of its own because it alone links the engine.

mod engine;
#[path = "../../stub.rs"]
mod stub;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == sandbox::script::js_worker::WORKER_FLAG) {
        return engine::run_worker(words.next());
    }
    stub::main()
}
