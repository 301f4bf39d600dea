//! `nagent-js`: runs JavaScript behind the policy of a thought. With `--worker` it is the process that has the engine and no
//! rights; without, the tool, which starts such a process and answers its calls.
//!
//! It is an executable of its own because it alone links the engine.

mod engine;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == nagent::sys::js_worker::WORKER_FLAG) {
        return engine::run_worker(words.next());
    }
    nagent::cli::main::<nagent::cmd::js::Args>()
}
