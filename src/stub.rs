// The executables next to `nagent` with the tools' names, which include this: each becomes `nagent`, which acts by its name.
//
// It exists for `cargo install`, which installs executables and cannot make links; `make install` links the names to
// `nagent`. It uses nothing of the library, which keeps it at a few hundred kilobytes.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Becomes the `nagent` in the same folder, with this executable's path as the name it is called by.
#[allow(clippy::disallowed_methods, reason = "the library, where effects belong, would be linked")]
#[allow(clippy::print_stderr, reason = "so would its reports")]
pub(crate) fn main() -> ExitCode {
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
