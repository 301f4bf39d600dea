//! The authors of a file's commits.

use std::collections::HashMap;

use super::commit::{CommitKind, FileCommit};

/// An author of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Person {
    /// Name, as the mailmap has it.
    pub name: String,
    /// Address, as the mailmap has it.
    pub email: String,
    /// Number of commits.
    pub commits: u64,
    /// Time of the first commit: seconds since 1970.
    pub first: i64,
    /// Time of the last commit.
    pub last: i64,
}

/// Lists the authors, most commits first. The oldest commit of a shallow clone does not count: all files look new there.
pub fn list_people(commits: &[FileCommit]) -> Vec<Person> {
    let mut people: HashMap<(&str, &str), Person> = HashMap::new();
    for commit in commits.iter().filter(|commit| commit.kind != CommitKind::Boundary) {
        let person = people.entry((&commit.name, &commit.email)).or_insert_with(|| Person {
            name: commit.name.clone(),
            email: commit.email.clone(),
            commits: 0,
            first: commit.time,
            last: commit.time,
        });
        person.commits += 1;
        person.first = person.first.min(commit.time);
        person.last = person.last.max(commit.time);
    }
    let mut people: Vec<Person> = people.into_values().collect();
    people.sort_by(|a, b| {
        b.commits.cmp(&a.commits).then_with(|| (&a.name, &a.email).cmp(&(&b.name, &b.email)))
    });
    people
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_commit_but_the_boundary_counts_once(
            commits in prop::collection::vec((0..4_u8, 0..2_u8, -9..9_i64, any::<bool>()), 0..30)
        ) {
            let commits: Vec<FileCommit> = commits
                .into_iter()
                .map(|(name, email, time, is_boundary)| FileCommit {
                    name: name.to_string(),
                    email: email.to_string(),
                    time,
                    kind: if is_boundary { CommitKind::Boundary } else { CommitKind::Plain },
                    ..FileCommit::default()
                })
                .collect();
            let people = list_people(&commits);
            let counted: Vec<&FileCommit> =
                commits.iter().filter(|commit| commit.kind == CommitKind::Plain).collect();
            prop_assert_eq!(people.iter().map(|person| person.commits).sum::<u64>(), counted.len() as u64);
            for person in &people {
                let theirs = || counted.iter().filter(|commit| (&commit.name, &commit.email) == (&person.name, &person.email));
                prop_assert_eq!(theirs().count() as u64, person.commits);
                prop_assert_eq!(theirs().map(|commit| commit.time).min(), Some(person.first));
                prop_assert_eq!(theirs().map(|commit| commit.time).max(), Some(person.last));
            }
            for pair in people.windows(2) {
                let key = |person: &Person| (std::cmp::Reverse(person.commits), person.name.clone(), person.email.clone());
                prop_assert!(key(&pair[0]) < key(&pair[1]));
            }
        }
    }
}
