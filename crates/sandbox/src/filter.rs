//! The seccomp filter of system calls that are refused in the sandbox: with an error, never with a signal.
//!
//! Calls that need a capability (mounts, modules, clocks) are refused by the kernel itself: commands have none, and
//! cannot make a namespace in which they would. Arguments of type `int` are compared in 32 bits, as the kernel reads
//! them. `clone3` and `openat2`, whose arguments a filter cannot read, do not exist (ENOSYS): programs then use `clone`
//! and `openat`.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// The sockets that the filter permits, in addition to those of the internet protocols and pairs of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sockets {
    /// Whether internet sockets are refused, too. In their own network namespace, commands may use its loopback.
    pub no_internet: bool,
    /// Whether the network is off: then netlink is refused, too.
    pub no_netlink: bool,
    /// Whether Unix sockets are permitted.
    pub unix: bool,
}

/// The newest system call that was considered for this list; the numbers are the same on x86_64 and aarch64.
const NEWEST: u32 = 469; // file_setattr, Linux 6.17

const FCHMODAT2: i64 = 452; // newer than the C library of some systems

#[cfg(target_arch = "x86_64")]
const NATIVE: (TargetArch, u32) = (TargetArch::x86_64, 0xC000_003E);
#[cfg(target_arch = "aarch64")]
const NATIVE: (TargetArch, u32) = (TargetArch::aarch64, 0xC000_00B7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the filter of system calls knows x86_64 and aarch64");

/// The architecture of this machine.
pub const NATIVE_ARCH: TargetArch = NATIVE.0;

/// Calls that are refused whatever their arguments.
#[rustfmt::skip]
const REFUSED: &[i64] = &[
    // Other processes: their memory, descriptors, state.
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_pidfd_getfd,
    libc::SYS_kcmp, libc::SYS_perf_event_open,
    // Ways around a filter: the kernel does the work for the caller.
    libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register,
    libc::SYS_bpf, libc::SYS_userfaultfd,
    // Keys of the user's session, and existing namespaces.
    libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl, libc::SYS_setns,
    // Files by their inode number, without a check of folders, and the kernel's log.
    libc::SYS_open_by_handle_at, libc::SYS_name_to_handle_at, libc::SYS_syslog,
];

/// Flags of `unshare` and `clone` that make namespaces. `CLONE_NEWTIME` is a signal number to `clone`.
#[rustfmt::skip]
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS, libc::CLONE_NEWCGROUP, libc::CLONE_NEWUTS, libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER, libc::CLONE_NEWPID, libc::CLONE_NEWNET,
];
const CLONE_NEWTIME: i32 = 0x80;

const SOCK_PACKET: i32 = 10; // a raw socket by an old name

const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;

/// Compiles the filter. An error is a bug of this program.
pub fn compile_filter(sockets: Sockets) -> Result<BpfProgram, String> {
    let mut rules = Rules::default();
    for call in REFUSED {
        rules.refuse(*call);
    }
    rules.add_sockets(sockets);
    for flag in NAMESPACES {
        for call in [libc::SYS_unshare, libc::SYS_clone] {
            rules.refuse_if(call, &[has_bits(0, flag)]);
        }
    }
    rules.refuse_if(libc::SYS_unshare, &[has_bits(0, CLONE_NEWTIME)]);
    for request in [TIOCSTI, TIOCLINUX] {
        rules.refuse_if(libc::SYS_ioctl, &[(1, SeccompCmpOp::Eq, request)]);
    }
    rules.refuse_set_user_id();
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let body = SeccompFilter::new(rules.0, SeccompAction::Allow, refused, NATIVE.0)
        .and_then(BpfProgram::try_from)
        .map_err(|error| error.to_string())?;
    Ok([check_call(), body].concat())
}

/// A condition of a rule: the argument's index from 0, the comparison, the value.
type Condition = (u8, SeccompCmpOp, u64);

fn has_bits(place: u8, bits: impl Into<i64>) -> Condition {
    let bits = bits.into().cast_unsigned();
    (place, SeccompCmpOp::MaskedEq(bits), bits)
}

#[derive(Default)]
struct Rules(BTreeMap<i64, Vec<SeccompRule>>);

impl Rules {
    /// Refuses a call, whatever its arguments: an empty list of rules always matches.
    fn refuse(&mut self, call: i64) {
        self.0.insert(call, Vec::new());
    }

    /// Refuses a call when all conditions hold. There is at least one, and their indexes are below 6.
    fn refuse_if(&mut self, call: i64, conditions: &[Condition]) {
        let condition = |(place, op, value): &Condition| {
            SeccompCondition::new(*place, SeccompCmpArgLen::Dword, op.clone(), *value)
        };
        let conditions: Result<Vec<_>, _> = conditions.iter().map(condition).collect();
        match conditions.and_then(SeccompRule::new) {
            Ok(rule) => self.0.entry(call).or_default().push(rule),
            // Refuse too much rather than too little.
            Err(_) => self.refuse(call),
        }
    }

