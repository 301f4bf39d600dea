//! Many at once: appends by eight processes, somebody who replaces the file under its lock, updates of both indexes, runs
//! that bring older ones into the new form, runs that queue, holders that are killed or stopped.
//!
//! A writer of the first kind is this executable again, which appends through the library. `APPENDS=5000` has each append
//! more.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use history::file_index;
use rustix::process::{Pid, Signal, kill_process};
use sys::atomic_file::AtomicFile;
use sys::conversation_file::ConversationFile;
use sys::interrupt::Interrupts;
use sys::root::Root;
use sys::{fs, lock};

use crate::answers::{Answer, Latch};
use crate::figures::Figures;
use crate::ground::number;
use crate::sandbox::{Sandbox, answer};

const VARIABLE: &str = "NAGENT_TORTURE_CROWD";
const WRITERS: usize = 8;

/// If this process is one of the crowd, does its work.
pub(crate) fn member() -> Option<()> {
    let words = std::env::var(VARIABLE).ok()?;
    let words: Vec<&str> = words.split(' ').collect();
    let [what, folder, number, count] = words[..] else { panic!("{words:?}") };
    let root = Root { folder: folder.into() };
    let count: usize = count.parse().unwrap();
    let interrupts = Interrupts::without_handlers().unwrap();
    let hour = Duration::from_hours(1);
    match what {
        "append" => {
            for n in 0..count {
                let mut journal =
                    ConversationFile::open(&root, "c", hour, &interrupts, &mut |_| ())
                        .expect("the conversation opens");
                let padding = "x".repeat(n * 37 % 300);
                let text = format!("<system>\nwriter {number} says {n}. {padding}\n</system>\n");
                let done = journal.append(&text).expect("it is appended");
                assert_eq!(done, None);
            }
        }
        // As loading and editing do it: under the lock, a new file in the place of the old.
        "replace" => {
            for n in 0..count {
                let held = lock::lock_conversation(&root, "c", hour, &interrupts, &mut |_| ())
                    .expect("the lock");
                let path = root.conversation("c");
                let text = fs::read_text(&path, 1 << 30).unwrap().unwrap_or_default();
                let space = if text.is_empty() { "" } else { "\n" };
                let text = format!("{text}{space}<system>\nreplacer {n}.\n</system>\n");
                AtomicFile::new(&path).write(text.as_bytes()).unwrap();
                drop(held);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        "index" => {
            for n in 0..count {
                let path = root.folder.join(format!("file-{number}-{n}"));
                std::fs::write(&path, "x").unwrap();
                file_index::register(&root, &path, || format!("of-{number}-{n}"), &interrupts).unwrap();
            }
        }
        "hold" => {
            let _held = lock::lock_conversation(&root, "c", hour, &interrupts, &mut |_| ())
                .expect("the lock");
            println!("held");
            std::thread::sleep(hour);
        }
        other => panic!("{other}"),
    }
    Some(())
}

fn start(what: &str, root: &Root, number: usize, count: usize) -> Child {
    let words = format!("{what} {} {number} {count}", root.folder.display());
    Command::new(std::env::current_exe().unwrap())
        .env(VARIABLE, words)
        .stdin(Stdio::null())
        .stdout(if what == "hold" { Stdio::piped() } else { Stdio::null() })
        .spawn()
        .unwrap()
}

fn world() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let root = Root { folder: folder.path().join("root") };
    root.prepare().unwrap();
    (folder, root)
}

pub(crate) fn run(figures: &mut Figures) {
    appends(figures);
    indexes(figures);
    older_indexes(figures);
    runs(figures);
    holders(figures);
}

fn appends(figures: &mut Figures) {
    let (count, replacements) = (number("APPENDS", 500), 100);
    let (_folder, root) = world();
    let mut crowd: Vec<Child> =
        (0..WRITERS).map(|writer| start("append", &root, writer, count)).collect();
    crowd.push(start("replace", &root, 0, replacements));
    let failed = crowd
        .iter_mut()
        .filter_map(|child| (!child.wait().unwrap().success()).then_some(()))
        .count();
    figures.exactly("writers that failed", failed, 0);
    let text = std::fs::read_to_string(root.conversation("c")).unwrap();
    let parsed = conversation::format::file::parse(&text);
    let mut said: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut whole = 0;
    for piece in &parsed.pieces {
        let body = piece.body_text(&text);
        let (who, n) = match body.strip_prefix("writer ").and_then(|rest| rest.split_once(" says "))
        {
            Some((who, rest)) => (who, rest),
            None => ("replacer", body.strip_prefix("replacer ").unwrap_or_default()),
        };
        let Some((n, padding)) = n.split_once('.') else { continue };
        let n: usize = n.parse().unwrap();
        let is_whole = who == "replacer" || padding.trim_start() == "x".repeat(n * 37 % 300);
        whole += usize::from(is_whole);
        said.entry(who.to_owned()).or_default().push(n);
    }
    let trouble = usize::from(parsed.trouble.is_some());
    figures.exactly("files that do not load", trouble, 0);
    let wanted = WRITERS * count + replacements;
    figures.exactly("appends that are there whole", whole, wanted);
    figures.exactly("blocks and notes in the file", parsed.pieces.len(), wanted);
    let in_order =
        said.values().filter(|numbers| numbers.iter().copied().eq(0..numbers.len())).count();
    figures.exactly(
        "writers whose appends are there once and in their order",
        in_order,
        WRITERS + 1,
    );
}

fn indexes(figures: &mut Figures) {
    let (folder, root) = world();
    let mut crowd: Vec<Child> = (0..4).map(|writer| start("index", &root, writer, 100)).collect();
    let failed = crowd
        .iter_mut()
        .filter_map(|child| (!child.wait().unwrap().success()).then_some(()))
        .count();
    let index = file_index::load_index(&root).unwrap().index;
    figures.exactly("updates of the index of files that failed", failed, 0);
    figures.exactly("entries in the index of files", index.by_file_id.len(), 400);
    drop(folder);

    let sandbox = Sandbox::in_folder(Path::new("/dev/shm"));
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|_| answer("an answer").into());
    for n in 0..4 {
        sandbox.run(&["--conversation", &format!("c{n}"), "task"]).assert_exit(0);
    }
    let failed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let sandbox = &sandbox;
                scope.spawn(move || {
                    let save = |k| {
                        let (from, to) = (format!("c{n}"), format!("s-{n}-{k}"));
                        sandbox.run(&["--conversation", &from, "--save-conversation", &to]).code
                    };
                    (0..25).filter(|k| save(*k) != 0).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    figures.exactly("saves that failed", failed, 0);
    let list = sandbox.run(&["--list-conversations"]).assert_exit(0).stdout;
    let saved = list.lines().filter(|line| line.starts_with("s-")).count();
    figures.exactly("saved conversations in the list", saved, 100);
}

/// Eight runs at once that find indexes of an older tool, in both of its forms, and bring them into the new one.
fn older_indexes(figures: &mut Figures) {
    const EDIT: &str = env!("CARGO_BIN_EXE_nagent-file-edit");
    const EACH: usize = 20;
    let (rounds, mut wrong, mut reads) = (5, Vec::new(), 0);
    for round in 0..rounds {
        let sandbox = Sandbox::in_folder(Path::new("/dev/shm"));
        sandbox.llm.choose(|_| answer("an answer").into());
        let root = Root { folder: sandbox.root() };
        root.prepare().unwrap();
        let mut wanted = BTreeMap::new();
        for tool in 0..WRITERS {
            let mut index = serde_json::Map::new();
            for n in 0..EACH {
                let path = sandbox.write(&format!("old-{tool}-{n}"), "x");
                let (path, name) = (path.to_str().unwrap().to_owned(), format!("of-{tool}-{n}"));
                wanted.insert(path.clone(), name.clone());
                if tool % 2 == 0 {
                    index.insert(path, name.into());
                } else {
                    let id = fs::file_id(Path::new(&path)).unwrap();
                    // Without the time of birth.
                    let id = id.rsplit_once(':').unwrap().0.to_owned();
                    index.insert(id, serde_json::json!({"path": path, "conversation": name}));
                }
            }
            let index = serde_json::Value::Object(index);
            let index =
                if tool % 2 == 0 { index } else { serde_json::json!({ "by_file_id": index }) };
            let name = format!("conversations/file-index-{tool}.json");
            std::fs::write(root.folder.join(name), index.to_string()).unwrap();
            sandbox.write(&format!("new-{tool}"), "x");
        }
        let running: Vec<_> = (0..WRITERS)
            .map(|n| sandbox.program(EDIT, &["--file", &format!("new-{n}"), "task"]).spawn())
            .collect();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let (read, damaged) = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let (mut read, mut damaged) = (0, 0);
                while !is_over.load(relaxed) {
                    let Ok(text) = std::fs::read_to_string(root.file_index()) else { continue };
                    read += 1;
                    damaged +=
                        usize::from(serde_json::from_str::<serde_json::Value>(&text).is_err());
                    std::thread::sleep(Duration::from_millis(1));
                }
                (read, damaged)
            });
            for run in running.into_iter().map(crate::process_under_test::Running::wait) {
                if run.code != 0 {
                    wrong.push(format!("round {round}: exit {}: {}", run.code, run.stderr));
                }
            }
            is_over.store(true, relaxed);
            looking.join().unwrap()
        });
        reads += read;
        if damaged > 0 {
            wrong.push(format!("round {round}: {damaged} reads found no JSON"));
        }
        let index = file_index::load_index(&root).unwrap().index;
        let entries: Vec<_> = index.by_file_id.values().collect();
        if entries.len() != wanted.len() + WRITERS {
            wrong.push(format!("round {round}: {} entries", entries.len()));
        }
        for (path, name) in &wanted {
            let all: Vec<_> =
                index.entries_at_path(Path::new(path)).map(|entry| &entry.conversation).collect();
            if all != [name] {
                wrong.push(format!("round {round}: {path} has {all:?}"));
            }
        }
        for n in 0..WRITERS {
            let (old, folded) =
                (format!("file-index-{n}.json"), format!("folded-file-index-{n}.json"));
            let is_there = |name: &str| root.conversations().join(name).exists();
            if is_there(&old) || !is_there(&folded) {
                wrong.push(format!("round {round}: {old} was not put aside"));
            }
        }
    }
    wrong.iter().take(5).for_each(|wrong| figures.miss(wrong.clone()));
    figures.at_least("reads of an index that eight runs bring into its new form", reads, rounds);
    figures.exactly("entries lost, doubled or damaged there", wrong.len(), 0);
}

