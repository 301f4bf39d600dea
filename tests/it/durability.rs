//! Nothing lost: kills at any instant, appends that fail, and files that others change while a run is at work.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::answers::{Answer, Latch};
use crate::blocks::{Block, blocks};
use crate::process_under_test::{Run, Running};
use crate::sandbox::{CANARY, NAGENT, Sandbox, answer, shell};

const KILLS: u64 = 36;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A model whose replies never end: commands, writes and children, each command with a number of its own.
pub(crate) fn busy(sandbox: &Sandbox) {
    let tmp = sandbox.tmp();
    let count = Arc::new(AtomicU64::new(0));
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(move |request| {
        if request.user().contains("child work") {
            return answer("child's answer").into();
        }
        let n = count.fetch_add(1, Ordering::SeqCst);
        let write = format!(
            "<nagent-write path=\"{}\">text {n}\n</nagent-write>",
            tmp.join(format!("w{n}")).display()
        );
        let run = |part: &str| {
            shell(&format!("echo {n}.{part} >> log; sleep 0.00{}; echo '</system>'", n % 7))
        };
        let child = "<nagent-conversation>child work</nagent-conversation>";
        let children = if n.is_multiple_of(3) { format!("{child}{child}") } else { String::new() };
        format!("{}{write}{children}{}", run("a"), run("b")).into()
    });
}

/// The results behind each reply: their names and states must fit its tags, and commands the log.
pub(crate) fn check_results(all: &[Block], log: &[String]) {
    let replies: Vec<usize> = all
        .iter()
        .enumerate()
        .filter(|(_, b)| b.name == "agent-response")
        .map(|(at, _)| at)
        .collect();
    for (i, at) in replies.iter().enumerate() {
        let end = replies.get(i + 1).copied().unwrap_or(all.len());
        let results: Vec<&Block> =
            all[at + 1..end].iter().filter(|b| b.name.ends_with("-result")).collect();
        let tags: Vec<&str> = ["shell", "write", "conversation"]
            .into_iter()
            .flat_map(|tag| {
                all[*at]
                    .body
                    .match_indices(&format!("<nagent-{tag}"))
                    .map(move |(at, _)| (at, tag))
                    .collect::<Vec<_>>()
            })
            .collect::<std::collections::BTreeMap<_, _>>()
            .into_values()
            .collect();
        let names: Vec<&str> = results
            .iter()
            .map(|b| b.name.trim_start_matches("nagent-").trim_end_matches("-result"))
            .collect();
        assert_eq!(names, tags, "each action has one result:\n{all:#?}");
        let ranks: Vec<usize> = results
            .iter()
            .map(|b| {
                ["ok", "unknown", "not-run"].iter().position(|s| *s == b.get("status")).unwrap()
            })
            .collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        let unknown: Vec<&str> = results
            .iter()
            .filter(|b| b.get("status") == "unknown")
            .map(|b| b.name.as_str())
            .collect();
        assert!(unknown.len() <= 1 || unknown == ["nagent-conversation-result"; 2], "{unknown:?}");
        let commands = all[*at]
            .body
            .split("echo ")
            .skip(1)
            .step_by(2)
            .map(|rest| rest.split(' ').next().unwrap());
        for (command, result) in
            commands.zip(results.iter().filter(|b| b.name == "nagent-shell-result"))
        {
            let ran = log.iter().filter(|line| *line == command).count();
            match result.get("status") {
                "ok" => assert_eq!(ran, 1, "{command}"),
                "not-run" => assert_eq!(ran, 0, "{command}"),
                _ => assert!(ran <= 1, "{command}"),
            }
        }
    }
}

