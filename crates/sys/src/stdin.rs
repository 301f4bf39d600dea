//! Standard input, read only on request, and never past a signal.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags};

use super::interrupt::Interrupts;
use super::ready;
use super::terminal;
use conversation::exit::Signal;
use conversation::limits::{self, STDIN_PROMPT};

/// Reads stdin to its end. `Err` in the inner result is the signal that came first.
pub fn read_to_end(interrupts: &Interrupts) -> Result<Result<Vec<u8>, Signal>> {
    read_stream(io::stdin().lock(), "standard input", interrupts)
}

/// Reads stdin as text, unless it is a terminal. `Err` in the inner result is the signal that came first.
pub fn read_text(interrupts: &Interrupts) -> Result<Result<String, Signal>> {
    if terminal::stdin_is_terminal() {
        return Ok(Ok(String::new()));
    }
    Ok(read_to_end(interrupts)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Waits for input on stdin, or for its end, up to this time. Returns whether there is something to read; `Err` in the
/// inner result is the signal that came first.
pub fn wait_for_input(time: Duration, interrupts: &Interrupts) -> Result<Result<bool, Signal>> {
    let (stdin, signals) = (io::stdin(), interrupts.as_fd());
    let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
    ready::wait(&mut fds, Some(Instant::now() + time));
    Ok(interrupts.pending().map_or(Ok(!fds[0].revents().is_empty()), Err))
}

/// Whether stdin has data that could be read. Waits up to this time for a pipe's first byte. `Err` in the inner result is the
/// signal that came first.
pub fn has_data_within(time: Duration, interrupts: &Interrupts) -> Result<Result<bool, Signal>> {
    if terminal::stdin_has_input() || !terminal::stdin_is_stream() {
        return Ok(Ok(terminal::stdin_has_input()));
    }
    Ok(wait_for_input(time, interrupts)?.map(|_| terminal::stdin_has_input()))
}

/// Reads stdin up to the end of its first line, and any bytes that came with it. `Err` in the inner result is the
/// signal that came first.
pub fn read_line(interrupts: &Interrupts) -> Result<Result<Vec<u8>, Signal>> {
    read_until(io::stdin().lock(), "standard input", interrupts, |bytes| bytes.contains(&b'\n'))
}

/// Reads a stream to its end, or until a signal ([`read_to_end`]). Errors call it by `name`.
pub(crate) fn read_stream(
    stream: impl Read + AsFd,
    name: &str,
    interrupts: &Interrupts,
) -> Result<Result<Vec<u8>, Signal>> {
    read_until(stream, name, interrupts, |_| false)
}

/// Replaces stdin by a pipe where it is a file: a descriptor for reading is enough to change a file's mode and times.
///
/// # Errors
/// The pipe cannot be made, or stdin is a folder, through which everything can be reached.
pub fn pipe_stdin() -> io::Result<()> {
    // If stdin is closed, there is nothing to replace.
    let Ok(stdin) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) else {
        return Ok(());
    };
    let mut file = File::from(stdin);
    if file.metadata()?.is_dir() {
        let text = "stdin is a folder, which leads out of the sandbox; close it (<&-)";
        return Err(io::Error::other(text));
    }
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    let (reader, mut writer) = io::pipe()?;
    rustix::stdio::dup2_stdin(reader)?;
    // The thread ends with the command, which need not read to the end.
    std::thread::spawn(move || io::copy(&mut file, &mut writer));
    Ok(())
}

fn read_until(
    mut stream: impl Read + AsFd,
    name: &str,
    interrupts: &Interrupts,
    is_enough: impl Fn(&[u8]) -> bool,
) -> Result<Result<Vec<u8>, Signal>> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        if let Some(signal) = interrupts.pending() {
            return Ok(Err(signal));
        }
        {
            let signals = interrupts.as_fd();
            let mut fds =
                [PollFd::new(&stream, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
            ready::wait(&mut fds, None);
            if fds[0].revents().is_empty() {
                continue;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(Ok(bytes)),
            Ok(n) => {
                bytes.extend_from_slice(&buffer[..n]);
                if is_enough(&buffer[..n]) {
                    return Ok(Ok(bytes));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
        }
        if bytes.len() > limits::STDIN_PROMPT {
            bail!(
                "{name} has over {STDIN_PROMPT} bytes; put it into a file and name the file in the prompt"
            );
        }
    }
}
