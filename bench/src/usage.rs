//! What a child took, from the kernel. No clock of its own.

use std::ffi::{c_int, c_long};
use std::time::Duration;

/// How a child ended.
pub(crate) struct Ended {
    /// Its exit code, or minus the signal that ended it.
    pub(crate) code: i32,
    /// User and system time, of its descendants too.
    #[allow(dead_code, reason = "not every program asks for it")]
    pub(crate) cpu: Duration,
    /// The peak of its memory, in KiB.
    #[allow(dead_code, reason = "not every program asks for it")]
    pub(crate) peak: i64,
}

#[repr(C)]
struct Timeval {
    seconds: c_long,
    micros: c_long,
}

/// `struct rusage` of Linux: two times, the peak, then thirteen counts that are not looked at.
#[repr(C)]
struct Rusage {
    user: Timeval,
    system: Timeval,
    peak: c_long,
    counts: [c_long; 13],
}

unsafe extern "C" {
    fn wait4(pid: c_int, status: *mut c_int, options: c_int, usage: *mut Rusage) -> c_int;
}

/// Waits for a child's end.
pub(crate) fn wait(pid: u32) -> Result<Ended, String> {
    let zero = || Timeval { seconds: 0, micros: 0 };
    let mut usage = Rusage { user: zero(), system: zero(), peak: 0, counts: [0; 13] };
    let mut status = 0;
    let pid = c_int::try_from(pid).map_err(|error| error.to_string())?;
    // SAFETY: both pointers are to live values of the types that wait4 fills; std has no call for a child's times.
    let ended = unsafe { wait4(pid, &raw mut status, 0, &raw mut usage) };
    if ended != pid {
        return Err(format!("wait4: {}", std::io::Error::last_os_error()));
    }
    let code = if status & 0x7f == 0 { (status >> 8) & 0xff } else { -(status & 0x7f) };
    let time = |t: Timeval| {
        Duration::from_secs(t.seconds.unsigned_abs())
            + Duration::from_micros(t.micros.unsigned_abs())
    };
    Ok(Ended { code, cpu: time(usage.user) + time(usage.system), peak: usage.peak })
}
