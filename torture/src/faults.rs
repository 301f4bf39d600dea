//! A fault at every system call of the operations that write, one after the other, until none is left.
//!
//! Needs root, `unshare`, and strace with the right to trace. A run without a fault is traced first: each of its system calls on a file of the
//! world is a site. Then the operation runs once for each site and kind of fault, from the same state: killed before the
//! call, the call failing with EIO, ENOSPC or EINTR, once or from there on. What is left then must be the old or the new,
//! with all that was acknowledged, and a run without a fault must get over it. What the operations are and what must hold
//! is in `operations`.
//!
//! `FAULTS_OF=append,patch` takes these operations alone; `FAULTS_TOLD=1` tells each distinct message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::figures::Figures;
use crate::ground::{State, make_old};
use crate::process_under_test::Run;
use crate::sandbox::{Sandbox, wait_until};

pub(crate) mod base; // an operation, and what its kinds share
pub(crate) mod checks; // what must hold afterwards
mod long_work; // what rewrites a conversation
pub(crate) mod operations; // what is run
mod runs; // messages, and many inputs
mod sites; // where a fault may come

use base::Operation;
use operations::operations;
pub(crate) use sites::Fault;
use sites::{CHANGING, LOOKING, Site};

/// A world that an operation runs in again and again.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) log: PathBuf,
    pub(crate) before: State,
}

/// What was left of a run with a fault.
pub(crate) struct After {
    pub(crate) fault: Fault,
    pub(crate) call: String,
    pub(crate) run: Run,
    pub(crate) state: State,
    /// How often the model was asked.
    pub(crate) asked: usize,
}

impl World {
    pub(crate) fn new(operation: &Operation, name: &str) -> Self {
        let sandbox = Sandbox::in_folder(Path::new("/dev/shm"));
        sandbox.llm.allow_rewrites();
        (operation.prepare)(&sandbox);
        sandbox.write("bystander", "by\n");
        std::fs::write(sandbox.tmp().join("bystander"), "by\n").unwrap();
        let before = State::of(sandbox.base());
        let log = std::env::temp_dir().join(format!("nagent-strace-{}-{name}", std::process::id()));
        Self { sandbox, log, before }
    }

    pub(crate) fn begin_anew(&self) {
        self.before.put_back(self.sandbox.base());
        self.sandbox.llm.forget();
    }

    pub(crate) fn strace(&self, operation: &Operation, words: &[&str]) -> Run {
        let (program, args) = (operation.command)(&self.sandbox);
        let log = self.log.to_str().unwrap();
        // Among processes of its own: who ends descendants looks through all that there are, and calls are counted.
        let mut all = vec!["-p", "-f", "--mount-proc", "strace", "-y", "-q", "-o", log];
        all.extend(words);
        all.push(&program);
        all.extend(args.iter().map(String::as_str));
        self.sandbox.program("unshare", &all).stdin(operation.stdin).run()
    }

    /// The sites of a run without a fault, and how many calls on files other threads made.
    fn sites(&self, operation: &Operation) -> (Vec<Site>, usize) {
        // What is read only once for all runs is not there at first.
        self.strace(operation, &["-e", "trace=none"]);
        self.begin_anew();
        let calls = [CHANGING, LOOKING].concat().join(",");
        let trace = format!(
            "trace=execve,{}",
            calls.split(',').map(|call| format!("?{call}")).collect::<Vec<_>>().join(",")
        );
        let run = self.strace(operation, &["-f", "-e", &trace]);
        assert_eq!(run.code, 0, "{}: {}", operation.name, run.stderr);
        let log = std::fs::read_to_string(&self.log).unwrap();
        let base = self.sandbox.base().to_str().unwrap();
        let main = log.split_whitespace().next().unwrap();
        let children: BTreeSet<&str> = log
            .lines()
            .filter(|line| line.contains(" execve("))
            .map(|line| line.split_whitespace().next().unwrap())
            .collect();
        let (mut counts, mut sites, mut elsewhere) =
            (BTreeMap::<String, (usize, usize)>::new(), Vec::new(), 0);
        for line in log.lines() {
            let Some((id, rest)) = line.split_once(char::is_whitespace) else { continue };
            let rest = rest.trim_start();
            let Some((call, said)) = rest.split_once('(') else { continue };
            if !call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                || call == "execve"
            {
                continue;
            }
            let is_here = self.is_here(said);
            if id == main {
                let (nth, here) = counts.entry(call.to_owned()).or_default();
                *nth += 1;
                if is_here {
                    *here += 1;
                    sites.push(Site {
                        call: call.to_owned(),
                        nth: *nth,
                        here: *here,
                        line: said.replace(base, ""),
                    });
                }
            } else if is_here
                && !children.contains(id)
                && CHANGING.contains(&call)
                && call != "close"
            {
                elsewhere += 1;
            }
        }
        (sites, elsewhere)
    }

