//! Power cuts: ext4 on a loop device, shut down by its own ioctl without flushing its journal, and mounted again.
//!
//! Needs root, `unshare`, `mkfs.ext4`, loop devices and python3 (for the ioctl). Acknowledged is what an executable has said
//! by ending well, and what the model's server was sent. `CUTS=400` cuts more often, `WORKLOADS=155` runs all workloads of
//! three steps, `SEED=7` draws others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::answers::Answer;
use crate::blocks::blocks;
use crate::figures::Figures;
use crate::ground::{Numbers, State, number};
use crate::inside::{self, Told, system};
use crate::sandbox::{Sandbox, answer, shell};

const PATCH: &str = env!("CARGO_BIN_EXE_nagent-file-patch");
const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");
const EDIT: &str = env!("CARGO_BIN_EXE_nagent-file-edit");

/// `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`.
const CUT: &str = "import fcntl,os,struct,sys; fcntl.ioctl(os.open(sys.argv[1],os.O_RDONLY),0x8004587d,struct.pack('I',2))";

pub(crate) fn run(figures: &mut Figures) {
    inside::run("power", figures, work);
}

/// A disk whose power can be cut.
struct Disk {
    image: PathBuf,
    mount: PathBuf,
}

impl Disk {
    fn new(folder: &Path) -> Result<Self, String> {
        let disk = Self { image: folder.join("image"), mount: folder.join("disk") };
        std::fs::create_dir(&disk.mount).unwrap();
        let file = std::fs::File::create(&disk.image).unwrap();
        file.set_len(48 << 20).unwrap();
        system(&["mkfs.ext4", "-q", "-F", disk.image.to_str().unwrap()])?;
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<(), String> {
        // As a system has it by default; `noauto_da_alloc` would hide less.
        let words = [
            "mount",
            "-o",
            "loop,noauto_da_alloc",
            self.image.to_str().unwrap(),
            self.mount.to_str().unwrap(),
        ];
        system(&words)
    }

    /// What was not made durable is gone.
    fn cut(&self) -> Result<(), String> {
        system(&["python3", "-c", CUT, self.mount.to_str().unwrap()])
    }

    fn restore(&self) -> Result<(), String> {
        for _ in 0..50 {
            if system(&["umount", self.mount.to_str().unwrap()]).is_ok() {
                return self.mount();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        system(&["umount", self.mount.to_str().unwrap()])?;
        self.mount()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(system(&["umount", "-l", self.mount.to_str().unwrap()]));
    }
}

fn work(told: &mut Told) {
    let (cuts, workloads, seed) = (number("CUTS", 40), number("WORKLOADS", 40), number("SEED", 1));
    println!("seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    let disk = match Disk::new(folder.path()) {
        Ok(disk) => disk,
        Err(error) => return told.miss(&error),
    };
    let mut numbers = Numbers::new(seed);
    let (mut done, mut wrong) = (0, 0);
    while done < cuts {
        let (name, scenario) = SCENARIOS[done % SCENARIOS.len()];
        let sandbox = Sandbox::in_folder(&disk.mount);
        sandbox.llm.allow_rewrites();
        // The world itself is not what is tested.
        system(&["sync", "-f", disk.mount.to_str().unwrap()]).unwrap();
        match scenario(&sandbox, &disk, &mut numbers) {
            Ok(()) => {}
            Err(why) => {
                wrong += 1;
                told.miss(&format!("cut {done}, {name}: {why}"));
            }
        }
        done += 1;
    }
    told.exactly("power cuts", done, cuts);
    told.exactly("lost, doubled, half or empty after a cut", wrong, 0);
    let all = all_workloads();
    let picked: Vec<&Vec<Step>> = pick(&all, workloads, &mut numbers);
    let mut wrong = 0;
    for steps in &picked {
        if let Err(why) = workload(&disk, steps) {
            wrong += 1;
            told.miss(&format!("{steps:?}: {why}"));
        }
    }
    told.exactly("workloads of up to three steps, a cut at the end", picked.len(), workloads);
    told.exactly("lost, half or empty after a workload", wrong, 0);
}

type Scenario = fn(&Sandbox, &Disk, &mut Numbers) -> Result<(), String>;

const SCENARIOS: &[(&str, Scenario)] = &[
    ("a turn that the next request holds", turn),
    ("the first prompt of a new conversation", first),
    ("an answer that was printed", printed),
    ("a replaced file", replaced),
    ("a saved conversation", saved),
    ("a cleared conversation", cleared),
    ("a split", split),
    ("a patched source", patched),
    ("an edited file", edited),
    ("any instant of a run", any_instant),
];

fn cut_and_kill(
    sandbox: &Sandbox,
    disk: &Disk,
    running: crate::process_under_test::Running,
) -> Result<(), String> {
    disk.cut()?;
    running.signal(Signal::KILL);
    running.wait();
    crate::sandbox::wait_until("children have ended", || sandbox.processes().is_empty());
    disk.restore()
}

/// That the conversation loads and holds each of the words once, in a block of that name; and that it goes on.
fn holds(sandbox: &Sandbox, name: &str, words: &[(&str, &str)]) -> Result<(), String> {
    let path = sandbox.root().join("conversations").join(name);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
    let parsed = conversation::format::file::parse(&text);
    let all = blocks(&text[..parsed.pieces.last().map_or(0, |piece| piece.span.end)]);
    for (block, words) in words {
        let count = all.iter().filter(|b| b.name == *block && b.body.contains(words)).count();
        if count != 1 {
            return Err(format!("{name}: {block} {words:?} is there {count} times"));
        }
    }
    sandbox.llm.choose(|_| answer("going on").into());
    let run = sandbox.run(&["--conversation", name, "again"]);
    if run.code == 0 { Ok(()) } else { Err(format!("it does not go on: {}", run.stderr)) }
}

fn expect(what: &str, is_so: bool) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

fn ended(run: crate::process_under_test::Run) -> Result<(), String> {
    if run.code == 0 { Ok(()) } else { Err(format!("exit {}: {}", run.code, run.stderr)) }
}

fn turn(sandbox: &Sandbox, disk: &Disk, _: &mut Numbers) -> Result<(), String> {
    sandbox.llm.push(shell("echo from the command"));
    sandbox.llm.push(Answer::StallHead);
    let running = sandbox.cmd(&["--conversation", "c", "the prompt"]).spawn();
    sandbox.llm.wait_for_requests(2);
    cut_and_kill(sandbox, disk, running)?;
    let words = [
        ("user-prompt", "the prompt"),
        ("agent-response", "echo from"),
        ("nagent-shell-result", "from the command"),
    ];
    holds(sandbox, "c", &words)
}

fn first(sandbox: &Sandbox, disk: &Disk, _: &mut Numbers) -> Result<(), String> {
    sandbox.llm.push(Answer::StallHead);
    let running = sandbox.cmd(&["--conversation", "c", "the prompt"]).spawn();
    sandbox.llm.wait_for_requests(1);
    cut_and_kill(sandbox, disk, running)?;
    holds(sandbox, "c", &[("user-prompt", "the prompt")])
}

fn printed(sandbox: &Sandbox, disk: &Disk, _: &mut Numbers) -> Result<(), String> {
    for n in 0..3 {
        sandbox.llm.push(answer(&format!("answer {n}")));
        ended(sandbox.run(&["--conversation", "c", &format!("prompt {n}")]))?;
    }
    disk.cut()?;
    disk.restore()?;
    let words = [
        ("agent-response", "answer 0"),
        ("agent-response", "answer 2"),
        ("user-prompt", "prompt 2"),
    ];
    holds(sandbox, "c", &words)
}

fn replaced(sandbox: &Sandbox, disk: &Disk, _: &mut Numbers) -> Result<(), String> {
    let path = sandbox.write("target.txt", "one\ntwo\n");
    system(&["sync", "-f", path.to_str().unwrap()])?;
    ended(apply(sandbox, &path, "two", "zwei"))?;
    disk.cut()?;
    disk.restore()?;
    expect("the new content is gone", sandbox.read("target.txt") == "one\nzwei\n")?;
    let kept = State::of(&sandbox.root().join("outputs"));
    let is_kept = kept.0.keys().any(|path| kept.text(path) == "one\ntwo\n");
    expect("the content before was not kept", is_kept)
}

fn apply(sandbox: &Sandbox, path: &Path, from: &str, to: &str) -> crate::process_under_test::Run {
    let old = std::fs::read_to_string(path).unwrap_or_default();
    let new = if from.is_empty() { format!("{to}\n") } else { old.replace(from, to) };
    let (program, words) = crate::put::words(path);
    sandbox.program(&program, &words).stdin(new).run()
}

fn saved(sandbox: &Sandbox, disk: &Disk, _: &mut Numbers) -> Result<(), String> {
    sandbox.llm.push(answer("one"));
    ended(sandbox.run(&["--conversation", "c", "the prompt"]))?;
    ended(sandbox.run(&["--conversation", "c", "--save-conversation", "s"]))?;
    disk.cut()?;
    disk.restore()?;
    let list = sandbox.run(&["--list-conversations"]);
    expect("it is not in the list", list.code == 0 && list.stdout.contains("the prompt"))?;
    holds(sandbox, "s", &[("user-prompt", "the prompt"), ("agent-response", "one")])
}

fn cleared(sandbox: &Sandbox, disk: &Disk, _: &mut Numbers) -> Result<(), String> {
    sandbox.llm.push(answer("one"));
    ended(sandbox.run(&["--conversation", "c", "the prompt"]))?;
    let run = sandbox.run(&["--conversation", "c", "--clear", "--json"]).assert_exit(0);
    let archived = PathBuf::from(run.json()["archived_path"].as_str().unwrap());
    disk.cut()?;
    disk.restore()?;
    let now = std::fs::read_to_string(sandbox.root().join("conversations/c")).unwrap_or_default();
    expect(
        "it is not cleared",
        now.starts_with("<initial_context") && !now.contains("the prompt"),
    )?;
    holds(
        sandbox,
        archived.file_name().unwrap().to_str().unwrap(),
        &[("user-prompt", "the prompt")],
    )
}

fn numbered(lines: usize) -> String {
    (1..=lines).map(|n| format!("line {n}\n")).collect()
}

fn split_up(sandbox: &Sandbox) -> crate::process_under_test::Run {
    let (source, folder) = (sandbox.work().join("big.txt"), sandbox.work().join("split"));
    let args = [
        "--file",
        source.to_str().unwrap(),
        "--output",
        folder.to_str().unwrap(),
        "--target-bytes",
        "1000",
    ];
    sandbox.program(SPLIT, &args).run()
}

/// Index and segments are of one mind.
fn agrees(sandbox: &Sandbox) -> Result<(), String> {
    let folder = sandbox.work().join("split");
    let text =
        std::fs::read_to_string(folder.join("index.json")).map_err(|error| error.to_string())?;
    let index =
        conversation::format::index::parse(&text).map_err(|error| format!("the index: {error}"))?;
    for segment in &index.segments {
        let bytes =
            std::fs::read(&segment.path).map_err(|error| format!("{}: {error}", segment.path))?;
        let is_whole = sys::fs::sha256(&bytes) == segment.sha256;
        expect(
            &format!("{} has {} bytes that are not what the index says", segment.path, bytes.len()),
            is_whole,
        )?;
    }
    Ok(())
}

fn split(sandbox: &Sandbox, disk: &Disk, _: &mut Numbers) -> Result<(), String> {
    let path = sandbox.write("big.txt", numbered(1000));
    system(&["sync", "-f", path.to_str().unwrap()])?;
    ended(split_up(sandbox))?;
    disk.cut()?;
    disk.restore()?;
    agrees(sandbox)
}

fn patched(sandbox: &Sandbox, disk: &Disk, numbers: &mut Numbers) -> Result<(), String> {
    sandbox.write("big.txt", numbered(1000));
    ended(split_up(sandbox))?;
    let segment = sandbox.work().join("split/big-0002.txt");
    std::fs::write(&segment, "edited\n").unwrap();
    system(&["sync", "-f", segment.to_str().unwrap()])?;
    let index = sandbox.work().join("split/index.json");
    let patch =
        |sandbox: &Sandbox| sandbox.program(PATCH, &["--index", index.to_str().unwrap()]).spawn();
    let running = patch(sandbox);
    if numbers.below(2) == 0 {
        // Within it.
        std::thread::sleep(Duration::from_millis(numbers.below(60)));
        cut_and_kill(sandbox, disk, running)?;
        ended(patch(sandbox).wait())?;
    } else {
        ended(running.wait())?;
        disk.cut()?;
        disk.restore()?;
    }
    expect("the edit is not in the source", sandbox.read("big.txt").contains("\nedited\nline"))?;
    agrees(sandbox)
}

fn edited(sandbox: &Sandbox, disk: &Disk, _: &mut Numbers) -> Result<(), String> {
    let path = sandbox.write("target.txt", "one\ntwo\n");
    system(&["sync", "-f", path.to_str().unwrap()])?;
    sandbox.llm.push("<nagent-edit path=\"target.txt\">\n<<<<<<< SEARCH\ntwo\n=======\nzwei\n>>>>>>> REPLACE\n</nagent-edit>");
    sandbox.llm.push(answer("done"));
    ended(sandbox.program(EDIT, &["--file", "target.txt", "edit it"]).run())?;
    disk.cut()?;
    disk.restore()?;
    expect("the new content is gone", sandbox.read("target.txt") == "one\nzwei\n")?;
    sandbox.llm.push(answer("again"));
    ended(sandbox.program(EDIT, &["--file", "target.txt", "again"]).run())?;
    let sent = sandbox.requests().pop().unwrap().user();
    expect("its conversation is another", sent.contains("edit it"))
}

fn any_instant(sandbox: &Sandbox, disk: &Disk, numbers: &mut Numbers) -> Result<(), String> {
    let mut n = 0;
    sandbox.llm.choose(move |_| {
        n += 1;
        shell(&format!("echo number{n}.")).into()
    });
    let running = sandbox.cmd(&["--conversation", "c", "the prompt"]).spawn();
    sandbox.llm.wait_for_requests(1);
    std::thread::sleep(Duration::from_millis(numbers.below(200)));
    disk.cut()?;
    // From here on nothing is acknowledged: requests after the cut come from what the page cache still holds.
    let asked = sandbox.requests().len();
    running.signal(Signal::KILL);
    running.wait();
    crate::sandbox::wait_until("children have ended", || sandbox.processes().is_empty());
    disk.restore()?;
    // The last request may have come between the cut and this count.
    let words: Vec<String> =
        (1..asked.saturating_sub(1)).map(|n| format!("echo number{n}.")).collect();
    let mut all = vec![("user-prompt", "the prompt")];
    all.extend(words.iter().map(|words| ("agent-response", words.as_str())));
    holds(sandbox, "c", &all)
}

/// A step of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Append,
    Replace,
    Create,
    Save,
    Clear,
}

fn all_workloads() -> Vec<Vec<Step>> {
    let steps = [Step::Append, Step::Replace, Step::Create, Step::Save, Step::Clear];
    let mut all: Vec<Vec<Step>> = steps.iter().map(|step| vec![*step]).collect();
    for length in 2..=3 {
        let shorter: Vec<Vec<Step>> =
            all.iter().filter(|steps| steps.len() == length - 1).cloned().collect();
        for begin in shorter {
            all.extend(steps.iter().map(|step| [begin.as_slice(), &[*step]].concat()));
        }
    }
    all
}

/// The shorter ones first, then others as the numbers have it.
fn pick<'a>(all: &'a [Vec<Step>], count: usize, numbers: &mut Numbers) -> Vec<&'a Vec<Step>> {
    let (short, long): (Vec<_>, Vec<_>) = all.iter().partition(|steps| steps.len() < 3);
    let mut long = long;
    let mut picked = short;
    while picked.len() < count && !long.is_empty() {
        let at = usize::try_from(numbers.below(long.len() as u64)).unwrap();
        picked.push(long.swap_remove(at));
    }
    picked.truncate(count);
    picked
}

