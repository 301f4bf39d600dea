//! What in a file comes nearest to a search that is not there, and where the two part. It says so, and decides nothing.

use super::lines::{File, Line, core, is_blank, key};
use super::refuse::{MOST_QUOTES, QUOTE, inline, span};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Lines that are compared one by one, and lines of a file that are looked through for like words.
const MOST_COMPARED: usize = 400;
const MOST_SCORED: usize = 200_000;
/// Offsets that are looked at more closely.
const MOST_OFFSETS: usize = 100;
/// Lines of a search that are weighed to choose among stretches.
const MOST_WEIGHED: usize = 60;

/// The stretch of the file that has most in common with the search: by equal lines, else by equal words.
pub(super) fn nearest(search: &[Line], file: &File) -> Option<Range<usize>> {
    let mut at: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut keys: HashSet<u64> = HashSet::new();
    for (i, line) in search.iter().enumerate().filter(|(_, line)| !is_blank(line.text)) {
        keys.insert(key(line.text));
        let places = at.entry(core(line.text)).or_default();
        // A line that is repeated over and over says little about where.
        if places.len() < 4 {
            places.push(i);
        }
    }
    let weight = |text: &str| text.len().clamp(1, 40);
    let mut votes: HashMap<isize, usize> = HashMap::new();
    let may_vote = file.iter().zip(file.keys()).enumerate();
    for (j, (line, _)) in may_vote.filter(|(_, (_, key))| keys.contains(key)) {
        let text = core(line.text);
        for i in at.get(text).into_iter().flatten() {
            *votes.entry(j.cast_signed() - i.cast_signed()).or_default() += weight(text);
        }
    }
    // A line inserted or left out moves the rest by one: neighbouring offsets are the same place.
    let score = |offset: isize| {
        (offset - 3..=offset + 3).filter_map(|near| votes.get(&near)).sum::<usize>()
    };
    let mut most: Vec<_> = votes.iter().map(|(offset, own)| (*own, -*offset)).collect();
    if most.len() > MOST_OFFSETS {
        most.select_nth_unstable_by(MOST_OFFSETS, |a, b| b.cmp(a));
        most.truncate(MOST_OFFSETS);
    }
    let mut best: Vec<_> =
        most.into_iter().map(|(own, offset)| (score(-offset), own, offset)).collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    let longest = (0..search.len()).max_by_key(|i| core(search[*i].text).len())?;
    let first = search.iter().position(|line| !is_blank(line.text))?;
    let by_lines = best.iter().take(5).map(|(_, _, offset)| -*offset);
    let by_letters = by_letters(search, file, [first, longest]);
    let candidates: Vec<isize> =
        by_lines.chain(by_words(search, file)).chain(by_letters.into_iter().flatten()).collect();
    let wanted: Vec<Pairs> =
        search.iter().take(MOST_WEIGHED).map(|line| Pairs::of(line.text)).collect();
    let offset =
        candidates.into_iter().rev().max_by_key(|offset| likeness_at(&wanted, file, *offset))?;
    let start = usize::try_from(offset).unwrap_or(0).min(file.len() - 1);
    let end = usize::try_from(offset.saturating_add_unsigned(search.len()))
        .unwrap_or(0)
        .clamp(start + 1, file.len());
    Some(start..end)
}