    /// Whether a call, as it is told behind its name, is on a file of the world.
    fn is_here(&self, said: &str) -> bool {
        // What stdout is is the caller's affair, and what a debug build asks about a descriptor nobody's.
        let start: String = said.chars().take(12).collect();
        let is_aside = said.contains("F_GETFD")
            || ["<pipe:", "<socket:", "<TCP"].iter().any(|kind| start.contains(kind));
        let base = self.sandbox.base().to_str().unwrap();
        !is_aside && said.replace(&format!("AT_FDCWD<{base}/work>"), "").contains(base)
    }

    /// The calls of one name in the last run: for each one, whether it is on a file of the world, and whether the fault came.
    fn calls(&self, call: &str) -> Vec<(bool, bool)> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let all = log.lines().filter_map(|line| line.strip_prefix(call)?.strip_prefix('('));
        all.map(|said| (self.is_here(said), said.contains("(INJECTED)"))).collect()
    }

    /// Which call of its name the site is at present: numbers may differ by a few from run to run.
    fn number(&self, operation: &Operation, site: &Site) -> Option<usize> {
        self.begin_anew();
        self.strace(operation, &["-e", &format!("trace={}", site.call)]);
        let all = self.calls(&site.call);
        let mut here = all.iter().enumerate().filter(|(_, (is_here, _))| *is_here);
        here.nth(site.here - 1).map(|(at, _)| at + 1)
    }

    /// Several tries to have the fault at the site.
    fn try_often(&self, operation: &Operation, site: &Site, fault: Fault) -> Option<Vec<String>> {
        let mut site = site.clone();
        for _ in 0..60 {
            if let Some(found) = self.try_one(operation, &site, fault) {
                return Some(found);
            }
            site.nth = self.number(operation, &site).unwrap_or(site.nth);
        }
        None
    }

    /// One run with a fault, and what is wrong after it; `None` where the fault did not come.
    fn try_one(&self, operation: &Operation, site: &Site, fault: Fault) -> Option<Vec<String>> {
        self.begin_anew();
        let trace = format!("trace={}", site.call);
        let mut run = self.strace(operation, &["-e", &trace, "-e", &site.injection(fault)]);
        // The first process of its own world cannot be killed by itself, as strace does when its child was.
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        if fault == Fault::Kill && log.contains("+++ killed by SIGKILL +++") {
            run.code = -9;
        }
        let calls = self.calls(&site.call);
        let at = match fault {
            Fault::Kill if run.code == -9 => calls.len().checked_sub(1),
            Fault::Kill => None,
            _ => calls.iter().position(|(_, is_injected)| *is_injected),
        };
        // Of these two, a path is told only when they succeed.
        let is_untold = ["readlink", "getcwd"].contains(&site.call.as_str());
        let is_it = |at: usize| {
            let before = calls[..at].iter().filter(|(is_here, _)| *is_here).count();
            (calls[at].0 || is_untold) && before + 1 == site.here
        };
        if !at.is_some_and(is_it) {
            return None;
        }
        if fault == Fault::Kill {
            wait_until("its children have ended", || self.sandbox.processes().is_empty());
        }
        let asked = self.sandbox.requests().len();
        let state = State::of(self.sandbox.base());
        let after = After { fault, call: site.call.clone(), run, state, asked };
        let mut wrong = Vec::new();
        self.bystanders(&after.state, &mut wrong);
        let run = &after.run;
        let is_lasting = matches!(fault, Fault::Lasts(_));
        match (fault, run.code) {
            (Fault::Kill, -9) | (_, 0) => {}
            (Fault::Fails("EINTR"), code) if site.call != "openat" => {
                wrong.push(format!("EINTR is tried again, and not exit {code}: {}", run.stderr));
            }
            // Settings that cannot be read are wrong usage.
            (_, 1) | (_, 2) => {
                let names_it = run.stderr.contains(self.sandbox.base().to_str().unwrap());
                if !is_lasting && !names_it && site.call != "getcwd" {
                    wrong.push(format!("the message names no file: {:?}", run.stderr));
                }
            }
            (_, code) => wrong.push(format!("exit {code}: {}", run.stderr)),
        }
        if run.stderr.contains("panicked") {
            wrong.push(format!("a panic: {}", run.stderr));
        }
        if run.code == 0 || run.code == 1 || run.code == 2 || run.code == -9 {
            (operation.check)(self, &after, &mut wrong);
        }
        self.afterwards(operation, &after, &mut wrong);
        if std::env::var_os("FAULTS_TOLD").is_some() {
            let said = after.run.stderr.replace(self.sandbox.base().to_str().unwrap(), "");
            println!(
                "    {} {fault} {} {} -> {} {}",
                operation.name,
                site.call,
                site.nth,
                after.run.code,
                said.trim()
            );
        }
        Some(wrong)
    }

    /// Runs without a fault over what was left, and looks again.
    pub(crate) fn afterwards(&self, operation: &Operation, after: &After, wrong: &mut Vec<String>) {
        make_old(self.sandbox.base());
        self.sandbox.llm.forget();
        (operation.again)(self, after, wrong);
        let end = State::of(self.sandbox.base());
        self.bystanders(&end, wrong);
        for path in end.0.keys() {
            let name = path.file_name().unwrap().to_string_lossy();
            let is_left =
                name.starts_with(".nagent-") && name != ".nagent" || name.ends_with(".run");
            // What a power cut left stays until something is written beside it, or somebody goes on there.
            let is_older = after.fault == Fault::PowerCut && after.state.0.contains_key(path);
            // A kill in the instant of a rename.
            let is_unnamed = after.fault == Fault::Kill && name.ends_with(".tmp");
            if is_left && !is_unnamed && !(is_older && name != "c.run") {
                wrong.push(format!("{} was left behind", path.display()));
            }
        }
        for complaint in self.sandbox.llm.take_complaints() {
            wrong.push(format!("the model's server: {complaint}"));
        }
    }

    /// Files that no operation has to do with.
    pub(crate) fn bystanders(&self, now: &State, wrong: &mut Vec<String>) {
        for (path, thing) in &self.before.0 {
            let is_bystander = path.file_name().unwrap().to_string_lossy().starts_with("bystander");
            if is_bystander && now.0.get(path) != Some(thing) {
                wrong.push(format!("{} was changed", path.display()));
            }
        }
    }
}