fn workload(disk: &Disk, steps: &[Step]) -> Result<(), String> {
    let sandbox = Sandbox::in_folder(&disk.mount);
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|_| answer("an answer").into());
    let target = sandbox.write("target.txt", "version 0\n");
    ended(sandbox.run(&["--conversation", "c", "prompt start."]))?;
    system(&["sync", "-f", disk.mount.to_str().unwrap()])?;
    let (mut here, mut version, mut made) = (vec!["prompt start.".to_owned()], 0, Vec::new());
    let mut all = here.clone();
    let mut saved = None;
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Append => {
                let prompt = format!("prompt {at}.");
                ended(sandbox.run(&["--conversation", "c", &prompt]))?;
                here.push(prompt.clone());
                all.push(prompt);
            }
            Step::Replace => {
                let (from, to) = (format!("version {version}"), format!("version {}", version + 1));
                ended(apply(&sandbox, &target, &from, &to))?;
                version += 1;
            }
            Step::Create => {
                let path = sandbox.work().join(format!("new{at}/file"));
                ended(apply(&sandbox, &path, "", "made"))?;
                made.push(path);
            }
            Step::Save => {
                ended(sandbox.run(&["--conversation", "c", "--save-conversation", "s"]))?;
                saved = Some(here.clone());
            }
            Step::Clear => {
                ended(sandbox.run(&["--conversation", "c", "--clear"]))?;
                here.clear();
            }
        }
    }
    disk.cut()?;
    disk.restore()?;
    expect("the replaced file", sandbox.read("target.txt") == format!("version {version}\n"))?;
    for path in made {
        expect(
            "a file that was made",
            std::fs::read_to_string(path).ok().as_deref() == Some("made\n"),
        )?;
    }
    let state = State::of(&sandbox.root().join("conversations"));
    for prompt in &all {
        let is_kept = state.0.keys().any(|path| state.text(path).contains(prompt.as_str()));
        expect(&format!("{prompt} is nowhere"), is_kept)?;
    }
    let is = |name: &str, prompts: &[String]| {
        all.iter().all(|prompt| {
            state.text(name).matches(prompt.as_str()).count()
                == usize::from(prompts.contains(prompt))
        })
    };
    expect("the conversation is another", is("c", &here))?;
    if let Some(prompts) = saved {
        expect("the saved conversation is another", is("s", &prompts))?;
        let list = sandbox.run(&["--list-conversations"]);
        expect("it is not in the list", list.code == 0 && list.stdout.lines().any(|line| line.starts_with("s\t")))?;
    }
    for path in state.0.keys() {
        let name = path.to_string_lossy();
        let is_known = ["c", "s", "c.run", "s.run"].contains(&&*name)
            || name.starts_with("c-")
            || name.starts_with("s-")
            || name.starts_with('.');
        expect(&format!("{name} stands among the conversations"), is_known)?;
    }
    ended(sandbox.run(&["--conversation", "c", "again"]))
}
