//! The bare loop that nagent is compared with: post, spawn `SHELL -c true`, append, `fdatasync`, repeat.
//!
//! It is this program run again as a process of its own (`nagent-bench floor …`). It posts bodies of the sizes
//! that nagent posts and syncs as often: after the prompt, after each reply, after each result. It parses
//! nothing and keeps nothing in order: no loop that does less can do the same work.

use std::fs::OpenOptions;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// `port turns first grow file shell`: where to post, how often, the first body's size, how much larger each next one
/// is, the file to append to, and the shell to start.
pub(crate) fn run(args: &[String]) -> std::io::Result<()> {
    let number = |at: usize| args.get(at).and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
    let (port, turns, first, grow) = (number(0), number(1), number(2), number(3));
    let path = args.get(4).map_or("", String::as_str);
    let shell = args.get(5).map_or("sh", String::as_str);
    let port = u16::try_from(port).map_err(std::io::Error::other)?;

    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(b"the prompt, as long as a short one is, with its time and its folder\n")?;
    file.sync_data()?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut body = vec![b'x'; first];
    let mut reply = Vec::new();
    for turn in 0..=turns {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: l\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(&body)?;
        read_reply(&mut reader, &mut reply)?;
        file.write_all(&reply[..reply.len().min(400)])?;
        file.sync_data()?;
        if turn == turns {
            break;
        }
        let status = Command::new(shell).args(["-c", "true"]).status()?;
        file.write_all(
            format!("<result exit_code=\"{}\">\n</result>\n", status.code().unwrap_or(1))
                .as_bytes(),
        )?;
        file.sync_data()?;
        body.resize(body.len() + grow, b'y');
    }
    std::io::stdout().write_all(b"done\n")
}

fn read_reply(reader: &mut BufReader<TcpStream>, reply: &mut Vec<u8>) -> std::io::Result<()> {
    reply.clear();
    let mut chunk = vec![0; 1 << 16];
    while !reply.ends_with(b"\r\n0\r\n\r\n") {
        match reader.read(&mut chunk)? {
            0 => return Err(std::io::Error::other("the server closed the connection")),
            count => reply.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(())
}
