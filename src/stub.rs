//! The executables next to `nagent` with the tools' names: each becomes `nagent`, which acts by its name.
//!
//! It exists for `cargo install`, which installs executables and cannot make links; `make install` links the names to
//! `nagent`. It uses nothing of the library, which keeps it at a few hundred kilobytes.
#![allow(clippy::disallowed_methods, reason = "the library, where effects belong, would be linked")]
#![allow(clippy::print_stderr, reason = "so would its reports")]

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether stdout was closed when the process started. Rust's own start opens /dev/null in its place, and nagent would write there.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's own start.
#[used]
#[expect(unsafe_code, reason = "only the system's start-up code comes before Rust's")]
// SAFETY: a function that takes no arguments, sets a flag and makes a system call.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: the call takes no pointers, and fails if the descriptor is not open.
        let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
        STDOUT_WAS_CLOSED.store(is_closed, Ordering::Relaxed);
    }
    look
};

/// Becomes the `nagent` in the same folder, with this executable's path as the name it is called by.
pub(crate) fn become_nagent() -> ExitCode {
    if STDOUT_WAS_CLOSED.load(Ordering::Relaxed) {
        close_stdout();
    }
    let error = match env::current_exe() {
        Ok(own) => {
            let mut nagent = Command::new(own.with_file_name("nagent"));
            nagent.arg0(&own).args(env::args_os().skip(1)).exec()
        }
        Err(error) => error,
    };
    let called = env::args_os().next().unwrap_or_default();
    eprintln!(
        "{}: cannot start nagent, which contains this tool: {error}; install nagent into the same folder",
        called.display()
    );
    ExitCode::from(1)
}

/// Closes stdout again, so that nagent notices.
#[expect(unsafe_code, reason = "Rust does not close it")]
fn close_stdout() {
    // SAFETY: nothing has written to the /dev/null there, and nothing will.
    unsafe { libc::close(libc::STDOUT_FILENO) };
}
