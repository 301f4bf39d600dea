//! A scripted model that streams its answer, and a terminal to see it on.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Both ends of a new terminal.
pub(crate) fn open_terminal() -> Result<(File, File)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = File::options().read(true).write(true).open(name.to_str()?)?;
    Ok((File::from(master), slave))
}

fn event(text: &str) -> String {
    let data = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    );
    format!("{:x}\r\n{data}\r\n", data.len())
}

/// Reads a request to its end.
pub(crate) fn read_request(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 2 {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    reader.read_exact(&mut vec![0; length])?;
    Ok(())
}

/// Answers with these pieces, in which JSON needs no escapes, `pause` apart; returns when each of them was written.
pub(crate) fn send_answer(
    mut stream: &TcpStream,
    pieces: &[String],
    pause: Duration,
) -> Result<Vec<Instant>> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
    )?;
    let mut times = Vec::new();
    for piece in pieces {
        sleep(pause);
        times.push(Instant::now());
        stream.write_all(event(piece).as_bytes())?;
    }
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    write!(stream, "{:x}\r\n{end}\r\n", end.len())?;
    let done = "data: [DONE]\n\n";
    write!(stream, "{:x}\r\n{done}\r\n0\r\n\r\n", done.len())?;
    Ok(times)
}