#[test]
fn kills_at_any_instant_lose_nothing_and_repeat_nothing() {
    let sandbox = Sandbox::new().file("log", "");
    busy(&sandbox);
    let path = sandbox.root().join("conversations/c");
    let mut numbers = Numbers(7);
    let mut before: Vec<Block> = Vec::new();
    // A busy machine gets on more slowly: then there are more kills, and later ones.
    for n in 0..6 * KILLS {
        if n >= KILLS && sandbox.read("log").lines().count() > 10 {
            break;
        }
        let longest = 90 * (1 + n / KILLS);
        let running = sandbox.cmd(&["--conversation", "c", &format!("prompt {n}")]).spawn();
        std::thread::sleep(Duration::from_millis(5 + numbers.below(longest)));
        running.signal(Signal::KILL);
        running.wait();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let Some(whole) = whole_part(&text) else { continue };
        let now = blocks(whole);
        assert!(now.starts_with(&before), "after kill {n} a block is gone");
        before = now;
    }
    sandbox.llm.forget();
    sandbox.llm.choose(|_| answer("done").into());
    sandbox.run(&["--conversation", "c", "end"]).assert_exit(0).stdout_is("done\n");
    let now = blocks(&std::fs::read_to_string(&path).unwrap());
    assert!(now.starts_with(&before));
    let log: Vec<String> = sandbox.read("log").lines().map(str::to_owned).collect();
    assert!(log.len() > 10, "the kills left it time to do something: {log:?}");
    check_results(&now, &log);
    assert!(!PathBuf::from(format!("{}.run", path.display())).exists());
    let mut prompts: Vec<&str> =
        now.iter().filter(|b| b.name == "user-prompt").map(|b| b.body.as_str()).collect();
    let all = prompts.len();
    prompts.dedup();
    assert_eq!(prompts.len(), all, "each prompt is there once");
}

/// The text without a torn tail, as far as a reader that knows of none can tell.
pub(crate) fn whole_part(text: &str) -> Option<&str> {
    (!text.is_empty() && text.ends_with('\n')).then_some(text)
}

#[test]
fn a_tail_torn_within_a_fenced_block_is_moved_aside_by_the_next_run() {
    let sandbox = Sandbox::new()
        .reply(shell("cat ~/.nagent/conversations/c; echo; echo end"))
        .reply(answer("one"));
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    let whole = sandbox.conversation();
    let from = whole.find("<nagent-shell-result").unwrap();
    let to = from + whole[from..].find("\nend\n").unwrap();
    sandbox.llm.allow_rewrites();
    let path = sandbox.root().join("conversations/c");
    // Each end of a line within the block, where the output's own blocks may be whole.
    for (at, _) in whole[from..to].match_indices('\n').step_by(5) {
        std::fs::write(&path, &whole[..=from + at]).unwrap();
        std::fs::write(sandbox.root().join("conversations/c.run"), "{}").unwrap();
        sandbox.llm.push(answer("two"));
        sandbox.run(&["--conversation", "c", "again"]).assert_exit(0).stdout_is("two\n");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(whole[..from].trim_end()));
        let result = blocks(&text).into_iter().find(|b| b.name == "nagent-shell-result").unwrap();
        assert_eq!(result.get("status"), "unknown");
        assert!(sandbox.invalid().iter().any(|torn| *torn == whole[from..=from + at]));
    }
}

/// `nagent` with no file beyond so many KiB.
fn with_small_files(sandbox: &Sandbox, kib: u32, args: &str) -> Run {
    let line = format!("ulimit -f {kib}; exec '{NAGENT}' {args}");
    sandbox.program("bash", &["-c", &line]).run()
}

/// A conversation `c` whose last block was torn within whole blocks of another, as a run leaves it that is killed; and its
/// text up to there.
fn torn(sandbox: &Sandbox) -> String {
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    let path = sandbox.root().join("conversations/c");
    let whole = std::fs::read_to_string(&path).unwrap();
    let from = whole.find("<nagent-shell-result").unwrap();
    let inner = from + whole[from..].find("\n</user-prompt>\n").unwrap();
    std::fs::write(&path, &whole[..inner + "\n</user-prompt>\n".len()]).unwrap();
    std::fs::write(sandbox.root().join("conversations/c.run"), "{}").unwrap();
    sandbox.llm.allow_rewrites();
    whole[..from].trim_end().to_owned()
}