fn runs(figures: &mut Figures) {
    let sandbox = Sandbox::in_folder(Path::new("/dev/shm"));
    sandbox.llm.choose(|request| {
        let last = request.last();
        let n =
            last.rsplit("prompt ").next().unwrap_or_default().split('.').next().unwrap_or_default();
        answer(&format!("answer {n}.")).into()
    });
    let running: Vec<_> = (0..WRITERS)
        .map(|n| {
            let prompt = format!("prompt {n}.");
            (n, sandbox.cmd(&["--conversation", "c", "--lock-timeout", "60", &prompt]).spawn())
        })
        .collect();
    let answered =
        running.into_iter().map(|(n, running)| running.wait().stdout == format!("answer {n}.\n"));
    figures.exactly(
        "runs that queued and have their own answer",
        answered.filter(|is| *is).count(),
        WRITERS,
    );
    let blocks = sandbox.blocks();
    let count = |name: &str, words: &str| {
        blocks.iter().filter(|block| block.name == name && block.body.contains(words)).count()
    };
    let once = (0..WRITERS)
        .filter(|n| {
            count("user-prompt", &format!("prompt {n}.")) == 1
                && count("agent-response", &format!("answer {n}.")) == 1
        })
        .count();
    figures.exactly("of them in the file once", once, WRITERS);
}

