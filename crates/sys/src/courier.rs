//! Connections to a process without a path: they are handed to it through a pair of sockets.
//!
//! Whoever inherits the courier's descriptor can connect, also in a sandbox that refuses Unix sockets with names; nobody else
//! can, and nothing is left in a folder. When all copies of the descriptor are closed, the process at the other end sees it.

use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    sockopt,
};

use super::interrupt::Interrupts;
use super::ready;

/// An end of the pair through which connections are handed over.
#[derive(Debug)]
pub struct Courier(OwnedFd);

impl Courier {
    /// Makes a courier, and the end at which its connections arrive.
    pub fn make_pair() -> io::Result<(Self, OwnedFd)> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (own, other) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Self(own), other))
    }

    /// A copy of the end whose number is given, if this process has inherited it.
    #[expect(unsafe_code, reason = "an inherited descriptor has no owner in Rust")]
    pub fn inherited(number: &str) -> Option<Self> {
        let number: i32 = number.parse().ok().filter(|number| *number > 2)?;
        // SAFETY: it is borrowed to make a copy, which has an owner; a number that is not open is an error.
        let copy = fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(number) }, 3).ok()?;
        let is_end = sockopt::socket_type(&copy).is_ok_and(|kind| kind == SocketType::SEQPACKET);
        is_end.then_some(Self(copy))
    }

    /// A copy for a job, which inherits it under the same number.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Lets all processes that this one starts inherit it, and returns its number.
    pub fn share(&self) -> io::Result<i32> {
        fcntl_setfd(&self.0, FdFlags::empty())?;
        Ok(self.0.as_raw_fd())
    }

    /// Connects to the process at the other end.
    pub fn connect(&self) -> io::Result<Connection> {
        let (own, other) = UnixStream::pair()?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let connections = [other.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&connections));
        sendmsg(&self.0, &[IoSlice::new(b"c")], &mut control, SendFlags::NOSIGNAL)?;
        Ok(Connection(BufReader::new(own)))
    }

    /// Waits for the next connection; `None` when all copies of the other end are closed.
    pub fn receive(&self) -> io::Result<Option<UnixStream>> {
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut byte = [0];
            let mut parts = [IoSliceMut::new(&mut byte)];
            let got = recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            let connection = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut connections) => connections.next(),
                _ => None,
            });
            // A message without a connection is skipped: any command may send one.
            if got.bytes == 0 || connection.is_some() {
                return Ok(connection.map(UnixStream::from));
            }
        }
    }
}

/// A connection over which lines are exchanged.
#[derive(Debug)]
pub struct Connection(BufReader<UnixStream>);

impl Connection {
    /// Connects to the socket at a path, if somebody listens there.
    pub fn open(path: &Path) -> Option<Self> {
        UnixStream::connect(path).ok().map(|stream| Self(BufReader::new(stream)))
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) -> io::Result<()> {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes())
    }

    /// The next line. `None` at the end, and when a signal is pending.
    pub fn next_line(&mut self, interrupts: &Interrupts) -> Option<String> {
        if self.0.buffer().is_empty() {
            let stream = PollFd::new(self.0.get_ref(), PollFlags::IN);
            ready::wait(&mut [stream, PollFd::new(interrupts, PollFlags::IN)], None);
        }
        let mut line = String::new();
        let is_over = interrupts.pending().is_some() || self.0.read_line(&mut line).ok()? == 0;
        (!is_over).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_arrive_and_the_end_is_seen() {
        let (courier, end) = Courier::make_pair().unwrap();
        let (end, interrupts) = (Courier(end), Interrupts::without_handlers().unwrap());
        let mut connection = courier.connect().unwrap();
        connection.send("hello").unwrap();
        let mut arrived = Connection(BufReader::new(end.receive().unwrap().unwrap()));
        assert_eq!(arrived.next_line(&interrupts).as_deref(), Some("hello\n"));
        drop(connection);
        assert_eq!(arrived.next_line(&interrupts), None);
        let number = courier.share().unwrap().to_string();
        let copy = Courier::inherited(&number).unwrap();
        assert!(Courier::inherited("0").is_none() && Courier::inherited("no").is_none());
        drop(courier);
        drop(copy.connect().unwrap());
        assert!(end.receive().unwrap().is_some());
        drop(copy);
        assert!(end.receive().unwrap().is_none());
    }
}