pub(crate) fn run(figures: &mut Figures) {
    let wanted = std::env::var("FAULTS_OF").unwrap_or_default();
    for operation in operations() {
        if wanted.is_empty() || wanted.split(',').any(|wanted| wanted == operation.name) {
            one(&operation, figures);
        }
    }
}

/// The folder of torn tails cannot be made durable, however often that is tried: one try, and an end. The tail stays where it was.
fn tails_folder_never_syncs(world: &World, operation: &Operation, figures: &mut Figures) {
    world.begin_anew();
    let folder = world.sandbox.root().join("conversations/c.invalid");
    std::fs::create_dir_all(&folder).unwrap();
    let (program, args) = (operation.command)(&world.sandbox);
    let (log, path) = (world.log.to_str().unwrap(), folder.to_str().unwrap());
    let mut all = vec!["-p", "-f", "--mount-proc", "timeout", "-s", "KILL", "10", "strace", "-q"];
    all.extend(["-o", log, "-P", path, "-e", "trace=fsync", "-e", "inject=fsync:error=EIO"]);
    all.push(&program);
    all.extend(args.iter().map(String::as_str));
    let run = world.sandbox.program("unshare", &all).run();
    let files = std::fs::read_dir(&folder).unwrap().count();
    let is_error = usize::from(run.code == 1);
    figures.exactly("repair: exit 1 where the folder of torn tails never syncs", is_error, 1);
    figures.exactly("repair: files that are left there then", files, 0);
    let conversation = format!("{}/c", base::CONVERSATIONS);
    let is_same =
        State::of(world.sandbox.base()).file(&conversation) == world.before.file(&conversation);
    figures.exactly("repair: conversations that keep their torn tail", usize::from(is_same), 1);
}

