//! Which files change together with a file: each commit weighs less the more files it touches.
//!
//! A commit of `n` files weighs `1 / sqrt(n - 1)`, one file alone and two files 1: in a commit of two the other file is
//! all there is, in one of 300 it is one of 299. A neighbour's share is the weight of the commits that have both by the
//! weight of all that count.

use std::collections::{BTreeSet, HashMap};

use super::{Neighbour, Rate};

/// Files of the largest commit that weighs something.
pub const LARGEST: u64 = 1000;

/// Neighbours that are kept.
pub const KEPT: usize = 200;

/// The least share, and the least weight of the commits together, for high and for medium: two commits of 300 files are
/// no evidence, whatever their share is.
const HIGH: (f64, f64) = (0.5, 0.5);
const MEDIUM: (f64, f64) = (0.2, 0.25);

/// Commits together below which a rate is low.
const TOGETHER: u64 = 2;

/// A commit that touched the file and that counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Together<'a> {
    /// How many files it changed, the file counted.
    pub files: u64,
    /// The others of them by today's paths, those that are left.
    pub others: BTreeSet<&'a [u8]>,
}

/// What a commit of so many files weighs.
pub fn weight(files: u64) -> f64 {
    if files > LARGEST { 0.0 } else { 1.0 / (files.saturating_sub(1).max(1) as f64).sqrt() }
}

/// The neighbours, the nearest first: by share, by count, by path; at most [`KEPT`].
pub fn neighbours(commits: &[Together<'_>]) -> Vec<Neighbour> {
    let mut all = 0.0;
    let mut by_path: HashMap<&[u8], (u64, f64)> = HashMap::new();
    for commit in commits {
        let weight = weight(commit.files);
        if weight > 0.0 {
            all += weight;
            for path in &commit.others {
                let (together, sum) = by_path.entry(path).or_default();
                *together += 1;
                *sum += weight;
            }
        }
    }
    let mut neighbours: Vec<Neighbour> = by_path
        .into_iter()
        .map(|(path, (together, sum))| {
            let share = (sum / all).min(1.0);
            Neighbour { path: path.to_owned(), together, share, rate: rate(together, share, sum) }
        })
        .collect();
    neighbours.sort_by(|a, b| {
        b.share
            .total_cmp(&a.share)
            .then_with(|| b.together.cmp(&a.together))
            .then_with(|| a.path.cmp(&b.path))
    });
    neighbours.truncate(KEPT);
    neighbours
}

fn rate(together: u64, share: f64, weight: f64) -> Rate {
    let reaches = |(least_share, least_weight): (f64, f64)| {
        // Sums of thirds and roots: half is half, whatever the last digit says.
        let a_hair = 1e-9;
        together >= TOGETHER && share + a_hair >= least_share && weight + a_hair >= least_weight
    };
    match () {
        () if reaches(HIGH) => Rate::High,
        () if reaches(MEDIUM) => Rate::Medium,
        () => Rate::Low,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn commit<'a>(files: u64, others: &[&'a str]) -> Together<'a> {
        Together { files, others: others.iter().map(|path| path.as_bytes()).collect() }
    }

    fn shown(commits: &[Together<'_>]) -> Vec<String> {
        neighbours(commits)
            .iter()
            .map(|n| {
                let path = String::from_utf8_lossy(&n.path);
                format!("{path} {} {:.2} {}", n.together, n.share, n.rate.name())
            })
            .collect()
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
    fn rates() {
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

    proptest! {
        #[test]
        fn shares_are_shares_and_counts_are_counts(
            commits in prop::collection::vec((0..1200_u64, prop::collection::btree_set(0..300_u16, 0..260)), 0..12)
        ) {
            let names: Vec<String> = (0..300).map(|n| format!("f{n}")).collect();
            let commits: Vec<Together<'_>> = commits
                .iter()
                .map(|(files, others)| Together {
                    files: *files,
                    others: others.iter().map(|n| names[usize::from(*n)].as_bytes()).collect(),
                })
                .collect();
            let found = neighbours(&commits);
            prop_assert!(found.len() <= KEPT);
            for neighbour in &found {
                let with = commits.iter().filter(|commit| {
                    commit.files <= LARGEST && commit.others.contains(neighbour.path.as_slice())
                });
                prop_assert_eq!(with.count() as u64, neighbour.together);
                prop_assert!(neighbour.share > 0.0 && neighbour.share <= 1.0);
                prop_assert!(neighbour.rate == Rate::Low || neighbour.together >= 2 && neighbour.share > 0.19);
            }
            for pair in found.windows(2) {
                prop_assert!(pair[0].share >= pair[1].share);
                prop_assert!(pair[0] != pair[1]);
            }
            let mut reversed = commits.clone();
            reversed.reverse();
            let order = |found: Vec<Neighbour>| found.into_iter().map(|n| (n.path, n.together)).collect::<BTreeSet<_>>();
            // The order of commits says nothing, but for sums that differ in the last digit.
            if found.len() < KEPT {
                prop_assert_eq!(order(found), order(neighbours(&reversed)));
            }
        }
    }
}
