//! The user's terminal: typing into it, drawing on it, on that of another window too.

use super::inside::{Inside, Through, done, ok};
use super::{Probe, With, probe};

const ESCAPES: &[u8] = b"\x1b]0;probe\x07\x1b[2J";

fn draw(path: &str) -> Through {
    use std::io::Write;
    ok(std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(ESCAPES)))
}

/// Types by an ioctl, into the terminal that stdin is.
fn type_into(request: libc::c_ulong) -> Through {
    for letter in b"x\n" {
        // SAFETY: one byte that lives on.
        done(unsafe { libc::ioctl(0, request as _, std::ptr::from_ref(letter)) }, "TIOCSTI")?;
    }
    Ok(())
}

fn steal(_: &Inside) -> Through {
    // SAFETY: numbers only.
    unsafe {
        libc::setsid();
        done(libc::ioctl(0, libc::TIOCSCTTY, 1), "TIOCSCTTY")?;
    }
    type_into(libc::TIOCSTI)
}

pub(super) const PROBES: &[Probe] = &[
    probe("terminal-type", "type into the user's terminal", |_| type_into(libc::TIOCSTI))
        .with(With::Terminal),
    probe("terminal-type-high-bits", "the same with bits that only a filter sees", |_| {
        let request = (1_u64 << 32) | libc::TIOCSTI;
        for letter in b"x\n" {
            // SAFETY: one byte that lives on; the kernel reads 32 bits of the request.
            done(
                unsafe { libc::syscall(libc::SYS_ioctl, 0, request, std::ptr::from_ref(letter)) },
                "TIOCSTI",
            )?;
        }
        Ok(())
    })
    .with(With::Terminal),
    probe("terminal-steal", "take the terminal as its own, and type into it", steal)
        .with(With::Terminal),
    probe("terminal-open", "open /dev/tty and draw on it", |_| draw("/dev/tty"))
        .with(With::Terminal),
    probe("terminal-other", "draw on the terminal of another window", |i| draw(i.text("pts")))
        .with(With::Terminal),
    probe("terminal-settings", "turn the terminal's echo off by /dev/tty", |_| {
        use std::os::fd::AsRawFd;
        let file = ok(std::fs::File::open("/dev/tty"))?;
        // SAFETY: settings filled by the kernel, and given back with one flag less.
        unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            done(libc::tcgetattr(file.as_raw_fd(), &raw mut settings), "tcgetattr")?;
            settings.c_lflag &= !libc::ECHO;
            done(libc::tcsetattr(file.as_raw_fd(), libc::TCSANOW, &raw const settings), "tcsetattr")
                .map(drop)
        }
    })
    .with(With::Terminal),
];