    /// Refuses setting the bits that make a program run as its owner or group: they would apply to everybody, also
    /// outside.
    fn refuse_set_user_id(&mut self) {
        // The index of the mode, and of the flags for calls that use the mode only if they create a file.
        #[cfg(target_arch = "x86_64")]
        let older = (
            [(libc::SYS_chmod, 1), (libc::SYS_mknod, 1), (libc::SYS_creat, 1)],
            [(libc::SYS_open, 2, 1)],
        );
        #[cfg(not(target_arch = "x86_64"))]
        let older: ([(i64, u8); 0], [(i64, u8, u8); 0]) = ([], []);
        let calls = [
            (libc::SYS_fchmod, 1),
            (libc::SYS_fchmodat, 2),
            (FCHMODAT2, 2),
            (libc::SYS_mknodat, 2),
        ];
        let calls: Vec<(i64, u8)> = calls.into_iter().chain(older.0).collect();
        let creating: Vec<(i64, u8, u8)> =
            [(libc::SYS_openat, 3, 2)].into_iter().chain(older.1).collect();
        for bit in [libc::S_ISUID, libc::S_ISGID] {
            for (call, mode) in &calls {
                self.refuse_if(*call, &[has_bits(*mode, bit)]);
            }
            for (call, mode, flags) in &creating {
                for creates in [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY] {
                    self.refuse_if(*call, &[has_bits(*mode, bit), has_bits(*flags, creates)]);
                }
            }
        }
    }

    fn add_sockets(&mut self, sockets: Sockets) {
        let number = |number: i32| u64::from(number.cast_unsigned());
        let is = |place, value| (place, SeccompCmpOp::Eq, number(value));
        let is_not = |place, value| (place, SeccompCmpOp::Ne, number(value));
        let has_kind = |kind| (1, SeccompCmpOp::MaskedEq(0xf), number(kind));
        let permitted = [
            (!sockets.no_internet, libc::AF_INET),
            (!sockets.no_internet, libc::AF_INET6),
            (!sockets.no_internet && !sockets.no_netlink, libc::AF_NETLINK),
            (sockets.unix, libc::AF_UNIX),
        ];
        let permitted = permitted.into_iter().filter_map(|(is_on, family)| is_on.then_some(family));
        let others: Vec<Condition> = permitted.map(|family| is_not(0, family)).collect();
        if others.is_empty() {
            self.refuse(libc::SYS_socket);
        } else {
            self.refuse_if(libc::SYS_socket, &others);
            // Interfaces and routes are NETLINK_ROUTE, which is 0.
            self.refuse_if(libc::SYS_socket, &[is(0, libc::AF_NETLINK), is_not(2, 0)]);
            for raw in [libc::SOCK_RAW, SOCK_PACKET] {
                self.refuse_if(libc::SYS_socket, &[is_not(0, libc::AF_NETLINK), has_kind(raw)]);
            }
        }
        self.refuse_if(libc::SYS_socketpair, &[is_not(0, libc::AF_UNIX)]);
        // A pair of streams reaches no other process. A socket of datagrams can send to any address.
        let streams = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET];
        for other in (0..16).filter(|kind| !sockets.unix && !streams.contains(kind)) {
            self.refuse_if(libc::SYS_socketpair, &[has_kind(other)]);
        }
    }
}

/// The instructions before the rules: they check the architecture and the number of the call.
fn check_call() -> BpfProgram {
    // Offsets in the kernel's `struct seccomp_data`.
    const NUMBER: u32 = 0;
    const ARCHITECTURE: u32 = 4;
    let load = |k| sock_filter { code: 0x20, jt: 0, jf: 0, k };
    let equal = |k, jt, jf| sock_filter { code: 0x15, jt, jf, k };
    let at_least = |k, jt, jf| sock_filter { code: 0x35, jt, jf, k };
    let end = |k| sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let refuse = |errno: i32| end(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned());
    let number = |call: i64| u32::try_from(call).unwrap_or(u32::MAX);
    vec![
        load(ARCHITECTURE),
        equal(NATIVE.1, 1, 0),
        refuse(libc::EPERM),
        load(NUMBER),
        // This includes those of x32, whose numbers begin at 2^30.
        at_least(NEWEST + 1, 0, 1),
        refuse(libc::ENOSYS),
        equal(number(libc::SYS_clone3), 1, 0),
        equal(number(libc::SYS_openat2), 0, 1),
        refuse(libc::ENOSYS),
    ]
}

#[cfg(test)]
mod tests;
