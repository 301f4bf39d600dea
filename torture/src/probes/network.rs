//! The network, and sockets of the machine. Listeners are the outside's, which counts what arrives.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixStream};
use std::time::{Duration, Instant};

use super::inside::{Inside, MARK, Through, c, done, failed, ok, say};
use super::{Probe, With, probe};

const SHORT: Duration = Duration::from_millis(400);

fn tcp(address: &str) -> Through {
    let address: SocketAddr = address.parse().map_err(|error| format!("{error}"))?;
    ok(TcpStream::connect_timeout(&address, SHORT).and_then(|mut to| to.write_all(MARK.as_bytes())))
}

fn loopback(i: &Inside) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: i.number::<u16>("tcp").to_be(),
        sin_addr: libc::in_addr { s_addr: 0x7f00_0001_u32.to_be() },
        sin_zero: [0; 8],
    }
}

fn socket(family: i32, kind: i32, protocol: i32) -> Result<i32, String> {
    // SAFETY: numbers only.
    done(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) }, "socket")
        .map(|fd| fd as i32)
}

fn connect(fd: i32, to: &libc::sockaddr_in) -> Through {
    // SAFETY: an address of the length given.
    done(
        unsafe {
            libc::connect(fd, std::ptr::from_ref(to).cast(), size_of::<libc::sockaddr_in>() as u32)
        },
        "connect",
    )
    .map(drop)
}

/// Sends one datagram to a path, or to a name without one.
fn unix_address(path: &str) -> (libc::sockaddr_un, u32) {
    // SAFETY: all zeros are an address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    (address, (2 + path.len() + 1) as u32)
}

fn send_pair(i: &Inside, kind: i32) -> Through {
    let mut ends = [0; 2];
    let (address, length) = unix_address(&i.at("outside/datagrams.sock").display().to_string());
    // SAFETY: two numbers, bytes of a constant, an address of the length given.
    unsafe {
        done(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()), "socketpair")?;
        let sent = libc::sendto(
            ends[0],
            MARK.as_ptr().cast(),
            MARK.len(),
            0,
            std::ptr::from_ref(&address).cast(),
            length,
        );
        done(sent as i64, "sendto").map(drop)
    }
}

