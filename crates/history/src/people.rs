//! The authors of a file's commits.

use std::collections::BTreeMap;

use super::commit::{CommitKind, FileCommit};

/// An author of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Person {
    /// Name, after the mailmap.
    pub name: String,
    /// Address, after the mailmap.
    pub email: String,
    /// Number of commits.
    pub commits: u64,
}

/// Lists the authors of these commits, which are given newest first: most commits first, then by name and address.
/// Authors with the same address are one person, with the latest name. The oldest commit of a shallow clone does not
/// count: all files look new there, whoever wrote them.
pub(crate) fn list_people(commits: &[FileCommit]) -> Vec<Person> {
    let mut people: BTreeMap<String, Person> = BTreeMap::new();
    for commit in commits.iter().filter(|commit| commit.kind != CommitKind::Boundary) {
        let key = if commit.email.is_empty() { &commit.name } else { &commit.email };
        let new = || Person { name: commit.name.clone(), email: commit.email.clone(), commits: 0 };
        people.entry(key.to_lowercase()).or_insert_with(new).commits += 1;
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

    #[test]
    fn one_person_is_one_row() {
        let commit = |name: &str, email: &str, time| FileCommit {
            name: name.into(),
            email: email.into(),
            time,
            ..FileCommit::default()
        };
        let commits = [
            commit("Nate P", "nate@work.example", 9),
            commit("Nate P", "nate@home.example", 5),
            commit("nate", "Nate@home.example", 2),
            commit("Nate P", "nate@work.example", 8),
            commit("Ann", "ann@example.org", 3),
        ];
        let people = list_people(&commits);
        let rows: Vec<_> = people.iter().map(|p| (p.email.as_str(), p.commits)).collect();
        let expect = [("nate@home.example", 2), ("nate@work.example", 2), ("ann@example.org", 1)];
        assert_eq!(rows, expect);
    }

    proptest! {
        #[test]
        fn every_commit_but_the_boundary_counts_once(
            commits in prop::collection::vec((0..9_u8, 10..19_u8, -9..9_i64, any::<bool>()), 0..30)
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
            let counted = commits.iter().filter(|commit| commit.kind == CommitKind::Plain);
            prop_assert_eq!(people.iter().map(|person| person.commits).sum::<u64>(), counted.count() as u64);
            // No two rows share an address.
            for (at, person) in people.iter().enumerate() {
                for other in &people[..at] {
                    prop_assert_ne!(&person.email, &other.email);
                }
            }
            for pair in people.windows(2) {
                let key = |person: &Person| (std::cmp::Reverse(person.commits), person.name.clone(), person.email.clone());
                prop_assert!(key(&pair[0]) < key(&pair[1]));
            }
        }
    }
}