/// The offset of the stretch whose lines share most words with the search.
fn by_words(search: &[Line], file: &[Line]) -> Option<isize> {
    let words: HashSet<&str> =
        search.iter().take(MOST_COMPARED).flat_map(|line| words(line.text)).collect();
    // By its first byte and its length most words are known to be others.
    let form = |word: &str| (usize::from(word.as_bytes()[0]), 1_u64 << (word.len() % 64));
    let mut forms = [0; 256];
    for (first, length) in words.iter().map(|word| form(word)) {
        forms[first] |= length;
    }
    let is_shared = |word: &str| {
        let (first, length) = form(word);
        forms[first] & length != 0 && words.contains(word)
    };
    let scores: Vec<usize> = file
        .iter()
        .take(MOST_SCORED)
        .map(|line| {
            let (mut shared, mut all) = (0, 1);
            for word in self::words(line.text) {
                all += word.len();
                shared += if is_shared(word) { word.len() } else { 0 };
            }
            10 * shared * shared / all
        })
        .collect();
    let size = search.len().min(scores.len());
    let mut sum: usize = scores[..size].iter().sum();
    let mut best = (sum, 0);
    for start in 1..=scores.len() - size {
        sum = sum + scores[start + size - 1] - scores[start - 1];
        best = if sum > best.0 { (sum, start) } else { best };
    }
    (best.0 > 0).then_some(best.1.cast_signed())
}

/// The offsets of the lines whose pairs of letters are most like those of these lines of the search: a word misspelled.
fn by_letters(search: &[Line], file: &[Line], at: [usize; 2]) -> [Option<isize>; 2] {
    let wanted = at.map(|at| Pairs::of(search[at].text));
    let mut best = [(29, None); 2];
    for (line, text) in file.iter().take(MOST_SCORED).enumerate() {
        // So like a line with fewer pairs can be at most.
        let most = |i: usize, pairs: usize| 100 * pairs / (wanted[i].count as usize).max(1);
        if (0..2).all(|i| most(i, text.text.len()) <= best[i].0) {
            continue;
        }
        let there = Pairs::of(text.text);
        for i in 0..2 {
            if most(i, there.count as usize) > best[i].0 {
                let score = wanted[i].likeness(&there);
                if score > best[i].0 {
                    best[i] = (score, Some(line));
                }
            }
        }
    }
    [0, 1].map(|i| Some(best[i].1?.cast_signed() - at[i].cast_signed()))
}

/// How like the lines from an offset on are those of the search, each weighed by its length; a line may be one off.
fn likeness_at(wanted: &[Pairs], file: &[Line], offset: isize) -> usize {
    let facing = |i: usize| {
        let near = (-1..=1).filter_map(move |off: isize| {
            usize::try_from(offset + off).ok()?.checked_add(i).and_then(|line| file.get(line))
        });
        near.map(|line| Pairs::of(line.text))
    };
    let like = |(i, wanted): (usize, &Pairs)| {
        let most = facing(i).map(|there| wanted.likeness(&there)).max().unwrap_or(0);
        most * usize::try_from(wanted.count.clamp(1, 40)).unwrap_or(1)
    };
    wanted.iter().enumerate().map(like).sum()
}

/// The pairs of letters of a line, as if all were small, each as one bit of many.
struct Pairs {
    bits: [u64; 8],
    count: u32,
}

