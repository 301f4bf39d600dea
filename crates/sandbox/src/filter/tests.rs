//! The filter, run by a small machine for the instructions that it is made of.

use super::*;

/// What the filter says of a call: 0 for "go on", or the error.
fn ask(program: &BpfProgram, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend(number.to_ne_bytes());
    data.extend(architecture.to_ne_bytes());
    data.extend(0_u64.to_ne_bytes());
    for argument in arguments {
        data.extend(argument.to_ne_bytes());
    }
    let word = |at: u32| {
        let at = usize::try_from(at).unwrap();
        u32::from_ne_bytes(data[at..at + 4].try_into().unwrap())
    };
    let (mut at, mut accumulator) = (0_usize, 0_u32);
    loop {
        let sock_filter { code, jt, jf, k } = &program[at];
        at += 1;
        let mut jump = |holds: bool| at += usize::from(if holds { *jt } else { *jf });
        match code {
            0x20 => accumulator = word(*k),
            0x54 => accumulator &= k,
            0x05 => at += usize::try_from(*k).unwrap(),
            0x15 => jump(accumulator == *k),
            0x25 => jump(accumulator > *k),
            0x35 => jump(accumulator >= *k),
            0x06 if *k == libc::SECCOMP_RET_ALLOW => return 0,
            0x06 => {
                assert_eq!(k & 0xffff_0000, libc::SECCOMP_RET_ERRNO, "an error, never a signal");
                return k & 0xffff;
            }
            other => panic!("an instruction that the test does not know: {other:#x}"),
        }
    }
}

const OPEN: Sockets = Sockets { no_internet: false, no_netlink: false, unix: false };
const OWN: Sockets = Sockets { no_internet: false, no_netlink: true, unix: true };
const CUT: Sockets = Sockets { no_internet: true, no_netlink: true, unix: false };
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

fn check(sockets: Sockets, call: i64, arguments: &[u64], expect: u32) {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let program = compile_filter(sockets).unwrap();
    let got = ask(&program, NATIVE.1, u32::try_from(call).unwrap(), all);
    assert_eq!(got, expect, "{sockets:?} {call} {arguments:x?}");
}

#[test]
fn ordinary_calls_go_on() {
    for call in
        [libc::SYS_read, libc::SYS_openat, libc::SYS_execve, libc::SYS_kill, libc::SYS_futex]
    {
        check(CUT, call, &[1, 2, 3], 0);
    }
    check(CUT, libc::SYS_clone, &[0x0120_0011], 0);
    check(OPEN, libc::SYS_ioctl, &[0, 0x5401], 0);
    check(OPEN, libc::SYS_mknodat, &[0, 0, u64::from(libc::S_IFIFO | 0o600)], 0);
    check(OPEN, libc::SYS_shmget, &[], 0);
}

#[test]
fn what_reaches_out_is_refused() {
    for call in [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_pidfd_getfd,
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_setns,
        libc::SYS_open_by_handle_at,
        libc::SYS_keyctl,
    ] {
        check(OPEN, call, &[], EPERM);
    }
    for flag in NAMESPACES {
        let flag = u64::from(flag.cast_unsigned());
        check(OPEN, libc::SYS_unshare, &[flag | 0x200], EPERM);
        check(OPEN, libc::SYS_clone, &[flag | 0x11], EPERM);
    }
    check(OPEN, libc::SYS_clone3, &[], ENOSYS);
}

#[test]
fn the_upper_half_of_an_int_changes_nothing() {
    for request in [TIOCSTI, TIOCLINUX] {
        check(OPEN, libc::SYS_ioctl, &[0, request], EPERM);
        check(OPEN, libc::SYS_ioctl, &[0, request | 0x1_0000_0000], EPERM);
    }
    check(OPEN, libc::SYS_socket, &[0x1_0000_0001, 1], EPERM);
    check(OPEN, libc::SYS_socket, &[0x1_0000_0010, 3, 9], EPERM);
}

#[test]
fn set_user_id_bits_are_refused() {
    let (create, tmpfile) = (0o100, 0x41_0000);
    for bits in [0o4755, 0o2755, 0o6000] {
        check(OPEN, libc::SYS_fchmod, &[3, bits], EPERM);
        check(OPEN, libc::SYS_fchmodat, &[0, 0, bits], EPERM);
        check(OPEN, FCHMODAT2, &[0, 0, bits, 0], EPERM);
        check(OPEN, libc::SYS_mknodat, &[0, 0, 0o100_000 | bits], EPERM);
        for flags in [create, tmpfile, create | 0o1001] {
            check(OPEN, libc::SYS_openat, &[0, 0, flags, bits], EPERM);
        }
        // Without O_CREAT there is no mode, whatever is in its place.
        check(OPEN, libc::SYS_openat, &[0, 0, 0o1, bits], 0);
    }
    check(OPEN, libc::SYS_fchmod, &[3, 0o1777], 0);
    check(OPEN, libc::SYS_openat, &[0, 0, create, 0o1777], 0);
    check(OPEN, libc::SYS_openat2, &[], ENOSYS);
}

#[test]
fn sockets() {
    let (unix, inet, inet6, netlink) = (1, 2, 10, 16);
    for family in 0..64 {
        let is_internet = family == inet || family == inet6;
        check(OPEN, libc::SYS_socket, &[family, 1], u32::from(!is_internet && family != netlink));
        let is_own = is_internet || family == unix;
        check(OWN, libc::SYS_socket, &[family, 1], u32::from(!is_own));
        check(CUT, libc::SYS_socket, &[family, 1], EPERM);
        check(CUT, libc::SYS_socket, &[family, 1, 262], EPERM);
    }
    check(OPEN, libc::SYS_socket, &[netlink, 3, 0], 0);
    check(OPEN, libc::SYS_socket, &[netlink, 3, 15], EPERM);
    for raw in [3, 10] {
        check(OPEN, libc::SYS_socket, &[inet, raw], EPERM);
        check(OPEN, libc::SYS_socket, &[inet6, raw | 0o2_000_000], EPERM);
    }
    // A pair of streams, with any flags; no pair of datagrams.
    for (kind, expect) in
        [(1, 0), (5, 0), (1 | 0o2_004_000, 0), (2, EPERM), (3, EPERM), (2 | 0o2_000_000, EPERM)]
    {
        check(CUT, libc::SYS_socketpair, &[unix, kind], expect);
    }
    check(OWN, libc::SYS_socketpair, &[unix, 2], 0);
    for sockets in [OWN, CUT] {
        check(sockets, libc::SYS_socketpair, &[inet, 1], EPERM);
    }
}

#[test]
fn other_architectures_and_newer_calls_are_not_there() {
    let program = compile_filter(OPEN).unwrap();
    let i386 = 0x4000_0003;
    assert_eq!(ask(&program, i386, 4, [0; 6]), EPERM);
    assert_eq!(ask(&program, NATIVE.1, 0x4000_0001, [0; 6]), ENOSYS);
    assert_eq!(ask(&program, NATIVE.1, NEWEST + 1, [0; 6]), ENOSYS);
    assert_eq!(ask(&program, NATIVE.1, NEWEST, [0; 6]), 0);
}
