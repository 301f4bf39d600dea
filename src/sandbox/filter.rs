//! The system calls that are refused in the sandbox, as a seccomp filter: with an error, never with a signal.
//!
//! Some repeat what a mount or a namespace stops already, where that costs no program anything. Arguments of type `int` are
//! compared in 32 bits, as the kernel reads them. Calls of other architectures, of x32, and those newer than this list are
//! all refused. `clone3` and `openat2`, whose arguments a filter cannot see, do not exist (ENOSYS): programs then use `clone`
//! and `openat`.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// Which sockets the filter refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sockets {
    /// Whether there are no internet sockets. In a network namespace of their own, commands may use its loopback.
    pub no_internet: bool,
    /// Whether the network is off: then netlink is closed too.
    pub no_netlink: bool,
}

/// The newest system call that was considered for this list; the numbers are those of x86_64 and aarch64 alike.
const NEWEST: u32 = 469; // file_setattr, Linux 6.17

/// Newer than the C library of some systems.
const FCHMODAT2: i64 = 452;

/// Where x32's numbers begin.
const X32: u32 = 0x4000_0000;

#[cfg(target_arch = "x86_64")]
const NATIVE: (TargetArch, u32) = (TargetArch::x86_64, 0xC000_003E);
#[cfg(target_arch = "aarch64")]
const NATIVE: (TargetArch, u32) = (TargetArch::aarch64, 0xC000_00B7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the filter of system calls knows x86_64 and aarch64");

/// Calls that are refused whatever their arguments.
const REFUSED: &[i64] = &[
    // Other processes: their memory, descriptors, state.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_perf_event_open,
    // Ways around a filter: the kernel does the work for the caller.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    // Keys of the user's session.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Mounts, namespaces, roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    467, // open_tree_attr, Linux 6.15
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Files by their inode number, past every folder.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // The machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_vhangup,
    libc::SYS_syslog,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Calls that are refused too where there are no namespaces of processes and of System V objects.
const REFUSED_ALONE: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Flags of `unshare` and `clone` that make namespaces. `CLONE_NEWTIME` is a signal number to `clone`.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
const CLONE_NEWTIME: u32 = 0x80;

/// A raw socket by an old name.
const SOCK_PACKET: i32 = 10;

const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;

/// Compiles the filter.
///
/// # Errors
/// It cannot be compiled, which is a fault of this program.
pub fn compile_filter(sockets: Sockets, alone: bool) -> Result<BpfProgram, String> {
    let mut rules = Rules::default();
    for call in REFUSED.iter().chain(REFUSED_ALONE.iter().filter(|_| alone)) {
        rules.refuse(*call);
    }
    rules.add_sockets(sockets)?;
    for flag in NAMESPACES {
        for call in [libc::SYS_unshare, libc::SYS_clone] {
            rules.refuse_if(call, &[has_bits(0, flag.cast_unsigned())])?;
        }
    }
    rules.refuse_if(libc::SYS_unshare, &[has_bits(0, CLONE_NEWTIME)])?;
    for request in [TIOCSTI, TIOCLINUX] {
        rules.refuse_if(libc::SYS_ioctl, &[(1, SeccompCmpOp::Eq, request)])?;
    }
    let kind = SeccompCmpOp::MaskedEq(u64::from(libc::S_IFMT));
    for device in [libc::S_IFCHR, libc::S_IFBLK] {
        rules.refuse_if(libc::SYS_mknodat, &[(2, kind.clone(), u64::from(device))])?;
        #[cfg(target_arch = "x86_64")]
        rules.refuse_if(libc::SYS_mknod, &[(1, kind.clone(), u64::from(device))])?;
    }
    rules.refuse_set_user_id()?;
    if alone {
        // Limits of other processes of this user.
        rules.refuse_if(libc::SYS_prlimit64, &[(0, SeccompCmpOp::Ne, 0)])?;
    }
    rules.compile()
}

/// A condition of a rule: the argument's place from 0, the comparison, the value.
type Condition = (u8, SeccompCmpOp, u64);

/// The argument at this place has all of these bits.
fn has_bits(place: u8, bits: u32) -> Condition {
    (place, SeccompCmpOp::MaskedEq(bits.into()), bits.into())
}

#[derive(Default)]
struct Rules(BTreeMap<i64, Vec<SeccompRule>>);

impl Rules {
    /// Refuses a call, whatever its arguments: an empty list of rules always matches.
    fn refuse(&mut self, call: i64) {
        self.0.insert(call, Vec::new());
    }

    /// Refuses a call when all conditions hold.
    fn refuse_if(&mut self, call: i64, conditions: &[Condition]) -> Result<(), String> {
        let condition = |(place, op, value): &Condition| {
            SeccompCondition::new(*place, SeccompCmpArgLen::Dword, op.clone(), *value)
        };
        let conditions: Result<Vec<_>, _> = conditions.iter().map(condition).collect();
        let rule = conditions.and_then(SeccompRule::new).map_err(|error| error.to_string())?;
        self.0.entry(call).or_default().push(rule);
        Ok(())
    }

    /// Refuses to set the bits by which a program runs as its owner or group: it would do so for everybody, outside too.
    fn refuse_set_user_id(&mut self) -> Result<(), String> {
        // The place of the mode.
        let calls: &[(i64, u8)] = &[
            (libc::SYS_fchmod, 1),
            (libc::SYS_fchmodat, 2),
            (FCHMODAT2, 2),
            (libc::SYS_mknodat, 2),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_chmod, 1),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_mknod, 1),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_creat, 1),
        ];
        // And of the flags, of calls that have a mode only if they create a file.
        let creating: &[(i64, u8, u8)] = &[
            (libc::SYS_openat, 3, 2),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_open, 2, 1),
        ];
        for bit in [libc::S_ISUID, libc::S_ISGID] {
            for (call, mode) in calls {
                self.refuse_if(*call, &[has_bits(*mode, bit)])?;
            }
            for (call, mode, flags) in creating {
                for creates in [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY] {
                    let creates = has_bits(*flags, creates.cast_unsigned());
                    self.refuse_if(*call, &[has_bits(*mode, bit), creates])?;
                }
            }
        }
        Ok(())
    }

    fn add_sockets(&mut self, sockets: Sockets) -> Result<(), String> {
        let number = |number: i32| u64::from(number.cast_unsigned());
        let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        let [unix, inet, inet6, netlink] = families.map(number);
        let kind = SeccompCmpOp::MaskedEq(0xf);
        if sockets.no_internet {
            self.refuse(libc::SYS_socket);
        } else {
            let mut others = vec![(0, SeccompCmpOp::Ne, inet), (0, SeccompCmpOp::Ne, inet6)];
            if !sockets.no_netlink {
                others.push((0, SeccompCmpOp::Ne, netlink));
                // Interfaces and routes are NETLINK_ROUTE, which is 0.
                self.refuse_if(
                    libc::SYS_socket,
                    &[(0, SeccompCmpOp::Eq, netlink), (2, SeccompCmpOp::Ne, 0)],
                )?;
            }
            self.refuse_if(libc::SYS_socket, &others)?;
            for raw in [libc::SOCK_RAW, SOCK_PACKET] {
                let other = (0, SeccompCmpOp::Ne, netlink);
                self.refuse_if(libc::SYS_socket, &[other, (1, kind.clone(), number(raw))])?;
            }
        }
        // A pair of streams reaches nobody else. A socket of datagrams can send to any address.
        self.refuse_if(libc::SYS_socketpair, &[(0, SeccompCmpOp::Ne, unix)])?;
        for other in
            (0..16).filter(|kind| ![libc::SOCK_STREAM, libc::SOCK_SEQPACKET].contains(kind))
        {
            self.refuse_if(libc::SYS_socketpair, &[(1, kind.clone(), number(other))])?;
        }
        Ok(())
    }

    fn compile(self) -> Result<BpfProgram, String> {
        let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        let filter = SeccompFilter::new(self.0, SeccompAction::Allow, refused, NATIVE.0)
            .map_err(|error| error.to_string())?;
        let body: BpfProgram =
            filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())?;
        Ok([check_call(), body].concat())
    }
}

/// The instructions before the rules: they check the architecture and the number of the call.
fn check_call() -> BpfProgram {
    // Places in the kernel's `struct seccomp_data`.
    const NUMBER: u32 = 0;
    const ARCHITECTURE: u32 = 4;
    let load = |k| sock_filter { code: 0x20, jt: 0, jf: 0, k };
    let equal = |k, jt, jf| sock_filter { code: 0x15, jt, jf, k };
    let at_least = |k, jt, jf| sock_filter { code: 0x35, jt, jf, k };
    let refuse = |errno: i32| sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(),
    };
    let number = |call: i64| u32::try_from(call).unwrap_or(u32::MAX);
    vec![
        load(ARCHITECTURE),
        equal(NATIVE.1, 1, 0),
        refuse(libc::EPERM),
        load(NUMBER),
        at_least(X32, 0, 1),
        refuse(libc::EPERM),
        at_least(NEWEST + 1, 0, 1),
        refuse(libc::ENOSYS),
        equal(number(libc::SYS_clone3), 1, 0),
        equal(number(libc::SYS_openat2), 0, 1),
        refuse(libc::ENOSYS),
    ]
}

#[cfg(test)]
mod tests;