fn one(operation: &Operation, figures: &mut Figures) {
    let worlds = [World::new(operation, "a"), World::new(operation, "b")];
    let (sites, elsewhere) = worlds[0].sites(operation);
    for (name, made, parent) in [
        ("repair", "/conversations/c.invalid\"", "/conversations>"),
        ("create", "\"sub\"", "/work>"),
    ] {
        if operation.name == name {
            let made = sites
                .iter()
                .position(|site| site.call.starts_with("mkdir") && site.line.contains(made));
            let next = made.and_then(|made| {
                sites[made..].iter().find(|site| site.call == "fsync").map(|site| &site.line)
            });
            figures.exactly(
                &format!("{name}: a folder that it makes is durable before what is in it"),
                usize::from(next.is_some_and(|line| line.contains(parent))),
                1,
            );
        }
    }
    if operation.name == "append-new" {
        // A journal's commit hides on ext4 that this is missing: no power cut there would tell.
        let at = |call: &str, end: &str, from: usize| {
            let mut after = sites.iter().enumerate().skip(from);
            after.find(|(_, site)| site.call == call && site.line.contains(end)).map(|(at, _)| at)
        };
        let is_made =
            |site: &Site| site.line.contains("/conversations/c>") && site.line.contains("O_CREAT");
        let made = sites.iter().position(is_made).unwrap_or(usize::MAX);
        let synced = at("fdatasync", "/conversations/c>", 0).unwrap_or(usize::MAX);
        let folder = at("fsync", "/conversations>", made).unwrap_or(usize::MAX);
        let next = at("write", "/conversations/c>", synced).unwrap_or(0);
        figures.exactly(
            "append-new: its folder is durable before the model is asked",
            usize::from(folder < next),
            1,
        );
    }
    let all: VecDeque<(Site, Fault)> = sites
        .iter()
        .flat_map(|site| site.faults().into_iter().map(|fault| (site.clone(), fault)))
        .collect();
    let (wanted, queue) = (all.len(), Mutex::new(all));
    let (missed, wrong) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for world in &worlds {
            scope.spawn(|| {
                loop {
                    let Some((site, fault)) = queue.lock().unwrap().pop_front() else { return };
                    let found = world.try_often(operation, &site, fault);
                    let what = format!(
                        "{}: {fault} at {} {} ({})",
                        operation.name, site.call, site.nth, site.line
                    );
                    match found {
                        None => missed.lock().unwrap().push(what),
                        Some(found) => wrong
                            .lock()
                            .unwrap()
                            .extend(found.into_iter().map(|found| format!("{what}: {found}"))),
                    }
                }
            });
        }
    });
    let (missed, wrong) = (missed.into_inner().unwrap(), wrong.into_inner().unwrap());
    if operation.name == "repair" {
        tails_folder_never_syncs(&worlds[0], operation, figures);
    }
    for what in
        missed.iter().map(|what| format!("not reached: {what}")).chain(wrong.iter().cloned())
    {
        figures.miss(what);
    }
    figures.at_least(&format!("{}: sites", operation.name), sites.len(), operation.least_sites);
    figures.exactly(
        &format!("{}: changes of files by other threads", operation.name),
        elsewhere,
        0,
    );
    figures.exactly(
        &format!("{}: faults that came, of {wanted}", operation.name),
        wanted - missed.len(),
        wanted,
    );
    figures.exactly(
        &format!("{}: lost, doubled, mixed or left behind", operation.name),
        wrong.len(),
        0,
    );
    for world in worlds {
        drop(std::fs::remove_file(&world.log));
    }
}
