//! Every state that a power cut may leave, out of the recorded system calls of real runs: case 24, after ALICE.
//!
//! Needs root, `unshare` and strace, as `faults` does, whose operations these are. Each runs once; its calls are played on a
//! disk in memory (`disk`) that keeps no more than POSIX promises. After each call that changes something all states of that
//! disk are made, or `STATES=120` of them where there are more (drawn by `SEED=1`, told in the figures): what the run had
//! acknowledged by then is to be there whole and once, what was there before is to be there, what is half there is to be
//! seen as that. Each conversation of each state is opened as a run opens it; `STATES_RUN=6` states of each operation are
//! put on a real disk and gone on from by the executables. `STATES_OF=append,patch` takes these operations alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use sys::conversation_file::ConversationFile;
use sys::interrupt::Interrupts;
use sys::root::Root;

use crate::blocks::blocks;
use crate::faults::base::{CONVERSATIONS, Operation};
use crate::faults::{After, Fault, World, checks};
use crate::figures::Figures;
use crate::ground::{Numbers, State, number};

mod calls; // what strace tells
mod disk; // what may be on the disk
mod operations; // what is recorded
mod playing; // calls on that disk

use disk::{Disk, digest};
use playing::{Played, Playing};

/// The states of the smallest operation whose calls were seen: before it, within it, with all of it, and acknowledged.
const LEAST_STATES: usize = 3;

/// What became of one operation.
#[derive(Default)]
struct Outcome {
    name: &'static str,
    calls: usize,
    instants: usize,
    /// Instants at which not all states were made.
    drawn: usize,
    states: usize,
    run: usize,
    lost: Vec<String>,
    unloadable: Vec<String>,
    again: Vec<String>,
    /// Whether the disk in memory ended as the real one did.
    is_true: bool,
}

