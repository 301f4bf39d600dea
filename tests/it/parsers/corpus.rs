//! Runs the collected inputs of each target, and variations of them that follow from a fixed seed.
#![expect(clippy::print_stderr, reason = "the input that failed is what the reader needs")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::TARGETS;

/// Variations per input of the corpus. Unoptimised code runs a few thousand of them in a second.
const VARIATIONS: usize = 4;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// The words of a libFuzzer dictionary.
fn read_dictionary(path: &Path) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let quoted = text.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix('"'));
    quoted.map(|word| word.replace(r#"\""#, "\"").replace(r"\\", "\\").into_bytes()).collect()
}

/// Changes an input in one to four places: bytes, words of the dictionary, a part of another input, a part twice or gone.
fn vary(input: &[u8], other: &[u8], words: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut varied = input.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(varied.len() + 1);
        let end = (at + numbers.below(64)).min(varied.len());
        match numbers.below(6) {
            0 if at < varied.len() => varied[at] ^= 1 << numbers.below(8),
            1 if !words.is_empty() => {
                let word = words[numbers.below(words.len())].iter().copied();
                drop(varied.splice(at..at, word));
            }
            2 => {
                let from = numbers.below(other.len() + 1);
                let to = (from + numbers.below(256)).min(other.len());
                drop(varied.splice(at..end, other[from..to].iter().copied()));
            }
            3 => drop(varied.splice(at..at, varied[at..end].to_vec())),
            4 => drop(varied.drain(at..end)),
            _ => varied.insert(at, u8::try_from(numbers.below(256)).unwrap()),
        }
    }
    varied
}

fn run_target(name: &str) {
    let (_, run) = TARGETS.iter().find(|(known, _)| *known == name).unwrap();
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let folder = fuzz.join("corpus").join(name);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let inputs: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let words = read_dictionary(&fuzz.join("dict").join(name));
    let mut numbers = Numbers(1);
    let check = |input: &[u8], from: &Path| {
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| run(input))) {
            let shown = from.file_name().unwrap().display();
            eprintln!("{name} failed on {shown} or a variation of it: {}", input.escape_ascii());
            std::panic::resume_unwind(cause);
        }
    };
    for (path, input) in paths.iter().zip(&inputs) {
        check(input, path);
        for _ in 0..VARIATIONS {
            let other = &inputs[numbers.below(inputs.len())];
            check(&vary(input, other, &words, &mut numbers), path);
        }
    }
}

macro_rules! one_test_for_each_target {
    ($($name:ident)*) => {
        $(#[test] fn $name() { run_target(stringify!($name)); })*

        #[test]
        fn every_target_has_its_test() {
            assert_eq!(TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), [$(stringify!($name)),*]);
        }
    };
}

one_test_for_each_target! {
    command context conversation cut_code cut_text diff edit engine failure fence history index look policy reply request script
    settings shown sse stops wire
}
