//! The authors of a file's commits.

use std::collections::{BTreeMap, HashMap};

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

/// Lists the authors of these commits, most commits first, then by name and address. Authors of the same address, or of the
/// same name, are one person: people change their address more often than two of one name work on a file. Name and address
/// are those of most commits. The oldest commit of a shallow clone does not count: all files look new there, whoever wrote
/// them.
pub fn list_people(commits: &[FileCommit]) -> Vec<Person> {
    let mut authors: BTreeMap<(&str, &str), Person> = BTreeMap::new();
    for commit in commits.iter().filter(|commit| commit.kind != CommitKind::Boundary) {
        let person = authors.entry((&commit.name, &commit.email)).or_insert_with(|| Person {
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
    let mut rows: Vec<Vec<Person>> = Vec::new();
    let mut row_of: HashMap<String, usize> = HashMap::new();
    for author in authors.into_values() {
        let texts = [("name", &author.name), ("address", &author.email)];
        let keys = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let keys: Vec<String> =
            keys.map(|(what, text)| format!("{what} {}", text.to_lowercase())).collect();
        let known: Vec<usize> = keys.iter().filter_map(|key| row_of.get(key).copied()).collect();
        let row = known.first().copied().unwrap_or(rows.len());
        if row == rows.len() {
            rows.push(Vec::new());
        }
        // By this author two rows become one.
        for other in known.into_iter().filter(|other| *other != row) {
            let moved = std::mem::take(&mut rows[other]);
            rows[row].extend(moved);
            row_of.values_mut().filter(|value| **value == other).for_each(|value| *value = row);
        }
        rows[row].push(author);
        row_of.extend(keys.into_iter().map(|key| (key, row)));
    }
    let join = |mut row: Vec<Person>| {
        sort_people(&mut row);
        row.into_iter().reduce(|person, other| Person {
            commits: person.commits + other.commits,
            first: person.first.min(other.first),
            last: person.last.max(other.last),
            ..person
        })
    };
    let mut people: Vec<Person> = rows.into_iter().filter_map(join).collect();
    sort_people(&mut people);
    people
}

fn sort_people(people: &mut [Person]) {
    people.sort_by(|a, b| {
        b.commits.cmp(&a.commits).then_with(|| (&a.name, &a.email).cmp(&(&b.name, &b.email)))
    });
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
            commit("nate p", "n@phone.example", 1),
            commit("Nate P", "nate@work.example", 8),
            commit("Ann", "ann@example.org", 3),
        ];
        let people = list_people(&commits);
        let rows: Vec<_> = people.iter().map(|p| (p.email.as_str(), p.commits, p.first)).collect();
        assert_eq!(rows, [("nate@work.example", 5, 1), ("ann@example.org", 1, 3)]);
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
            // No two rows share a name or an address.
            for (at, person) in people.iter().enumerate() {
                for other in &people[..at] {
                    prop_assert!(person.name != other.name && person.email != other.email);
                }
            }
            for pair in people.windows(2) {
                let key = |person: &Person| (std::cmp::Reverse(person.commits), person.name.clone(), person.email.clone());
                prop_assert!(key(&pair[0]) < key(&pair[1]));
            }
        }
    }
}