fn torn_world() -> (Sandbox, String) {
    let sandbox = Sandbox::new()
        .reply(shell("cat ~/.nagent/conversations/c; echo; echo end"))
        .reply(answer("one"));
    let before = torn(&sandbox);
    (sandbox, before)
}

#[test]
fn a_torn_tail_that_could_not_be_put_aside_is_by_a_later_run() {
    let (sandbox, before) = torn_world();
    for _ in 0..2 {
        with_small_files(&sandbox, 2, "--conversation c go").assert_exit(1);
    }
    let path = sandbox.root().join("conversations/c");
    assert!(std::fs::read_to_string(&path).unwrap().len() > before.len() + 10, "nothing was cut");
    sandbox.llm.push(answer("two"));
    sandbox.run(&["--conversation", "c", "again"]).assert_exit(0).stdout_is("two\n");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with(&before));
    assert!(!path.with_extension("run").exists());
}

#[test]
fn upkeep_that_takes_the_lock_after_a_kill_puts_the_torn_tail_aside_too() {
    // The working copy is refused, and the conversation stays.
    let (sandbox, before) = torn_world();
    sandbox.llm.push(Answer::error(401, "invalid_api_key"));
    sandbox.run(&["--conversation", "c", "--edit-conversation", "shorten it"]).assert_exit(3);
    sandbox.llm.push(answer("two"));
    sandbox.run(&["--conversation", "c", "again"]).assert_exit(0).stdout_is("two\n");
    assert!(sandbox.conversation().starts_with(&before));

    // What is put aside can be gone on from.
    for args in [
        &["--conversation", "c", "--clear"][..],
        &["--conversation", "d", "--save-conversation", "c"],
    ] {
        let (sandbox, before) = torn_world();
        sandbox.llm.push(answer("of d"));
        sandbox.run(&["--conversation", "d", "task"]).assert_exit(0);
        sandbox.run(args).assert_exit(0);
        let names = std::fs::read_dir(sandbox.root().join("conversations")).unwrap();
        let aside = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .find(|name| name.starts_with("c-"))
            .unwrap();
        sandbox.llm.push(answer("two"));
        sandbox.run(&["--conversation", &aside, "again"]).assert_exit(0).stdout_is("two\n");
        let text = std::fs::read_to_string(sandbox.root().join("conversations").join(aside));
        assert!(text.unwrap().starts_with(&before));
        assert!(!sandbox.root().join("conversations/c.run").exists());
    }
}

#[test]
fn a_save_that_fails_leaves_the_name_what_it_was() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer(&"long ".repeat(20_000)));
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    sandbox.run(&["--conversation", "c", "--save-conversation", "s"]).assert_exit(0);
    sandbox.run(&["--conversation", "c", "another"]).assert_exit(0);
    let all = || {
        let names = std::fs::read_dir(sandbox.root().join("conversations")).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names.into_iter().map(|path| (std::fs::read(&path).ok(), path)).collect::<Vec<_>>()
    };
    let before = all();
    with_small_files(&sandbox, 60, "--conversation c --save-conversation s").assert_exit(1);
    assert_eq!(all(), before);
}

#[test]
fn a_limit_of_file_size_is_an_error_and_nothing_runs_after_it() {
    for json in ["", "--json"] {
        let reply = format!(
            "{}<nagent-response>{}</nagent-response>",
            shell("touch ran"),
            "x".repeat(40_000)
        );
        let sandbox = Sandbox::new().reply(reply);
        let mut command = Command::new("bash");
        let line = format!("ulimit -f 20; exec '{NAGENT}' {json} --conversation c task");
        command
            .args(["-c", &line])
            .current_dir(sandbox.work())
            .env("HOME", sandbox.home())
            .env("OPENAI_API_KEY", CANARY)
            .env("TMPDIR", sandbox.tmp());
        let run = Running::start(command, "a run with small files".into()).wait().assert_exit(1);
        assert!(!sandbox.work().join("ran").exists(), "no action after an append that failed");
        let last = sandbox.blocks().pop().unwrap();
        assert_eq!(
            (last.name.as_str(), last.body.as_str()),
            ("user-prompt", "task"),
            "rolled back"
        );
        assert!(!sandbox.root().join("conversations/c.run").exists());
        if json.is_empty() {
            run.no_stdout().stderr_has(&[
                "cannot append",
                "conversations/c",
                "nothing of it was kept",
            ]);
        } else {
            let document = run.json();
            assert_eq!(document["exit_code"], 1);
            assert!(document["error"].as_str().unwrap().contains("cannot append"));
        }
        // And it goes on once there is room.
        sandbox.llm.push(answer("done"));
        sandbox.run(&["--conversation", "c", "again"]).answers("done");
    }
}

