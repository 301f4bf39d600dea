//! Generated edits over texts of many kinds: those that must apply, each with the text that must come out, and traps
//! that must never be applied. Deterministic: the same cases every time.

use super::{How, apply};
use crate::format::edit::Block;

const RUST: &str = include_str!("../../tests/edits/search.rs.txt");
const TYPES: &str = include_str!("../../tests/edits/types.rs.txt");

const PYTHON: &str = "\
import os
import sys


class Store:
    \"\"\"Keeps values by name.\"\"\"

    def __init__(self, path, limit=10):
        self.path = path
        self.limit = limit
        self.values = {}

    def get(self, name, default=None):
        if name in self.values:
            return self.values[name]
        return default

    def put(self, name, value):
        if len(self.values) >= self.limit:
            raise ValueError(\"full: %d\" % self.limit)
        self.values[name] = value

    def drop(self, name):
        if name in self.values:
            del self.values[name]
            return True
        return False


def main(args):
    store = Store(os.path.join(args[0], \"store\"), limit=20)
    for arg in args[1:]:
        name, value = arg.split(\"=\", 1)
        if name in ('x', 'y'):
            continue
        store.put(name, value)

    print(store.get(\"name\", 'nobody'))
    return 0


if __name__ == \"__main__\":
    sys.exit(main(sys.argv[1:]))
";

const PROSE: &str = "\
# The “Garden” Notes

It’s the third year of the garden, and the beans have “won” again.
We planted them late — in June — since the soil was cold.

- beans: 12 rows, two of them lost
- peas: 4 rows, the birds’ share was one
- “heritage” tomatoes: 3 plants

## What to change

Next year’s plan is simple: fewer beans, more peas.
Don’t plant before the 10th of May.

> “A garden is a lovesome thing”, he said – and dug on.

The end of it’s not yet written.
";

/// Cases of a kind and a file.
const ROUNDS: usize = 20;

/// xorshift: enough for choosing cases, and the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}

/// A right edit: `search` is `file[from..from + search.len()]`.
#[derive(Clone)]
struct Case {
    file: Vec<String>,
    from: usize,
    search: Vec<String>,
    replace: Vec<String>,
}

impl Case {
    fn expected(&self) -> Vec<String> {
        let (before, after) =
            (&self.file[..self.from], &self.file[self.from + self.search.len()..]);
        [before, &self.replace, after].concat()
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn join(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

fn map(lines: &[String], with: impl Fn(&str) -> String) -> Vec<String> {
    lines.iter().map(|line| with(line)).collect()
}

/// Lines of a stretch in which one word is another, one line is gone, or one is new.
fn draw(dice: &mut Dice, file: &[String]) -> Case {
    loop {
        let many = 2 + dice.below(7);
        let from = dice.below(file.len() - many);
        let search = file[from..from + many].to_vec();
        let count = file
            .windows(many)
            .filter(|w| w[0].trim() == search[0].trim())
            .filter(|w| w.iter().map(|l| l.trim()).eq(search.iter().map(|l| l.trim())))
            .count();
        let (first, last) = (&search[0], &search[many - 1]);
        if count != 1 || first.trim().is_empty() || last.trim().is_empty() {
            continue;
        }
        let mut replace = search.clone();
        let at = dice.below(many);
        match dice.below(3) {
            0 => match change_word(dice, &replace[at]) {
                Some(line) => replace[at] = line,
                None => continue,
            },
            1 if !replace[at].trim().is_empty() => drop(replace.remove(at)),
            _ if !replace[at].trim().is_empty() => {
                let indent = &replace[at][..replace[at].len() - replace[at].trim_start().len()];
                replace.insert(at, format!("{indent}inserted(here, {at});"));
            }
            _ => continue,
        }
        return Case { file: file.to_vec(), from, search, replace };
    }
}

fn change_word(dice: &mut Dice, line: &str) -> Option<String> {
    let words: Vec<(usize, &str)> = line
        .match_indices(|c: char| c.is_ascii_alphanumeric())
        .filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_alphanumeric()))
        .collect();
    let (at, _) = *words.get(dice.below(words.len().max(1)))?;
    let end = line[at..].find(|c: char| !c.is_alphanumeric()).map_or(line.len(), |end| at + end);
    Some(format!("{}changed{}{}", &line[..at], dice.below(10), &line[end..]))
}

fn files() -> Vec<Vec<String>> {
    [RUST, TYPES, PYTHON, PROSE].into_iter().map(lines).collect()
}

#[derive(Default, Debug, PartialEq, Eq)]
struct Tally {
    applied: usize,
    damaged: usize,
    refused: usize,
}

fn run(file: &str, search: &[String], replace: &[String]) -> Result<(String, How), String> {
    let block = Block { search: join(search), replace: join(replace), line: 1 };
    match apply(file, &[block]) {
        Ok(applied) => Ok((applied.text, applied.changes[0].how)),
        Err(refusals) => Err(refusals[0].to_string()),
    }
}

type Tweak = fn(&mut Dice, &Case) -> Option<(String, Vec<String>, Vec<String>, String)>;

fn tabbed(line: &str) -> String {
    let body = line.trim_start_matches(' ');
    let spaces = line.len() - body.len();
    format!("{}{}{body}", "\t".repeat(spaces / 4), " ".repeat(spaces % 4))
}

fn asciied(line: &str) -> String {
    line.chars().map(super::lines::plain).collect()
}

fn curled(line: &str) -> String {
    line.replace('\'', "’").replace('"', "”")
}

/// What models do to a right edit; each gives the file, the search, the replacement and the text that must come out.
const SLIPS: [(&str, Tweak); 15] = [
    ("exact", |_, c| {
        Some((join(&c.file), c.search.clone(), c.replace.clone(), join(&c.expected())))
    }),
    ("blanks in search", |dice, c| {
        let mut search = c.search.clone();
        let at = dice.below(search.len());
        search[at].push_str("  ");
        Some((join(&c.file), search, c.replace.clone(), join(&c.expected())))
    }),
    ("blanks in block", |_, c| {
        let stray = |lines: &[String]| map(lines, |line| format!("{line} "));
        Some((join(&c.file), stray(&c.search), stray(&c.replace), join(&c.expected())))
    }),
    ("blanks in file", |dice, c| {
        // On a line outside of what is changed, or else the expected text would not be certain.
        let (mut file, mut expected) = (c.file.clone(), c.expected());
        let same = c.search.iter().zip(&c.replace).take_while(|(s, r)| s == r).count();
        let at = c.from + dice.below(same.checked_sub(1)? + 1);
        file[at].push_str("\t ");
        expected[at].push_str("\t ");
        Some((join(&file), c.search.clone(), c.replace.clone(), join(&expected)))
    }),
    ("outdent", |_, c| {
        let text = c.search.iter().chain(&c.replace).filter(|line| !line.trim().is_empty());
        let most = text.map(|line| line.len() - line.trim_start().len()).min()?;
        let out = |lines: &[String]| map(lines, |line| line.get(most..).unwrap_or("").to_owned());
        (most > 0).then(|| (join(&c.file), out(&c.search), out(&c.replace), join(&c.expected())))
    }),
    ("indent", |_, c| {
        let deeper = |lines: &[String]| {
            map(lines, |line| if line.is_empty() { String::new() } else { format!("    {line}") })
        };
        Some((join(&c.file), deeper(&c.search), deeper(&c.replace), join(&c.expected())))
    }),
    ("tabs in file", |_, c| {
        Some((
            join(&map(&c.file, tabbed)),
            c.search.clone(),
            c.replace.clone(),
            join(&map(&c.expected(), tabbed)),
        ))
    }),
    ("tabs in block", |_, c| {
        Some((join(&c.file), map(&c.search, tabbed), map(&c.replace, tabbed), join(&c.expected())))
    }),
    ("crlf file", |_, c| {
        let crlf = |lines: &[String]| join(lines).replace('\n', "\r\n");
        Some((crlf(&c.file), c.search.clone(), c.replace.clone(), crlf(&c.expected())))
    }),
    ("crlf block", |_, c| {
        let crlf = |lines: &[String]| map(lines, |line| format!("{line}\r"));
        Some((join(&c.file), crlf(&c.search), crlf(&c.replace), join(&c.expected())))
    }),
    ("mark", |_, c| {
        let marked = |lines: &[String]| format!("\u{feff}{}", join(lines));
        Some((marked(&c.file), c.search.clone(), c.replace.clone(), marked(&c.expected())))
    }),
    ("no last newline", |_, c| {
        let cut = |lines: &[String]| join(lines).trim_end().to_owned();
        let at_end = c.from + c.search.len() == c.file.len() && c.replace.last() != c.search.last();
        (!at_end).then(|| (cut(&c.file), c.search.clone(), c.replace.clone(), cut(&c.expected())))
    }),
    ("plain quotes", |_, c| {
        let (search, replace) = (map(&c.search, asciied), map(&c.replace, asciied));
        (search != c.search).then(|| (join(&c.file), search, replace, join(&c.expected())))
    }),
    ("curled quotes", |_, c| {
        let (search, replace) = (map(&c.search, curled), map(&c.replace, curled));
        (search != c.search && asciied(&c.search.concat()) == c.search.concat())
            .then(|| (join(&c.file), search, replace, join(&c.expected())))
    }),
    ("blank line", |dice, c| {
        let mut search = c.search.clone();
        match search.iter().position(String::is_empty) {
            Some(at) => drop(search.remove(at)),
            None => search.insert(1 + dice.below(search.len() - 1), String::new()),
        }
        Some((join(&c.file), search, c.replace.clone(), join(&c.expected())))
    }),
];

#[test]
fn slips_apply_without_damage() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut all, mut tally) = (0, Tally::default());
    let mut report: Vec<String> = Vec::new();
    for (name, slip) in SLIPS {
        let mut of_kind = Tally::default();
        for file in files() {
            for _ in 0..ROUNDS {
                let case = draw(&mut dice, &file);
                let Some((file, search, replace, expected)) = slip(&mut dice, &case) else {
                    continue;
                };
                match run(&file, &search, &replace) {
                    Ok((text, _)) if text == expected => of_kind.applied += 1,
                    Ok((text, how)) => {
                        of_kind.damaged += 1;
                        report.push(format!(
                            "damaged, {name}, {how:?}:\n{}---\n{}---\n{}\n",
                            join(&search),
                            join(&replace),
                            diff(&expected, &text)
                        ));
                    }
                    Err(why) => {
                        of_kind.refused += 1;
                        report.push(format!(
                            "refused, {name}: {why}\n{}---\n{}\n",
                            join(&search),
                            join(&replace)
                        ));
                    }
                }
            }
        }
        report.push(format!("{name}: {of_kind:?}\n"));
        all += of_kind.applied + of_kind.damaged + of_kind.refused;
        tally.applied += of_kind.applied;
        tally.damaged += of_kind.damaged;
        tally.refused += of_kind.refused;
    }
    report.push(format!("all {all}: {tally:?}"));
    assert!(
        tally.damaged == 0 && tally.applied * 100 >= all * 97 && all > ROUNDS * 40,
        "{}",
        report.join("\n")
    );
}

fn diff(expected: &str, got: &str) -> String {
    similar::TextDiff::from_lines(expected, got).unified_diff().context_radius(1).to_string()
}

type Trap = fn(&mut Dice, &Case) -> Option<(Vec<String>, Vec<String>, Vec<String>)>;

/// A search that is nearly right, or right twice; each gives the file, the search and the replacement.
const TRAPS: [(&str, Trap); 10] = [
    ("stale value", |dice, c| {
        let mut search = c.search.clone();
        let at = dice.below(search.len());
        search[at] = change_word(dice, &search[at])?;
        Some((c.file.clone(), search, c.replace.clone()))
    }),
    ("one character", |dice, c| {
        let mut search = c.search.clone();
        let at = dice.below(search.len());
        let end = search[at]
            .char_indices()
            .nth(dice.below(search[at].chars().count().max(1)))
            .filter(|(_, ch)| !ch.is_whitespace())?
            .0;
        search[at].insert(end, '7');
        Some((c.file.clone(), search, c.replace.clone()))
    }),
    ("line left out", |dice, c| {
        let mut search = c.search.clone();
        let at = 1 + dice.below(search.len().checked_sub(2).filter(|inner| *inner > 0)?);
        let gone = search.remove(at);
        (!gone.trim().is_empty()).then(|| (c.file.clone(), search, c.replace.clone()))
    }),
    ("line invented", |dice, c| {
        let mut search = c.search.clone();
        search.insert(dice.below(search.len() + 1), "    invented(line);".to_owned());
        Some((c.file.clone(), search, c.replace.clone()))
    }),
    ("lines exchanged", |dice, c| {
        let mut search = c.search.clone();
        let at = dice.below(search.len() - 1);
        search.swap(at, at + 1);
        let same = search[at].trim() == search[at + 1].trim()
            || search[at].trim().is_empty()
            || search[at + 1].trim().is_empty();
        (!same).then(|| (c.file.clone(), search, c.replace.clone()))
    }),
    ("first and last alike", |_, c| {
        let last = c.search.len() - 1;
        let inner = (1..last).map(|i| format!("        something_else({i});"));
        let search: Vec<_> = [c.search[0].clone()]
            .into_iter()
            .chain(inner)
            .chain([c.search[last].clone()])
            .collect();
        (last > 1).then(|| (c.file.clone(), search, c.replace.clone()))
    }),
    ("twice", |dice, c| {
        let mut file = c.file.clone();
        let at = dice.below(2) * file.len();
        file.splice(at..at, c.search.iter().cloned());
        Some((file, c.search.clone(), c.replace.clone()))
    }),
    ("twice but for indentation", |_, c| {
        let mut file = c.file.clone();
        file.extend(map(&c.search, |line| format!("  {line}")));
        Some((
            file,
            map(&c.search, |line| format!("    {line}")),
            map(&c.replace, |line| format!("    {line}")),
        ))
    }),
    ("already applied", |_, c| Some((c.expected(), c.search.clone(), c.replace.clone()))),
    ("last line unlike", |_, c| {
        let mut search = c.search.clone();
        *search.last_mut()? = "unlike_anything()".to_owned();
        Some((c.file.clone(), search, c.replace.clone()))
    }),
];

#[test]
fn traps_are_refused() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let (mut refused, mut wrong) = (0, 0);
    let mut report: Vec<String> = Vec::new();
    for (name, trap) in TRAPS {
        let (mut of_kind, mut here) = (0, 0);
        for file in files() {
            for _ in 0..ROUNDS {
                let case = draw(&mut dice, &file);
                let Some((file, search, replace)) = trap(&mut dice, &case) else { continue };
                of_kind += 1;
                if let Ok((text, how)) = run(&join(&file), &search, &replace) {
                    here += 1;
                    report.push(format!(
                        "wrong, {name}, {how:?}:\n{}---\n{}---\n{}\n",
                        join(&search),
                        join(&replace),
                        diff(&join(&file), &text)
                    ));
                }
            }
        }
        report.push(format!("{name}: {of_kind} traps, {here} wrong\n"));
        refused += of_kind - here;
        wrong += here;
    }
    assert!(
        wrong == 0 && refused > ROUNDS * 30,
        "{}\nrefused {refused}, wrong {wrong}",
        report.join("\n")
    );
}
