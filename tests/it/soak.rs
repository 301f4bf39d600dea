//! A long run with a provider that fails every fifth time: nothing is lost, nothing comes twice.
//!
//! Here it is 60 turns; the torture has 2,000 and looks at memory and descriptors too.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::answers::Answer;
use crate::sandbox::{Sandbox, answer, shell};
use crate::wire::Reply;

/// What a long run left.
#[derive(Debug)]
pub(crate) struct Soaked {
    /// Requests that failed on purpose.
    pub(crate) failed: usize,
    /// Resident memory in KiB and open descriptors, at a tenth of the way and at its end.
    pub(crate) early: (usize, usize),
    pub(crate) late: (usize, usize),
    /// What is wrong.
    pub(crate) wrong: Vec<String>,
}

/// Resident memory in KiB, and how many descriptors are open.
fn sample(pid: u32) -> (usize, usize) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = memory.and_then(|rest| rest.trim().split(' ').next()?.parse().ok());
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    (memory.unwrap_or(0), open)
}

/// Runs so many turns, each of which adds a line to a file; every fifth request fails, as `seed` has it. `cuts`: some of
/// them in the middle of a reply, after which the run waits longer.
pub(crate) fn soak(turns: usize, seed: u64, cuts: bool) -> Soaked {
    let sandbox = Sandbox::new().file("log", "");
    let (failed, pid) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let samples = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (failing, watched, kept) = (Arc::clone(&failed), Arc::clone(&pid), Arc::clone(&samples));
    let (mut done, mut numbers) = (0, seed);
    sandbox.llm.choose(move |_| {
        numbers =
            numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = numbers >> 33;
        if draw.is_multiple_of(5) {
            failing.fetch_add(1, Ordering::SeqCst);
            return match draw / 5 % 40 {
                0 if cuts => Answer::Cut(Reply::new(shell("echo never >> log"))),
                1 if cuts => Answer::Half(Reply::new(shell("echo never >> log"))),
                n if n % 2 == 0 => Answer::busy(429),
                _ => Answer::busy(503),
            };
        }
        if done == turns / 10 || done == turns {
            let pid = u32::try_from(watched.load(Ordering::SeqCst)).unwrap();
            kept.lock().unwrap().push(sample(pid));
        }
        done += 1;
        if done > turns {
            answer("done").into()
        } else {
            shell(&format!("echo {done}. >> log")).into()
        }
    });
    let most = (turns + 10).to_string();
    let running = sandbox.cmd(&["--conversation", "c", "--max-turns", &most, "task"]).spawn();
    pid.store(running.pid() as usize, Ordering::SeqCst);
    let run = running.wait_up_to(std::time::Duration::from_mins(10));
    let mut wrong = Vec::new();
    if run.code != 0 || run.stdout != "done\n" {
        wrong.push(format!("exit {}: {} {}", run.code, run.stdout, run.stderr));
    }
    let log: Vec<String> = sandbox.read("log").lines().map(str::to_owned).collect();
    let expect: Vec<String> = (1..=turns).map(|n| format!("{n}.")).collect();
    if log != expect {
        let distinct: BTreeSet<&String> = log.iter().collect();
        wrong.push(format!(
            "{} commands ran, {} of them once, of {turns}",
            log.len(),
            distinct.len()
        ));
    }
    let blocks = sandbox.blocks();
    let count = |name: &str| blocks.iter().filter(|block| block.name == name).count();
    for (name, wanted) in [
        ("user-prompt", 1),
        ("agent-response", turns + 1),
        ("nagent-turn-status", turns + 1),
        ("nagent-shell-result", turns),
    ] {
        if count(name) != wanted {
            wrong.push(format!("{} blocks of {name}, not {wanted}", count(name)));
        }
    }
    let left = sandbox.lasting_processes();
    if !left.is_empty() {
        wrong.push(format!("processes stay: {left:?}"));
    }
    let samples = samples.lock().unwrap();
    let at = |n: usize| samples.get(n).copied().unwrap_or_default();
    Soaked {
        failed: failed.load(Ordering::SeqCst),
        early: at(0),
        late: at(samples.len().max(1) - 1),
        wrong,
    }
}

#[test]
fn sixty_turns_with_a_provider_that_fails_every_fifth_time() {
    let soaked = soak(60, 7, false);
    assert_eq!(soaked.wrong, [] as [&str; 0]);
    assert!(soaked.failed > 6, "{soaked:?}");
    assert!(soaked.late.1 <= soaked.early.1 + 2, "descriptors stay open: {soaked:?}");
}
