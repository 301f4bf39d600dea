//! Names that change places in a loop while a model writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Lets two names change places and back in a loop while a model writes the target, over and over.
fn while_swapping(sandbox: &Sandbox, one: &str, other: &str) -> Vec<String> {
    let (going, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (goes, stopped) = (Arc::clone(&going), Arc::clone(&stop));
    let (one, other) = (sandbox.work().join(one), sandbox.work().join(other));
    let swapper = std::thread::spawn(move || {
        // In one step each, whatever stands there.
        let exchange = || {
            let (flags, cwd) = (rustix::fs::RenameFlags::EXCHANGE, rustix::fs::CWD);
            rustix::fs::renameat_with(cwd, &one, cwd, &other, flags).unwrap();
        };
        while !stopped.load(Ordering::Relaxed) {
            if goes.load(Ordering::Relaxed) {
                exchange();
                std::thread::yield_now();
                exchange();
            }
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
    });
    let writes = |round: usize| -> String {
        let one = |n: usize| write("in/a.txt", &format!("round {round}, {n}\n"));
        (0..40).map(one).collect::<Vec<_>>().join("\n")
    };
    sandbox.llm.allow_rewrites();
    let start = {
        let text = writes(0);
        after(move || going.store(true, Ordering::Relaxed), text)
    };
    let read = nothing("<nagent-read path=\"in/a.txt\"/>".to_owned());
    let rest = (1..10).map(|round| nothing(writes(round)));
    run(sandbox, "in/a.txt", [read, start].into_iter().chain(rest).collect());
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    statuses(sandbox)
}

/// Swaps in fresh worlds until some writes were done and some were refused: a run in which all went one way has tested
/// nothing, and which way they go is chance. Nothing may be written outside in any of them.
#[track_caller]
fn swap_until_both_happen(prepare: impl Fn() -> Sandbox, one: &str, other: &str) -> Sandbox {
    let mut counts = Vec::new();
    for _ in 0..10 {
        let sandbox = prepare();
        let statuses = while_swapping(&sandbox, one, other);
        nothing_outside_was_written(&sandbox);
        let done = statuses.iter().filter(|status| *status == "ok").count();
        if done > 0 && done < statuses.len() {
            return sandbox;
        }
        counts.push(done);
    }
    panic!("all writes of a run were done, or none: {counts:?}");
}

#[test]
fn a_folder_that_is_swapped_for_a_link_in_a_loop_never_lets_a_write_out() {
    let prepare = || {
        let sandbox = world();
        symlink("out", sandbox.work().join("link")).unwrap();
        sandbox
    };
    let sandbox = swap_until_both_happen(prepare, "in", "link");
    assert!(sandbox.read("in/a.txt").starts_with("round "));
}

#[test]
fn a_folder_that_is_swapped_for_another_in_a_loop_never_lets_a_write_out() {
    // The other folder's file has two names, so that a write in place would show.
    let prepare = || {
        let sandbox = world().file("other/x", "x");
        let work = sandbox.work();
        fs::hard_link(work.join("out/victim"), work.join("other/a.txt")).unwrap();
        sandbox
    };
    swap_until_both_happen(prepare, "in", "other");
}

#[test]
fn a_target_that_is_swapped_for_a_link_in_a_loop_never_lets_a_write_out() {
    let prepare = || {
        let sandbox = world();
        symlink("../out/victim", sandbox.work().join("in/link")).unwrap();
        sandbox
    };
    swap_until_both_happen(prepare, "in/a.txt", "in/link");
}

#[test]
fn a_target_that_is_swapped_for_a_hard_link_in_a_loop_never_lets_a_write_out() {
    let prepare = || {
        let sandbox = world();
        fs::hard_link(sandbox.work().join("out/victim"), sandbox.work().join("in/hard")).unwrap();
        sandbox
    };
    swap_until_both_happen(prepare, "in/a.txt", "in/hard");
}
