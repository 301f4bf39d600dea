//! Shows a long text on the terminal in the user's pager.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::env::Env;

/// Shows a text in `PAGER`, or `less`, from its beginning or, where less knows how, its end. After an error the caller can print the text instead: nothing of it is lost.
///
/// # Errors
/// The pager could not be started, or failed. `None` if the user wants no pager.
pub fn show_in_pager(text: &str, is_from_end: bool) -> Result<(), Option<String>> {
    let env = Env::read();
    let pager = env.get("PAGER").unwrap_or("less");
    // On a dumb terminal less only waits for keys.
    let is_dumb = env.get("TERM") == Some("dumb") && env.get("PAGER").is_none();
    if pager == "cat" || is_dumb {
        return Err(None);
    }
    // Ctrl-C is for the pager while it runs.
    let _ =
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)));
    let mut command = Command::new("sh");
    command.args(["-c", pager]).stdin(Stdio::piped());
    if env.get("LESS").is_none() {
        // Less exits if everything fits on the screen, and does not clear it.
        command.env("LESS", if is_from_end { "FRX+G" } else { "FRX" });
    }
    let failed = |why: &dyn std::fmt::Display| Some(format!("the pager {pager} failed: {why}"));
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // The user may quit the pager early.
        let _ = stdin.write_all(text.as_bytes());
    }
    let status = child.wait().map_err(|error| failed(&error))?;
    match status.code().or_else(|| Some(128 + status.signal()?)) {
        // Exit code 127: less is not installed, and the user did not ask for it.
        Some(127) if env.get("PAGER").is_none() => Err(None),
        // Ctrl-C, or the end of its input: the user has seen enough.
        Some(130 | 141) => Ok(()),
        Some(code) if code != 0 => Err(failed(&format_args!("it exited with {code}"))),
        _ => Ok(()),
    }
}