pub(super) const PROBES: &[Probe] = &[
    probe("tcp4", "connect to the host's loopback", |i| {
        tcp(&format!("127.0.0.1:{}", i.text("tcp")))
    }),
    probe("tcp-spellings", "connect by other spellings of it", |i| {
        let port = i.text("tcp");
        i.each([format!("0.0.0.0:{port}"), format!("[::ffff:127.0.0.1]:{port}")], |to| tcp(to))
    }),
    probe("tcp6", "connect to the host's loopback in IPv6", |i| {
        tcp(&format!("[::1]:{}", i.text("tcp6")))
    }),
    probe("tcp-fast-open", "send with the first packet, without connect", |i| {
        let to = loopback(i);
        let fd = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        // SAFETY: bytes of a constant, an address of the length given.
        let sent = unsafe {
            libc::sendto(
                fd,
                MARK.as_ptr().cast(),
                MARK.len(),
                libc::MSG_FASTOPEN,
                std::ptr::from_ref(&to).cast(),
                size_of_val(&to) as u32,
            )
        };
        done(sent as i64, "sendto").map(drop)
    }),
    probe("mptcp", "connect by multipath TCP", |i| {
        connect(socket(libc::AF_INET, libc::SOCK_STREAM, 262)?, &loopback(i))
    }),
    probe("tcp-by-number", "ask for TCP by its number, and with flags", |i| {
        connect(
            socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, libc::IPPROTO_TCP)?,
            &loopback(i),
        )
        .or_else(|why| if why.contains("progress") { Ok(()) } else { Err(why) })
    })
    .effect(),
    probe("udp", "send a datagram", |i| {
        let socket = ok(UdpSocket::bind("0.0.0.0:0"))?;
        ok(socket.send_to(MARK.as_bytes(), format!("127.0.0.1:{}", i.text("udp")))).map(drop)
    })
    .effect(),
    probe("udp6", "send a datagram in IPv6", |i| {
        let socket = ok(UdpSocket::bind("[::]:0"))?;
        ok(socket.send_to(MARK.as_bytes(), format!("[::1]:{}", i.text("udp6")))).map(drop)
    })
    .effect(),
    probe("dns", "ask a name server, the secret in the name", |i| {
        let mut question = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in ["exfiltrated", "probe", "test"] {
            question.push(label.len() as u8);
            question.extend(label.bytes());
        }
        question.extend([0, 0, 1, 0, 1]);
        let socket = ok(UdpSocket::bind("0.0.0.0:0"))?;
        ok(socket.connect(format!("127.0.0.1:{}", i.text("udp"))))?;
        ok(socket.send(&question)).map(drop)
    })
    .effect(),
    probe("icmp", "send an echo request", |i| {
        let fd = socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)
            .or_else(|_| socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP))?;
        let mut packet = vec![8, 0, 0, 0, 0x4e, 0x41, 0, 1];
        packet.extend(i.token().bytes().take(16));
        if packet.len() % 2 == 1 {
            packet.push(0);
        }
        let sum: u32 =
            packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
        let to = loopback(i);
        // SAFETY: bytes of their length, an address of the length given.
        let sent = unsafe {
            libc::sendto(
                fd,
                packet.as_ptr().cast(),
                packet.len(),
                0,
                std::ptr::from_ref(&to).cast(),
                size_of_val(&to) as u32,
            )
        };
        done(sent as i64, "sendto").map(drop)
    })
    .effect(),
    probe("raw", "open raw sockets, with the old type too", |i| {
        i.each(
            [
                (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_TCP),
                (libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
                (libc::AF_INET, 10, 0x0300),
            ],
            |(family, kind, protocol)| socket(*family, *kind, *protocol).map(drop),
        )
    }),
    probe("packet", "listen to all packets", |_| {
        socket(libc::AF_PACKET, libc::SOCK_RAW, 0x0300).map(drop)
    }),
    probe("netlink", "ask for interfaces, routes, listeners and events", |i| {
        // Routes, listeners, events of devices, generic.
        i.each([0, 4, 15, 16], |protocol| {
            socket(libc::AF_NETLINK, libc::SOCK_RAW, *protocol).map(drop)
        })
    }),
    probe("vsock", "open a socket to the machine's host", |_| {
        socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0).map(drop)
    }),
    probe("odd-families", "open a socket of every other family", |i| {
        let usual = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        let mut through = Vec::new();
        for family in (1..64).filter(|family| !usual.contains(family)) {
            for kind in 1..6 {
                if socket(family, kind, 0).is_ok() {
                    through.push(family);
                }
            }
        }
        if through.is_empty() {
            Err("none opened".to_owned())
        } else {
            say(&format!("{through:?}"));
            i.each(["any"], |_| Ok(()))
        }
    }),
    probe("socket-with-high-bits", "ask with bits that only a filter sees", |i| {
        // The kernel reads 32 bits of the family.
        let family = (1_u64 << 32) | libc::AF_INET as u64;
        // SAFETY: numbers only.
        let fd = done(
            unsafe { libc::syscall(libc::SYS_socket, family, libc::SOCK_STREAM, 0) },
            "socket",
        )?;
        connect(fd as i32, &loopback(i))
    }),
    probe("unix-stream", "connect to a socket of the machine (docker.sock)", |i| {
        ok(UnixStream::connect(i.at("outside/docker.sock"))
            .and_then(|mut to| to.write_all(MARK.as_bytes())))
    }),
    probe("unix-stream-in-temp", "connect to a socket in a temp folder (ssh-agent)", |i| {
        ok(UnixStream::connect(i.at("tmp/agent.sock"))
            .and_then(|mut to| to.write_all(MARK.as_bytes())))
    }),
    probe("unix-datagram", "send to a socket of the machine (syslog)", |i| {
        ok(UnixDatagram::unbound()
            .and_then(|from| from.send_to(MARK.as_bytes(), i.at("outside/datagrams.sock"))))
        .map(drop)
    }),
    probe("unix-seqpacket", "connect by sequenced packets", |i| {
        let fd = socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0)?;
        let (address, length) = unix_address(&i.at("outside/packets.sock").display().to_string());
        // SAFETY: an address of the length given.
        done(unsafe { libc::connect(fd, std::ptr::from_ref(&address).cast(), length) }, "connect")
            .map(drop)
    }),
    probe("unix-abstract", "connect to a socket without a path", |i| {
        let address = ok(UnixAddr::from_abstract_name(i.text("abstract").as_bytes()))?;
        ok(UnixStream::connect_addr(&address).and_then(|mut to| to.write_all(MARK.as_bytes())))
    }),
    probe("pair-datagram", "send from one end of a pair to a path", |i| {
        send_pair(i, libc::SOCK_DGRAM)
    }),
    probe("pair-datagram-flags", "the same with flags", |i| {
        send_pair(i, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
    }),
    probe("pair-raw", "the same by the raw type, which is datagrams", |i| {
        send_pair(i, libc::SOCK_RAW)
    }),
    probe("uring-socket", "let io_uring make the socket and connect", |i| {
        super::uring::Ring::new()?.connect(&loopback(i))
    }),
    probe("int80", "connect by the 32-bit calls of another architecture", int80)
        .only_where(cfg!(target_arch = "x86_64")),
    probe("inherited-socket", "send by a socket that was open before", |_| {
        // SAFETY: bytes of a constant; the descriptor is open or is not.
        done(
            unsafe { libc::send(7, MARK.as_ptr().cast(), MARK.len(), libc::MSG_NOSIGNAL) } as i64,
            "send",
        )
        .map(drop)
    })
    .with(With::OpenSocket),
    probe("listen", "wait for a connection", |i| {
        let listener = ok(TcpListener::bind(format!("127.0.0.1:{}", i.text("knock"))))?;
        ok(listener.set_nonblocking(true))?;
        let start = Instant::now();
        while start.elapsed() < SHORT {
            if listener.accept().is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err("nobody came".to_owned())
    })
    .with(With::Knock),
    probe("listen-unbound", "wait for a connection on a port that the kernel chose", |i| {
        let fd = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        // SAFETY: numbers only; the descriptor has no other owner.
        let listener = unsafe {
            done(libc::listen(fd, 4), "listen")?;
            TcpListener::from_raw_fd(fd)
        };
        // On the host's loopback it reaches itself; the outside's connection would, too.
        let port = ok(listener.local_addr())?.port();
        say(&format!("knock {port}"));
        ok(listener.set_nonblocking(true))?;
        let start = Instant::now();
        while start.elapsed() < SHORT {
            if listener.accept().is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = (i, listener.as_raw_fd());
        Err("nobody came".to_owned())
    })
    .with(With::Knock),
    probe("unix-listen", "make a socket in the temp folder for others to connect to", |i| {
        let fd = socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)?;
        let path = i.at("tmp/own.sock");
        let (address, length) = unix_address(&path.display().to_string());
        // SAFETY: an address of the length given.
        if unsafe { libc::bind(fd, std::ptr::from_ref(&address).cast(), length) } < 0 {
            return Err(failed("bind"));
        }
        let _ = c(path);
        Ok(())
    })
    .gap("unix sockets of other programs"),
];

/// `socket` and `connect` by `int 0x80`, whose addresses have 32 bits.
#[cfg(target_arch = "x86_64")]
fn int80(i: &Inside) -> Through {
    /// One call: its number and three arguments.
    ///
    /// # Safety
    /// The arguments are what the call asks for.
    unsafe fn call(number: u32, first: u32, second: u32, third: u32) -> i32 {
        let result: i32;
        // SAFETY: rbx is put back; the kernel touches r8 to r11 at most.
        unsafe {
            std::arch::asm!(
                "xchg rbx, {first}",
                "int 0x80",
                "xchg rbx, {first}",
                first = inout(reg) u64::from(first) => _,
                inlateout("eax") number => result,
                in("ecx") second,
                in("edx") third,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        result
    }
    let named = |result: i32, what: &str| {
        if result < 0 {
            Err(format!("{what}: {}", std::io::Error::from_raw_os_error(-result)))
        } else {
            Ok(result)
        }
    };
    let address = loopback(i);
    let length = size_of_val(&address) as u32;
    // SAFETY: a mapping of its own below 4 GiB, in which the address is put.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
        let low = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        if low == libc::MAP_FAILED {
            return Err(failed("mmap"));
        }
        low.cast::<libc::sockaddr_in>().write(address);
        let fd =
            named(call(359, libc::AF_INET as u32, libc::SOCK_STREAM as u32, 0), "socket of i386")?;
        named(call(362, fd as u32, low as usize as u32, length), "connect of i386").map(drop)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn int80(_: &Inside) -> Through {
    Err("there are no 32-bit calls".to_owned())
}
