//! SIGKILL at random instants of runs of several turns with commands, writes and children.
//!
//! Acknowledged is what the model's server was sent: a turn that a request holds is durable. `KILLS=2000` kills more often,
//! `SEED=7` at other instants.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::blocks::{Block, blocks};
use crate::durability::{busy, check_results, whole_part};
use crate::figures::Figures;
use crate::ground::{Numbers, number};
use crate::sandbox::{Sandbox, answer, wait_until};

/// Kills of one conversation, before the next one begins.
const EACH: usize = 25;

pub(crate) fn run(figures: &mut Figures) {
    let (kills, seed) = (number("KILLS", 200), number("SEED", 1));
    println!("  seed {seed}");
    let mut numbers = Numbers::new(seed);
    let (mut done, mut turns, mut actions) = (0, 0, 0);
    let mut lost = 0;
    while done < kills {
        let sandbox = Sandbox::in_folder(Path::new("/dev/shm")).file("log", "");
        busy(&sandbox);
        let path = sandbox.root().join("conversations/c");
        let mut before: Vec<Block> = Vec::new();
        let mut acked = Acked::default();
        let goal = (done + EACH).min(kills);
        let mut prompt = 0;
        while done < goal {
            prompt += 1;
            let running =
                sandbox.cmd(&["--conversation", "c", &format!("prompt {prompt}.")]).spawn();
            let from = sandbox.requests().len();
            // Early or in the middle of its turns.
            let longest = if numbers.below(3) == 0 { 60 } else { 400 };
            std::thread::sleep(Duration::from_millis(numbers.below(longest)));
            // A run may have ended in an error, as when a child's depth is reached: that is no kill.
            running.signal(Signal::KILL);
            let run = running.wait();
            assert_eq!(run.code, -9, "it ended by itself: {}", run.stderr);
            done += 1;
            wait_until("its children have ended", || sandbox.processes().is_empty());
            for request in &sandbox.requests()[from.min(sandbox.requests().len())..] {
                acked.read(&request.text());
            }
            sandbox.llm.forget();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let parsed = conversation::format::file::parse(&text);
            let end = parsed.pieces.last().map_or(0, |piece| piece.span.end);
            let Some(_) = whole_part(&text) else { continue };
            let now = blocks(&text[..end]);
            if !now.starts_with(&before[..before.len().min(now.len())]) || now.len() < before.len()
            {
                lost += 1;
                figures.miss(format!("after kill {done} a block is gone"));
            }
            before = now;
        }
        sandbox.llm.choose(|_| answer("done").into());
        let run = sandbox.run(&["--conversation", "c", "end"]);
        if run.code != 0 || run.stdout != "done\n" {
            figures.miss(format!("the last run: exit {}: {}", run.code, run.stderr));
            continue;
        }
        let now = blocks(&std::fs::read_to_string(&path).unwrap());
        let log: Vec<String> = sandbox.read("log").lines().map(str::to_owned).collect();
        let distinct: BTreeSet<&String> = log.iter().collect();
        if distinct.len() != log.len() {
            figures.miss(format!("{} actions ran twice", log.len() - distinct.len()));
        }
        actions += log.len();
        check_results(&now, &log);
        turns += acked.turns.len();
        lost += acked.missing(&now, figures);
        if path.with_extension("run").exists() {
            figures.miss("a run's note stays".to_owned());
        }
    }
    figures.exactly("kills", done, kills);
    figures.at_least("turns that were acknowledged", turns, kills / 10);
    figures.at_least("commands that ran", actions, kills / 10);
    figures.exactly("lost or doubled", lost, 0);
}

/// What requests have shown to be durable.
#[derive(Default)]
struct Acked {
    turns: BTreeSet<String>,
    prompts: BTreeSet<String>,
}

impl Acked {
    fn read(&mut self, request: &str) {
        if request.contains("child work") && !request.contains("prompt ") {
            return;
        }
        let words = |before: &str, after: char| -> Vec<String> {
            let parts = request.split(before).skip(1);
            parts
                .filter_map(|part| part.split_once(after))
                .map(|(word, _)| word.to_owned())
                .collect()
        };
        let is_number =
            |word: &String| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        // A reply is known by the number of its first command.
        self.turns.extend(words("<nagent-shell>echo ", '.').into_iter().filter(is_number));
        self.prompts.extend(words("prompt ", '.').into_iter().filter(is_number));
    }

    /// How many are not there exactly once.
    fn missing(&self, blocks: &[Block], figures: &mut Figures) -> usize {
        let count = |name: &str, words: &str| {
            blocks.iter().filter(|block| block.name == name && block.body.contains(words)).count()
        };
        let turns = self.turns.iter().map(|n| ("agent-response", format!("echo {n}.a ")));
        let prompts = self.prompts.iter().map(|n| ("user-prompt", format!("prompt {n}.")));
        let wrong: Vec<_> =
            turns.chain(prompts).filter(|(name, words)| count(name, words) != 1).collect();
        for (name, words) in &wrong {
            figures.miss(format!("{name} {words:?} is there {} times", count(name, words)));
        }
        wrong.len()
    }
}