#[test]
fn a_fork_is_named_in_json_and_noted_in_the_fork() {
    let sandbox = Sandbox::new();
    let latch = Latch::default();
    sandbox
        .llm
        .push(Answer::held(&latch, shell("nothing=1; cat \"$HOME\"/.nagent/conversations/*.run")));
    sandbox.llm.push(answer("done"));
    let running = sandbox.cmd(&["--json", "--conversation", "mine", "task"]).spawn();
    sandbox.llm.wait_for_requests(1);
    let path = sandbox.root().join("conversations/mine");
    std::fs::remove_file(&path).unwrap();
    latch.release();
    let document = running.wait().assert_exit(0).json();
    assert!(!path.exists());
    let fork = PathBuf::from(document["conversation_path"].as_str().unwrap());
    let name = fork.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("mine-"), "{name}");
    let all = blocks(&std::fs::read_to_string(&fork).unwrap());
    let names: Vec<&str> = all.iter().map(|b| b.name.as_str()).collect();
    let expect = [
        "initial_context",
        "user-prompt",
        "agent-response",
        "nagent-turn-status",
        "system",
        "nagent-shell-result",
        "agent-response",
        "nagent-turn-status",
    ];
    assert_eq!(names, expect);
    assert!(
        all[4].body.contains(name) && all[4].body.contains("changed conversation mine"),
        "{:?}",
        all[4]
    );
    assert_eq!(
        all[5].body.matches("\"pid\"").count(),
        1,
        "one note says who is at work: {:?}",
        all[5]
    );
}

#[test]
fn a_lock_whose_holder_was_killed_is_free_at_once() {
    let sandbox = Sandbox::new().answer(Answer::StallHead).reply(answer("two"));
    let running = sandbox.cmd(&["--conversation", "c", "one"]).spawn();
    sandbox.llm.wait_for_requests(1);
    let busy = sandbox.run(&["--conversation", "c", "--lock-timeout", "0.2", "two"]).assert_exit(1);
    busy.within(2.0).stderr_has(&["in use", &running.pid().to_string(), "--lock-timeout"]);
    let waiting = sandbox.cmd(&["--conversation", "c", "two"]).spawn();
    crate::sandbox::wait_until("it waits", || waiting.stderr_so_far().contains("waiting"));
    running.signal(Signal::KILL);
    waiting.wait().within(2.0).assert_exit(0).stdout_is("two\n");
    running.wait();
    assert_eq!(sandbox.blocks_of("user-prompt").len(), 2);
}

#[test]
fn no_run_file_stays_however_a_run_ends() {
    let endings: [(&str, &[&str], Answer, i32); 5] = [
        ("refused", &["task"], Answer::error(401, "invalid_api_key"), 3),
        ("malformed", &["task"], "<words".into(), 4),
        ("limit", &["--max-turns", "1", "task"], shell("true").into(), 5),
        ("check", &["--check", "false", "task"], answer("x").into(), 6),
        ("read", &["--read", "nowhere", "task"], answer("x").into(), 1),
    ];
    for (what, args, reply, code) in endings {
        let sandbox = Sandbox::new();
        sandbox.llm.choose(move |_| reply.clone());
        let args: Vec<&str> = ["--conversation", "c"].iter().chain(args).copied().collect();
        sandbox.run(&args).assert_exit(code);
        assert!(!sandbox.root().join("conversations/c.run").exists(), "{what}");
    }
}
