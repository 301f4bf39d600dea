//! What sandbox are made of fails, piece by piece: no command runs outside of them then.
//!
//! The calls that build them are made to fail by strace, which follows into the namespaces of `bwrap` and counts calls for
//! each process by itself; `bwrap` is hidden by a mount, namespaces are used up by a limit. A command that runs has to find
//! all sandbox around it; else the run is refused, says what is missing and what to do, and is exit code 1.

use std::fs;
use std::process::Output;

use serde_json::json;

use super::{VARIANTS, Variant, World};
use crate::figures::Figures;

/// What comes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// A sandbox of `bwrap`, with or without Landlock.
    Bwrap,
    /// A sandbox of Landlock alone.
    Landlock,
    /// No run.
    Refused,
}
use Outcome::{Bwrap, Landlock, Refused};

/// How a machine is made to lack something.
#[derive(Clone, Copy)]
enum Lack {
    /// Nothing.
    Nothing,
    /// `bwrap` is not there.
    Program,
    /// There are no more namespaces of users and mounts to be had.
    Namespaces,
}

/// What is lacking, calls that fail, what comes of it, and what `--status` or the refusal says.
type Case = (&'static str, Lack, &'static [&'static str], Outcome, &'static str);

const NO_LANDLOCK: &str = "landlock_create_ruleset:error=ENOSYS";

const CASES: &[Case] = &[
    ("nothing", Lack::Nothing, &[], Bwrap, "gap: temp folders"),
    ("no Landlock", Lack::Nothing, &[NO_LANDLOCK], Bwrap, "gap: this kernel has no Landlock"),
    (
        "Landlock turned off",
        Lack::Nothing,
        &["landlock_create_ruleset:error=EOPNOTSUPP"],
        Bwrap,
        "gap: this kernel has no Landlock",
    ),
    (
        "Landlock not applied",
        Lack::Nothing,
        &["landlock_restrict_self:error=EPERM"],
        Refused,
        "cannot start",
    ),
    ("no prctl", Lack::Nothing, &["prctl:error=EINVAL"], Refused, "capabilities in it"),
    ("no processes", Lack::Nothing, &["clone,clone3,vfork:error=EPERM"], Refused, "cannot start"),
    ("no mounts", Lack::Nothing, &["mount:error=EPERM"], Landlock, "gap: without namespaces"),
    ("no namespaces", Lack::Namespaces, &[], Landlock, "gap: without namespaces"),
    ("no bwrap", Lack::Program, &[], Landlock, "gap: without namespaces"),
    (
        "neither bwrap nor Landlock",
        Lack::Program,
        &[NO_LANDLOCK],
        Refused,
        "this kernel's Landlock has version 0",
    ),
    (
        "no bwrap, Landlock not applied",
        Lack::Program,
        &["landlock_restrict_self:error=EPERM"],
        Refused,
        "it is not installed",
    ),
    ("no bwrap, no seccomp", Lack::Program, &["seccomp:error=EINVAL"], Refused, "cannot start"),
    (
        "neither namespaces nor Landlock",
        Lack::Namespaces,
        &[NO_LANDLOCK],
        Refused,
        "this kernel's Landlock has version 0",
    ),
    (
        "neither mounts nor Landlock",
        Lack::Nothing,
        &["mount:error=EPERM", NO_LANDLOCK],
        Refused,
        "this kernel's Landlock has version 0",
    ),
];

/// The calls that build sandbox, each of which fails once, one after the other. Limits are not among them: who only asks for
/// one takes no failure.
const CALLS: &[(&str, &str)] = &[
    ("landlock_create_ruleset", "ENOSYS"),
    ("landlock_add_rule", "EINVAL"),
    ("landlock_restrict_self", "EPERM"),
    ("seccomp", "EINVAL"),
    ("prctl", "EINVAL"),
    ("capset", "EPERM"),
    ("capget", "EPERM"),
    ("mount", "EPERM"),
    ("umount2", "EPERM"),
    ("pivot_root", "EPERM"),
    ("clone", "EPERM"),
    ("unshare", "EPERM"),
    ("setresuid", "EPERM"),
    ("setfsuid", "EPERM"),
    ("setsid", "EPERM"),
];

/// The command: builtins alone, so that what fails is no call of it. It says what stands around it.
const COMMAND: &str = "echo began; : > $B/outside/marker; : > sub/marker; read -r key < ~/.nagent/config.json && echo key; \
    while read -r name value; do case $name in Seccomp:|NoNewPrivs:|CapEff:|CapPrm:) echo $name $value;; esac; \
    done < /proc/self/status";

/// What the command finds in the sandbox.
const AROUND: [&str; 4] =
    ["CapPrm: 0000000000000000", "CapEff: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2"];

#[derive(Default)]
struct Seen {
    cases: usize,
    fired: usize,
    ran: usize,
    outside: usize,
}

pub(super) fn run(figures: &mut Figures) {
    let mut seen = Seen::default();
    for variant in VARIANTS.into_iter().filter(|variant| !variant.alone) {
        for case in CASES {
            lacking(figures, &mut seen, variant, case);
        }
    }
    figures.exactly("materials that are lacking: cases", seen.cases, 2 * CASES.len());
    for variant in &VARIANTS[..3] {
        for (call, error) in CALLS {
            one_by_one(figures, &mut seen, *variant, call, error);
        }
    }
    figures.at_least("calls that build the sandbox that failed, one by one", seen.fired, 100);
    figures.at_least("of them with a sandbox all the same", seen.ran, 1);
    figures.exactly("commands without the sandbox", seen.outside, 0);
}

/// The words that start a program on a machine that lacks something.
fn words(variant: Variant, lack: Lack, faults: &[&str], log: &str) -> Vec<String> {
    let script = match lack {
        Lack::Nothing => "exec \"$@\"",
        Lack::Program => "mount --bind /dev/null $(readlink -f /usr/bin/bwrap) && exec \"$@\"",
        Lack::Namespaces => {
            "for what in user mnt; do echo 0 > /proc/sys/user/max_${what}_namespaces || exit 9; done; exec \"$@\""
        }
    };
    let mut words: Vec<String> = match lack {
        Lack::Nothing => Vec::new(),
        // As a plain user's, a mount takes a namespace of users; nothing else of it is used.
        Lack::Program if variant.is_root => vec!["unshare", "-m"],
        Lack::Program => vec!["unshare", "-m", "-U", "-r"],
        Lack::Namespaces => vec!["unshare", "-U", "-r"],
    }
    .into_iter()
    .map(str::to_owned)
    .collect();
    words.extend(["sh", "-c", script, "sh"].map(str::to_owned));
    if !faults.is_empty() {
        words.extend(["strace", "-f", "-qq", "-o", log].map(str::to_owned));
        let calls: Vec<&str> =
            faults.iter().map(|fault| fault.split(':').next().unwrap()).collect();
        words.extend(["-e".to_owned(), format!("trace={}", calls.join(","))]);
        for fault in faults {
            words.extend(["-e".to_owned(), format!("inject={fault}")]);
        }
    }
    words
}

fn execute(world: &World, before: &[String], program: &[&str]) -> Output {
    let words: Vec<&str> =
        before.iter().map(String::as_str).chain(program.iter().copied()).collect();
    world.command(&words).output().unwrap()
}

/// What a run came to, and whether a command was outside of the sandbox.
fn judge(world: &World, got: &Output) -> Result<bool, String> {
    let (stdout, stderr) =
        (String::from_utf8_lossy(&got.stdout), String::from_utf8_lossy(&got.stderr));
    let told = || format!("exit {:?}: {stdout} {stderr}", got.status.code());
    if world.path("outside/marker").exists() {
        return Err(format!("a file outside was made: {}", told()));
    }
    if stdout.contains("began") {
        let stands = AROUND.iter().all(|line| stdout.lines().any(|found| found == *line));
        let is_open = stdout.lines().any(|line| line == "key");
        return if stands && !is_open { Ok(true) } else { Err(format!("no sandbox: {}", told())) };
    }
    if world.path("work/sub/marker").exists() {
        return Err(format!("a command that said nothing: {}", told()));
    }
    let is_word = |line: &str| ["nagent", "bwrap: "].iter().any(|it| line.starts_with(it));
    let is_said = stderr.lines().any(|line| is_word(line.trim_start()) && line.len() > 20);
    if got.status.code() != Some(1) || !is_said {
        return Err(format!("refused without a word, or with another code: {}", told()));
    }
    Ok(false)
}

fn lacking(figures: &mut Figures, seen: &mut Seen, variant: Variant, case: &Case) {
    let (name, lack, faults, expected, says) = *case;
    seen.cases += 1;
    let what = format!("{}: {name}", variant.name);
    let log = format!("/tmp/nagent-materials-{}", std::process::id());
    let before = words(variant, lack, faults, &log);
    let world = World::new(variant);
    let sandbox = world.path("bin/nagent-sandbox").display().to_string();

    let got = execute(&world, &before, &[&sandbox, "--", "bash", "-c", COMMAND]);
    match judge(&world, &got) {
        Ok(ran) if ran == (expected != Refused) => {}
        Ok(ran) => figures.miss(format!("{what}: ran: {ran}, not {expected:?}: {got:?}")),
        Err(why) => {
            seen.outside += 1;
            figures.miss(format!("{what}: {why}"));
        }
    }
    if !faults.is_empty() {
        let log = fs::read_to_string(&log).unwrap_or_default();
        for fault in faults {
            let call = fault.split([':', ',']).next().unwrap();
            let is_hit = log.lines().any(|line| line.contains(call) && line.contains("INJECTED"));
            if !is_hit {
                figures.miss(format!("{what}: {call} did not fail"));
            }
        }
    }
    let nagent = world.path("bin/nagent").display().to_string();
    let got = execute(&world, &before, &[&nagent, "--sandbox", "workspace", "--status", "-v"]);
    let text = String::from_utf8_lossy(&[got.stdout, got.stderr].concat()).into_owned();
    let line = match expected {
        Bwrap => "by:bwrap",
        Landlock => "by:landlock",
        Refused => "install bubblewrap",
    };
    if !text.contains(line) || !text.contains(says) {
        figures.miss(format!("{what}: --status lacks {line:?} or {says:?}: {text}"));
    }
    drop(fs::remove_file(&log));

    // The run itself: refused before the model is asked, which cannot be here.
    let config = r#"{"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}"#;
    fs::write(world.path("home/.nagent/config.json"), config).unwrap();
    let task =
        [&nagent, "--sandbox", "workspace", "--patience", "0", "--conversation", "c", "task"];
    let got = execute(&world, &before, &task.map(|word| word as &str));
    let text = String::from_utf8_lossy(&got.stderr).into_owned();
    let is_right = match expected {
        Refused => {
            got.status.code() == Some(2)
                && text.contains("the sandbox cannot be built here")
                && text.contains(says)
        }
        // Nobody listens.
        _ => got.status.code() == Some(3) || text.contains("credential"),
    };
    if !is_right {
        figures.miss(format!("{what}: nagent: exit {:?}: {text}", got.status.code()));
    }
    // Where nobody asked for it, only a run that wants a command ends. The model is a process, too, and needs `prctl`.
    if matches!(expected, Refused) && !matches!(name, "no prctl" | "no processes") {
        for (reply, code) in [
            ("<nagent-response>done</nagent-response>", 0),
            ("<nagent-shell>touch ran</nagent-shell>", 2),
        ] {
            let config = json!({"provider": "command", "command": ["/bin/echo", reply]});
            fs::write(world.path("home/.nagent/config.json"), config.to_string()).unwrap();
            let got = execute(&world, &before, &[&nagent, "-n", "task"]);
            let text = String::from_utf8_lossy(&got.stderr).into_owned();
            let names = text.contains("commands cannot run") && text.contains("--sandbox off");
            if got.status.code() != Some(code) || (code == 2 && !names) {
                figures.miss(format!("{what}: {reply}: exit {:?}: {text}", got.status.code()));
            }
        }
    }
    drop(fs::remove_file(log));
}

fn one_by_one(figures: &mut Figures, seen: &mut Seen, variant: Variant, call: &str, error: &str) {
    let log = format!("/tmp/nagent-materials-{}", std::process::id());
    let world = World::new(variant);
    let sandbox = world.path("bin/nagent-sandbox").display().to_string();
    let mut program = vec![sandbox.as_str()];
    if variant.alone {
        program.push("--only-landlock");
    }
    program.extend(["--", "bash", "-c", COMMAND]);
    // Mounts and capabilities are many, and of few kinds: the first ones, and then some.
    for nth in (1..300).filter(|nth| *nth < 16 || nth % 12 == 0) {
        let fault = format!("{call}:error={error}:when={nth}");
        let before = words(variant, Lack::Nothing, &[&fault], &log);
        let got = execute(&world, &before, &program);
        let text = fs::read_to_string(&log).unwrap_or_default();
        drop(fs::remove_file(&log));
        if !text.contains("INJECTED") {
            break;
        }
        seen.fired += 1;
        match judge(&world, &got) {
            Ok(ran) => seen.ran += usize::from(ran),
            Err(why) => {
                seen.outside += 1;
                figures.miss(format!("{}: {call} {nth}: {why}", variant.name));
            }
        }
        drop(fs::remove_file(world.path("work/sub/marker")));
        drop(fs::remove_file(world.path("outside/marker")));
    }
}