fn holders(figures: &mut Figures) {
    use std::io::{BufRead, BufReader};
    let mut slow = 0;
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let (_folder, root) = world();
        let mut holder = start("hold", &root, 0, 0);
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let waiting = std::thread::spawn({
            let root = root.clone();
            move || {
                let interrupts = Interrupts::without_handlers().unwrap();
                let lock = lock::lock_conversation(
                    &root,
                    "c",
                    Duration::from_secs(20),
                    &interrupts,
                    &mut |_| (),
                )
                .unwrap();
                (Instant::now(), lock.is_after_crash())
            }
        });
        std::thread::sleep(Duration::from_millis(60));
        holder.kill().unwrap();
        let killed = Instant::now();
        holder.wait().unwrap();
        let (taken, after_crash) = waiting.join().unwrap();
        let waited = taken.saturating_duration_since(killed);
        longest = longest.max(waited);
        slow += usize::from(waited > Duration::from_millis(100) || !after_crash);
    }
    figures.row(
        "of 10 killed holders, whose lock was not taken within 100 ms",
        format!("{slow} (longest {} ms)", longest.as_millis()),
        "at most 1",
        slow <= 1,
    );

    let sandbox = Sandbox::in_folder(Path::new("/dev/shm"));
    let latch = Latch::default();
    sandbox.llm.push(Answer::held(&latch, answer("first")));
    let first = sandbox.cmd(&["--conversation", "c", "one"]).spawn();
    sandbox.llm.wait_for_requests(1);
    first.signal(Signal::STOP);
    let second = sandbox.run(&["--conversation", "c", "--lock-timeout", "1", "two"]);
    let is_refused =
        second.code == 1 && second.stderr.contains(&format!("process {}", first.pid()));
    figures.exactly("stopped holders that are waited for and named", usize::from(is_refused), 1);
    figures.row(
        "seconds until then",
        format!("{:.1}", second.seconds),
        "1 to 2",
        (1.0..2.0).contains(&second.seconds),
    );
    first.signal(Signal::CONT);
    latch.release();
    figures.exactly("and that go on afterwards", usize::from(first.wait().stdout == "first\n"), 1);
    let _ = (Pid::from_raw(1), kill_process as fn(Pid, Signal) -> _);
}
