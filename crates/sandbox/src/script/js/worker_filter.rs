//! The list of system calls that are allowed in a process that runs untrusted code in an engine. Any other call kills
//! it.
//!
//! An engine is not a sandbox: QuickJS has had faults that let a script run machine code (CVE-2026-37630). Such code
//! has only memory, and the two pipes to the parent.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::filter::NATIVE_ARCH;

/// Calls that are allowed with any arguments.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigreturn,
    // musl calls it where it makes a key for thread-local values. The parent kills by SIGKILL, which nothing blocks.
    libc::SYS_rt_sigprocmask,
];

/// Calls that map memory or change its protection: never with execute permission, so no new code can run.
const MEMORY: [i64; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

/// Compiles the filter.
///
/// # Errors
/// It cannot be compiled, which is a bug of this program.
pub(crate) fn compile_filter() -> Result<BpfProgram, String> {
    let explain = |error: seccompiler::BackendError| error.to_string();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let exec = u64::from(libc::PROT_EXEC.cast_unsigned());
    for call in MEMORY {
        let is_data =
            SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(exec), 0);
        let rule = SeccompRule::new(vec![is_data.map_err(explain)?]).map_err(explain)?;
        rules.insert(call, vec![rule]);
    }
    let (kill, allow) = (SeccompAction::KillProcess, SeccompAction::Allow);
    SeccompFilter::new(rules, kill, allow, NATIVE_ARCH)
        .and_then(BpfProgram::try_from)
        .map_err(explain)
}
