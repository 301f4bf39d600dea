//! Counts which files change together with a file. A commit weighs less the more files it changes.
//!
//! A commit of `n` files weighs `1 / sqrt(n - 1)`: in a commit of two files the other file is the only companion, in one of
//! 300 it is one of 299. A file's share is the weight of the commits that changed both files, divided by the weight of all
//! commits that changed this one since both existed. Of two commits the one that is [`HALF_LIFE`] years older counts half, so
//! that the share says what changes together today.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::path_text;

/// Commits that change more files than this do not count.
pub const LARGEST_COMMIT: u64 = 1000;

/// At most this many files are listed.
pub const MAX_LISTED: usize = 200;

/// Lowest share, and lowest weight of the common commits, for [`Likelihood::High`] and [`Likelihood::Medium`]: two commits
/// of 300 files prove nothing, whatever their share is.
const HIGH: (f64, f64) = (0.5, 0.5);
const MEDIUM: (f64, f64) = (0.2, 0.25);

/// Below this many common commits the likelihood is low.
const MIN_TOGETHER: u64 = 2;

/// After this many years a commit counts half.
pub const HALF_LIFE: i32 = 2;

/// The nearest files are at least [`Likelihood::Medium`], so that the table of a file with a long history points somewhere:
/// this many, from this many common commits and this share on.
const NEAREST: (usize, u64, f64) = (3, 3, 0.05);

/// An average year in seconds.
const YEAR: i64 = 31_557_600;

/// The weight of 1. Weights are integers so that the sum does not depend on the order: a history that is read in two parts
/// gives the same figures.
const ONE: f64 = 1e6;

/// A file that changed in the same commits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CoChangedFile {
    /// Its path at `HEAD`.
    pub path: Vec<u8>,
    /// Number of commits that changed both files.
    pub together: u64,
    /// The weight of these commits, divided by that of all commits of the file since both exist: 0 to 1.
    pub share: f64,
    /// The share in a word.
    pub likelihood: Likelihood,
}

/// How likely two files change together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likelihood {
    /// Now and then.
    #[default]
    Low,
    /// Often.
    Medium,
    /// More often than not.
    High,
}