pub(crate) fn run(figures: &mut Figures) {
    let wanted = std::env::var("STATES_OF").unwrap_or_default();
    let all: Vec<Operation> = operations::all()
        .into_iter()
        .filter(|operation| {
            wanted.is_empty() || wanted.split(',').any(|wanted| wanted == operation.name)
        })
        .collect();
    if all.is_empty() {
        return figures.miss(format!("there is no operation {wanted}"));
    }
    let (queue, done) = (Mutex::new(all.iter().enumerate()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some((at, operation)) = queue.lock().unwrap().next() else { return };
                    let outcome = one(operation);
                    done.lock().unwrap().push((at, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(at, _)| *at);
    let done: Vec<Outcome> = done.into_iter().map(|(_, outcome)| outcome).collect();
    for outcome in &done {
        let Outcome { name, calls, instants, drawn, states, run, .. } = outcome;
        println!(
            "  {name}: {calls} calls, {instants} instants ({drawn} drawn from), {states} states, {run} gone on from"
        );
        for wrong in [&outcome.lost, &outcome.unloadable, &outcome.again] {
            // One of each kind.
            let mut told = BTreeSet::new();
            for wrong in wrong {
                let kind = wrong.rsplit_once(": ").map_or("", |(_, kind)| kind);
                if told.insert(kind) && told.len() <= 4 {
                    figures.miss(format!("{name}: {wrong}"));
                }
            }
        }
        if *states < LEAST_STATES {
            figures.miss(format!("{name}: {states} states alone: the calls were not seen"));
        }
    }
    let sum = |count: fn(&Outcome) -> usize| done.iter().map(count).sum::<usize>();
    figures.exactly("operations that were recorded", done.len(), all.len());
    let is_true = sum(|outcome| usize::from(outcome.is_true));
    figures.exactly("that end in memory as on the disk", is_true, all.len());
    let (instants, drawn) = (sum(|outcome| outcome.instants), sum(|outcome| outcome.drawn));
    figures.at_least(
        &format!(
            "states that a power cut may leave: all of {} instants, a sample of {drawn}",
            instants - drawn
        ),
        sum(|outcome| outcome.states),
        LEAST_STATES * all.len(),
    );
    figures.exactly("lost, doubled, half or mixed", sum(|outcome| outcome.lost.len()), 0);
    figures.exactly("that do not load", sum(|outcome| outcome.unloadable.len()), 0);
    figures.at_least("states gone on from", sum(|outcome| outcome.run), all.len());
    figures.exactly("from which it did not go on", sum(|outcome| outcome.again.len()), 0);
}

/// A state that is gone on from by the executables.
struct Picked {
    after: After,
    what: String,
}

fn one(operation: &Operation) -> Outcome {
    let mut outcome = Outcome { name: operation.name, ..Outcome::default() };
    let world = World::new(operation, &format!("states-{}", operation.name));
    let (most, to_run) = (number("STATES", 120), number("STATES_RUN", 6));
    let mut numbers = Numbers::new(number("SEED", 1));
    world.begin_anew();
    let run = world.strace(operation, &["-f", "-xx", "-s", "4000000", "-e", calls::TRACED]);
    assert_eq!(run.code, 0, "{}: {}", operation.name, run.stderr);
    let end = State::of(world.sandbox.base());
    let asked = world.sandbox.requests().len();
    let calls = calls::calls(&std::fs::read_to_string(&world.log).unwrap());
    drop(std::fs::remove_file(&world.log));

    let base = world.sandbox.base();
    let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut playing = Playing::new(base, Disk::of(&world.before), &calls);
    let mut seen = BTreeSet::new();
    // A sample of all that are seen, each as likely as another.
    let mut picked: Vec<Picked> = Vec::new();
    for call in &calls {
        let played = playing.play(call);
        if played != Played::Nothing {
            outcome.calls += 1;
        }
        if played != Played::New {
            continue;
        }
        let choices = playing.disk.choices();
        outcome.instants += 1;
        outcome.drawn += usize::from(choices.count() > most);
        for choice in choices.picked(most, &mut numbers) {
            let state = choices.state(&choice);
            let code = playing.code.unwrap_or(-9);
            if !seen.insert((digest(&state), playing.asked, playing.stdout.len(), code)) {
                continue;
            }
            outcome.states += 1;
            let mut run = run.clone();
            (run.code, run.stdout) = (code, playing.stdout.clone());
            let after = After {
                fault: Fault::PowerCut,
                call: call.name.clone(),
                run,
                state,
                asked: playing.asked,
            };
            let what =
                format!("after {}: {}", call.told(base.to_str().unwrap()), choices.told(&choice));
            let say = |wrong: Vec<String>| {
                wrong.into_iter().map(|wrong| format!("{what}: {wrong}")).collect::<Vec<_>>()
            };
            let mut wrong = Vec::new();
            world.bystanders(&after.state, &mut wrong);
            (operation.check)(&world, &after, &mut wrong);
            kept(&world, &after, &mut wrong);
            outcome.lost.extend(say(wrong));
            let mut wrong = Vec::new();
            loads(operation, scratch.path(), &after, &mut wrong);
            outcome.unloadable.extend(say(wrong));
            let at = usize::try_from(numbers.below(outcome.states as u64)).unwrap();
            if picked.len() < to_run {
                picked.push(Picked { after, what });
            } else if at < to_run {
                picked[at] = Picked { after, what };
            }
        }
    }
    outcome.is_true = playing.disk.choices().seen() == end
        && playing.asked == asked
        && playing.stdout == run.stdout;
    if !outcome.is_true {
        let seen = playing.disk.choices().seen();
        let other = |a: &State, b: &State| {
            a.0.iter()
                .filter(|(path, thing)| b.0.get(*path) != Some(thing))
                .map(|(path, _)| path.display().to_string())
                .collect::<Vec<_>>()
        };
        outcome.lost.push(format!(
            "in memory {:?}, on the disk {:?}; asked {} of {asked}; said {:?}",
            other(&seen, &end),
            other(&end, &seen),
            playing.asked,
            playing.stdout
        ));
    }
    for Picked { after, what } in picked {
        after.state.put_back(base);
        world.sandbox.llm.forget();
        let mut wrong = Vec::new();
        world.afterwards(operation, &after, &mut wrong);
        outcome.run += 1;
        outcome.again.extend(wrong.into_iter().map(|wrong| format!("{what}: {wrong}")));
    }
    outcome
}

/// Beside what the operation checks: a torn tail is never in neither place.
fn kept(world: &World, after: &After, wrong: &mut Vec<String>) {
    let half = "half a pro";
    if world.before.text(format!("{CONVERSATIONS}/c")).contains(half) {
        let mut all = after.state.0.keys().filter(|path| path.starts_with(CONVERSATIONS));
        if !all.any(|path| after.state.text(path).contains(half)) {
            wrong.push("the torn tail is nowhere".to_owned());
        }
    }
}

/// Opens each conversation as a run does, which repairs it.
fn loads(operation: &Operation, scratch: &Path, after: &After, wrong: &mut Vec<String>) {
    let root = Root { folder: scratch.join("root") };
    drop(std::fs::remove_dir_all(&root.folder));
    root.prepare().unwrap();
    let interrupts = Interrupts::without_handlers().unwrap();
    let names = after.state.names(CONVERSATIONS);
    let is_conversation = |name: &&String| {
        let is_file = after.state.file(format!("{CONVERSATIONS}/{name}")).is_some();
        is_file
            && !name.starts_with('.')
            && *name != "bystander"
            && ![".run", ".json"].iter().any(|end| name.ends_with(end))
    };
    for name in names.iter().filter(is_conversation) {
        for end in ["", ".run"] {
            if let Some(bytes) = after.state.file(format!("{CONVERSATIONS}/{name}{end}")) {
                std::fs::write(root.conversations().join(format!("{name}{end}")), bytes).unwrap();
            }
        }
        match ConversationFile::open(&root, name, Duration::ZERO, &interrupts, &mut |_| ()) {
            Err(error) => wrong.push(format!("{name} does not load: {error}")),
            Ok(journal) if name == "c" && operation.name.starts_with("append") => {
                checks::acked(after, &blocks(journal.text()), wrong);
            }
            Ok(_) => {}
        }
    }
}