impl Pairs {
    fn of(line: &str) -> Self {
        let text = core(line).as_bytes();
        let text = &text[..text.len().min(QUOTE)];
        let mut pairs = Self { bits: [0; 8], count: 0 };
        for pair in text.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|byte| usize::from(byte.to_ascii_lowercase()));
            pairs.add((a.wrapping_mul(31) ^ b.wrapping_mul(193)) % 512);
        }
        // A line of one character is like itself.
        if let [byte] = text {
            pairs.add(usize::from(*byte) % 8 * 64 + usize::from(*byte) % 64);
        }
        pairs
    }

    fn add(&mut self, bit: usize) {
        let (word, bit) = (&mut self.bits[bit / 64], 1 << (bit % 64));
        self.count += u32::from(*word & bit == 0);
        *word |= bit;
    }

    /// In percent.
    fn likeness(&self, other: &Self) -> usize {
        let shared: u32 =
            self.bits.iter().zip(&other.bits).map(|(a, b)| (a & b).count_ones()).sum();
        (100 * shared / (self.count + other.count - shared).max(1)) as usize
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    let cut = line.char_indices().nth(QUOTE).map_or(line.len(), |(at, _)| at);
    line[..cut].split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Where a search and the nearest stretch of the file part: what to say, and the lines to quote.
pub(super) fn parting(
    search: &[Line],
    file: &[Line],
    window: &Range<usize>,
) -> (String, Range<usize>) {
    let first = search.iter().find(|line| !is_blank(line.text)).map_or("", |line| line.text);
    // Where the first lines agree, nothing before them is of interest.
    let aligned = core(first) == core(file[window.start].text);
    let start = if aligned { window.start } else { window.start.saturating_sub(3) };
    let (mut asked_at, mut asked) = texts(search);
    let (mut there_at, mut there) = texts(&file[start..(window.end + 3).min(file.len())]);
    let all = asked.len();
    let alike = asked.iter().zip(&there).take_while(|(a, b)| a == b).count();
    let skipped = alike.saturating_sub(1);
    for (at, texts) in [(&mut asked_at, &mut asked), (&mut there_at, &mut there)] {
        at.drain(..skipped);
        texts.drain(..skipped);
        texts.truncate(MOST_COMPARED);
    }
    let ops = capture_diff_slices(Algorithm::Myers, &asked, &there);
    let equal = |op: &DiffOp| if let DiffOp::Equal { len, .. } = op { *len } else { 0 };
    let agree = skipped + ops.iter().map(equal).sum::<usize>();
    let parting = ops.iter().enumerate().find(|(i, op)| match op {
        DiffOp::Equal { .. } => false,
        // Lines around the stretch are not left out by the search.
        DiffOp::Insert { .. } => *i > 0 && *i + 1 < ops.len(),
        _ => true,
    });
    let Some((index, op)) = parting.filter(|_| agree > 0) else {
        let (lines, there, asked) = (span(window), inline(file[window.start].text), inline(first));
        let what = format!("the nearest is {lines}, `{there}` where the search has `{asked}`");
        return (what, window.clone());
    };
    let (old, new) = (op.old_range(), op.new_range());
    let line = |index: usize| there_at.get(index).map_or(start, |i| start + i);
    // At the head of the stretch, the lines that face the search are the last ones.
    let facing =
        if index == 0 { new.end.saturating_sub(old.len()).max(new.start) } else { new.start };
    let at = match op {
        DiffOp::Delete { .. } => line(new.start.saturating_sub(1)),
        _ => line(facing),
    };
    let there = inline(file[at].text.trim());
    let number = asked_at.get(old.start).map_or(0, |i| i + 1);
    let asked = inline(asked.get(old.start).unwrap_or(&""));
    let what = match op {
        DiffOp::Insert { .. } => {
            format!("the search leaves out line {} of the file, `{there}`", at + 1)
        }
        DiffOp::Replace { .. } => format!(
            "line {number} of the search, `{asked}`, is `{there}` at line {} of the file",
            at + 1
        ),
        _ => {
            let side = if new.start == 0 { "before" } else { "after" };
            format!(
                "line {number} of the search, `{asked}`, is not in the file {side} line {}",
                at + 1
            )
        }
    };
    let last = ops.iter().rfind(|op| equal(op) > 0).map_or(at, |op| line(op.new_range().end - 1));
    let window = window.start..window.end.max(last + 1);
    let from = if window.len() <= MOST_QUOTES {
        window.start
    } else {
        at.saturating_sub(4).max(window.start)
    };
    (
        format!("{agree} of {all} lines agree with {}, but {what}", span(&window)),
        from.min(at)..window.end.max(at + 1),
    )
}

/// The lines that hold text, without blanks around, and their places.
fn texts<'a>(lines: &[Line<'a>]) -> (Vec<usize>, Vec<&'a str>) {
    let texts = lines.iter().map(|line| core(line.text)).enumerate();
    texts.filter(|(_, text)| !text.is_empty()).unzip()
}