impl Likelihood {
    /// The word that is printed.
    pub fn label(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Weights of commits by the years since 1970 in which they were committed.
pub type Years = BTreeMap<i64, u64>;

/// Counts of common commits, by path. Counts of two parts of a history can be added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CachedCounts", into = "CachedCounts")]
pub struct CoChangeCounts {
    /// All commits that count.
    pub total: Years,
    /// The other files.
    pub files: BTreeMap<Vec<u8>, CoChange>,
}

/// What is counted for one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoChange {
    /// Number of commits that changed both files.
    pub together: u64,
    /// These commits.
    pub years: Years,
    /// The commits that are older than this file, and do not count for it.
    pub before: Years,
    /// Whether the file does not exist at `HEAD`; then it is not listed.
    pub is_gone: bool,
}

impl CoChange {
    /// The weight of the common commits, whatever their age.
    pub fn weight(&self) -> u64 {
        self.years.values().sum()
    }
}

/// Adds the weight of a commit, given by its time in seconds since 1970.
pub fn add_weight(years: &mut Years, time: i64, weight: u64) {
    *years.entry(time.div_euclid(YEAR)).or_default() += weight;
}

fn add_years(sum: &mut Years, more: &Years) {
    for (year, weight) in more {
        *sum.entry(*year).or_default() += weight;
    }
}

/// Returns the weight of a commit that changes this many files, in millionths.
pub fn weight(files: u64) -> u64 {
    if files > LARGEST_COMMIT {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a million")]
    let weight = (ONE / (files.saturating_sub(1).max(1) as f64).sqrt()).round() as u64;
    weight
}

impl CoChangeCounts {
    /// Counts a commit of this time (seconds since 1970) that changes `files` files, `others` without the file itself.
    pub fn add_commit<'a>(
        &mut self,
        time: i64,
        files: u64,
        others: impl IntoIterator<Item = &'a [u8]>,
    ) {
        let weight = weight(files);
        if weight > 0 {
            add_weight(&mut self.total, time, weight);
            for path in others {
                let mut one = CoChange { together: 1, ..CoChange::default() };
                add_weight(&mut one.years, time, weight);
                self.add_file(path, one);
            }
        }
    }

    /// Adds counts of another part of the history.
    pub fn add_file(&mut self, path: &[u8], counts: CoChange) {
        if let Some(sum) = self.files.get_mut(path) {
            sum.together += counts.together;
            add_years(&mut sum.years, &counts.years);
        } else {
            self.files.insert(path.to_owned(), counts);
        }
    }

    /// Adds the weight of all commits of another part of the history.
    pub fn add_total(&mut self, total: &Years) {
        add_years(&mut self.total, total);
    }

    /// Lists the files that exist, highest share first, then by count and path; at most [`MAX_LISTED`].
    pub fn list_files(&self) -> Vec<CoChangedFile> {
        let newest = self.total.keys().next_back().copied().unwrap_or_default();
        let mut listed: Vec<(CoChangedFile, f64)> = Vec::new();
        for (path, counts) in self.files.iter().filter(|(_, counts)| !counts.is_gone) {
            let (mut common, mut all) = (0.0, 0.0);
            for (year, total) in &self.total {
                let of_year = |years: &Years| years.get(year).copied().unwrap_or_default();
                let both = of_year(&counts.years);
                // Common commits count in any case: the file may have had another path before.
                let since = total.saturating_sub(of_year(&counts.before)).max(both);
                let age = (newest - year) as f64 / f64::from(HALF_LIFE);
                let decay = 0.5_f64.powf(age);
                common += both as f64 * decay;
                all += since as f64 * decay;
            }
            let share = if all > 0.0 { (common / all).min(1.0) } else { 0.0 };
            let weight = counts.weight() as f64 / ONE;
            let likelihood = rate_likelihood(counts.together, share, weight);
            let together = counts.together;
            listed
                .push((CoChangedFile { path: path.clone(), together, share, likelihood }, weight));
        }
        listed.sort_by(|(a, _), (b, _)| {
            let by_share = b.share.total_cmp(&a.share);
            by_share.then(b.together.cmp(&a.together)).then_with(|| a.path.cmp(&b.path))
        });
        listed.truncate(MAX_LISTED);
        let (count, min_together, min_share) = NEAREST;
        let is_near = |file: &CoChangedFile| {
            file.together >= min_together && file.share >= min_share - ROUNDING
        };
        let near = listed.iter_mut().filter(|(file, weight)| is_near(file) && *weight >= MEDIUM.1);
        for (file, _) in near.take(count) {
            file.likelihood = file.likelihood.max(Likelihood::Medium);
        }
        listed.into_iter().map(|(file, _)| file).collect()
    }
}

/// Weights are rounded: half is half, whatever the last digit says.
const ROUNDING: f64 = 1e-5;

fn rate_likelihood(together: u64, share: f64, weight: f64) -> Likelihood {
    let (share, weight) = (share + ROUNDING, weight + ROUNDING);
    if together < MIN_TOGETHER || share < MEDIUM.0 || weight < MEDIUM.1 {
        Likelihood::Low
    } else if share < HIGH.0 || weight < HIGH.1 {
        Likelihood::Medium
    } else {
        Likelihood::High
    }
}

/// [`CoChangeCounts`] as JSON, whose keys cannot be bytes.
#[derive(Serialize, Deserialize)]
struct CachedCounts {
    total: Years,
    files: Vec<CachedFile>,
}

#[derive(Serialize, Deserialize)]
struct CachedFile {
    #[serde(with = "path_text")]
    path: Vec<u8>,
    counts: CoChange,
}

impl From<CoChangeCounts> for CachedCounts {
    fn from(counts: CoChangeCounts) -> Self {
        let files = counts.files.into_iter().map(|(path, counts)| CachedFile { path, counts });
        Self { total: counts.total, files: files.collect() }
    }
}

impl From<CachedCounts> for CoChangeCounts {
    fn from(cached: CachedCounts) -> Self {
        let files = cached.files.into_iter().map(|file| (file.path, file.counts));
        Self { total: cached.total, files: files.collect() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Commit<'a> = (u64, Vec<&'a str>);

    fn commit<'a>(files: u64, others: &[&'a str]) -> Commit<'a> {
        (files, others.to_vec())
    }

    fn count(commits: &[Commit<'_>]) -> CoChangeCounts {
        let mut counts = CoChangeCounts::default();
        for (files, others) in commits {
            counts.add_commit(0, *files, others.iter().map(|path| path.as_bytes()));
        }
        counts
    }

    fn shown(commits: &[Commit<'_>]) -> Vec<String> {
        let show = |file: &CoChangedFile| {
            let path = String::from_utf8_lossy(&file.path);
            format!("{path} {} {:.2} {}", file.together, file.share, file.likelihood.label())
        };
        count(commits).list_files().iter().map(show).collect()
    }

    #[test]
    fn the_partner_comes_before_a_reformat_of_everything() {
        let many: Vec<String> = (0..299).map(|n| format!("f{n:03}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let reformat = commit(300, &many);
        let commits =
            [reformat.clone(), commit(2, &["test"]), commit(2, &["test"]), reformat.clone()];
        assert_eq!(shown(&commits)[..2], ["test 2 0.95 high", "f000 2 0.05 low"]);
        // Nothing but reformats is no evidence for anything.
        assert_eq!(shown(&[reformat.clone(), reformat])[0], "f000 2 1.00 low");
    }

    #[test]
    fn likelihoods() {
        let both = || commit(2, &["b"]);
        let alone = || commit(1, &[]);
        assert_eq!(shown(&[both()]), ["b 1 1.00 low"]);
        assert_eq!(shown(&[both(), both()]), ["b 2 1.00 high"]);
        assert_eq!(shown(&[both(), both(), alone(), alone()]), ["b 2 0.50 high"]);
        assert_eq!(shown(&[both(), both(), alone(), alone(), alone()]), ["b 2 0.40 medium"]);
        let mut many = vec![both(), both()];
        many.extend(std::iter::repeat_with(alone).take(9));
        assert_eq!(shown(&many), ["b 2 0.18 low"]);
        assert_eq!(shown(&[commit(1001, &["b"])]), [] as [&str; 0]);
        assert_eq!(shown(&[]), [] as [&str; 0]);
    }

    #[test]
    fn old_commits_weigh_less_and_those_before_the_file_nothing() {
        let mut counts = CoChangeCounts::default();
        let year = |n: i64| n * YEAR;
        for at in 0..30 {
            // Fifteen years alone, then fifteen with the test; with the config only in the first five.
            let others: Vec<&[u8]> = match at {
                0..5 => vec![b"config"],
                15.. => vec![b"test"],
                _ => vec![],
            };
            counts.add_commit(year(at), 2, others);
        }
        let rate = |counts: &CoChangeCounts, path: &[u8]| {
            let files = counts.list_files();
            let file = files.iter().find(|file| file.path == path).unwrap();
            (file.share, file.likelihood)
        };
        let (share, likelihood) = rate(&counts, b"test");
        assert!(share > 0.99 && likelihood == Likelihood::High, "{share}");
        let (share, likelihood) = rate(&counts, b"config");
        assert!(share < 0.01 && likelihood == Likelihood::Low, "{share}");
        // A file of the last year only, whatever the years before it say.
        counts.add_commit(year(30), 2, [b"new".as_slice()]);
        counts.add_commit(year(30), 2, [b"new".as_slice()]);
        assert!(rate(&counts, b"new").0 < 0.9);
        let before = counts.total.iter().filter(|(at, _)| **at < 30);
        counts.files.get_mut(b"new".as_slice()).unwrap().before =
            before.map(|(at, weight)| (*at, *weight)).collect();
        assert!(rate(&counts, b"new").0 > 0.999);
    }

    #[test]
    fn the_three_nearest_files_are_marked() {
        let mut commits: Vec<Commit<'_>> = vec![];
        for name in ["a", "b", "c", "d"] {
            commits.extend(std::iter::repeat_with(|| commit(2, &[name])).take(4));
        }
        commits.extend(std::iter::repeat_with(|| commit(1, &[])).take(40));
        let rates: Vec<String> = shown(&commits);
        assert_eq!(rates[..2], ["a 4 0.07 medium", "b 4 0.07 medium"]);
        assert_eq!(rates[2..], ["c 4 0.07 medium", "d 4 0.07 low"]);
        // Where even the nearest is far away, nothing is marked.
        commits.extend(std::iter::repeat_with(|| commit(1, &[])).take(80));
        assert!(shown(&commits).iter().all(|rate| rate.ends_with("low")));
    }

    proptest! {
        #[test]
        fn shares_are_shares_and_the_order_of_commits_does_not_matter(
            commits in prop::collection::vec((0..1200_u64, prop::collection::btree_set(0..300_u16, 0..260)), 0..12)
        ) {
            let names: Vec<String> = (0..300).map(|n| format!("f{n}")).collect();
            let mut commits: Vec<Commit<'_>> = commits
                .iter()
                .map(|(files, others)| (*files, others.iter().map(|n| names[usize::from(*n)].as_str()).collect()))
                .collect();
            let counts = count(&commits);
            let listed = counts.list_files();
            prop_assert!(listed.len() <= MAX_LISTED);
            for file in &listed {
                let path = str::from_utf8(&file.path).unwrap();
                let with = commits.iter().filter(|(files, others)| *files <= LARGEST_COMMIT && others.contains(&path));
                prop_assert_eq!(with.count() as u64, file.together);
                prop_assert!(file.share > 0.0 && file.share <= 1.0);
                prop_assert!(file.likelihood == Likelihood::Low || file.together >= 2 && file.share > 0.049);
            }
            prop_assert!(listed.windows(2).all(|pair| pair[0].share >= pair[1].share));
            commits.reverse();
            prop_assert_eq!(&count(&commits), &counts);
            let text = serde_json::to_string(&counts).unwrap();
            prop_assert_eq!(serde_json::from_str::<CoChangeCounts>(&text).unwrap(), counts);
        }
    }
}
