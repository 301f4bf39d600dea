//! The least of io_uring: one request, one answer. Its requests pass no filter of system calls.

use std::ffi::CStr;

use super::inside::{done, failed};

/// A ring of one place.
pub(super) struct Ring {
    fd: i32,
    parameters: [u32; 30],
    queues: *mut u8,
    entries: *mut u8,
}

// Places in `struct io_uring_params`, in words of four bytes.
const SQ_TAIL: usize = 11;
const SQ_MASK: usize = 12;
const SQ_ARRAY: usize = 16;
const CQ_HEAD: usize = 20;
const CQ_MASK: usize = 22;
const CQ_ENTRIES: usize = 25;

impl Ring {
    pub(super) fn new() -> Result<Self, String> {
        let mut parameters = [0_u32; 30];
        // SAFETY: parameters of the kernel's size.
        let fd = done(
            unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) },
            "io_uring_setup",
        )? as i32;
        let map = |offset: i64| {
            // SAFETY: a new mapping of the ring's own pages.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    4096,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    fd,
                    offset,
                )
            };
            if at == libc::MAP_FAILED {
                Err(failed("mmap of the ring"))
            } else {
                Ok(at.cast::<u8>())
            }
        };
        Ok(Self { fd, parameters, queues: map(0)?, entries: map(0x1000_0000)? })
    }

    fn word(&self, place: usize) -> *mut u32 {
        // SAFETY: a place within the mapping, as the kernel said.
        unsafe { self.queues.add(self.parameters[place] as usize).cast() }
    }

    fn submit(
        &mut self,
        code: u8,
        fd: i32,
        offset: u64,
        address: u64,
        length: u32,
        flags: u32,
    ) -> Result<i32, String> {
        let mut entry = [0_u8; 64];
        entry[0] = code;
        entry[4..8].copy_from_slice(&fd.to_ne_bytes());
        entry[8..16].copy_from_slice(&offset.to_ne_bytes());
        entry[16..24].copy_from_slice(&address.to_ne_bytes());
        entry[24..28].copy_from_slice(&length.to_ne_bytes());
        entry[28..32].copy_from_slice(&flags.to_ne_bytes());
        // SAFETY: places within the two mappings, which nobody else uses.
        unsafe {
            self.entries.copy_from(entry.as_ptr(), 64);
            let tail = self.word(SQ_TAIL);
            let at = (*tail & *self.word(SQ_MASK)) as usize;
            *self.word(SQ_ARRAY).add(at) = 0;
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            *tail = (*tail).wrapping_add(1);
            done(
                libc::syscall(libc::SYS_io_uring_enter, self.fd, 1, 1, 1, 0, 0),
                "io_uring_enter",
            )?;
            let head = self.word(CQ_HEAD);
            let at = (*head & *self.word(CQ_MASK)) as usize;
            let result = *self.word(CQ_ENTRIES).cast::<u8>().add(at * 16 + 8).cast::<i32>();
            *head = (*head).wrapping_add(1);
            if result < 0 {
                return Err(format!("io_uring: {}", std::io::Error::from_raw_os_error(-result)));
            }
            Ok(result)
        }
    }

    pub(super) fn open(&mut self, path: &CStr, flags: i32) -> Result<i32, String> {
        self.submit(18, libc::AT_FDCWD, 0, path.as_ptr() as u64, 0, flags as u32)
    }

    pub(super) fn connect(&mut self, address: &libc::sockaddr_in) -> Result<(), String> {
        let socket = self.submit(45, libc::AF_INET, libc::SOCK_STREAM as u64, 0, 0, 0)?;
        let length = size_of::<libc::sockaddr_in>() as u64;
        self.submit(16, socket, length, std::ptr::from_ref(address) as u64, 0, 0).map(drop)
    }
}
