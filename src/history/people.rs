//! Who changed a file, counted over its commits.

use std::collections::HashMap;

use super::{Person, Sort, Touch};

/// The people of these commits, most commits first, then by name and address. The last commit of a shallow clone is
/// left out: it brings the file, whoever wrote it.
pub fn people(touches: &[Touch]) -> Vec<Person> {
    let mut people: HashMap<(&str, &str), Person> = HashMap::new();
    for touch in touches.iter().filter(|touch| touch.sort != Sort::Boundary) {
        let person = people.entry((&touch.name, &touch.email)).or_insert_with(|| Person {
            name: touch.name.clone(),
            email: touch.email.clone(),
            commits: 0,
            first: touch.time,
            last: touch.time,
        });
        person.commits += 1;
        person.first = person.first.min(touch.time);
        person.last = person.last.max(touch.time);
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
            touches in prop::collection::vec((0..4_u8, 0..2_u8, -9..9_i64, any::<bool>()), 0..30)
        ) {
            let touches: Vec<Touch> = touches
                .into_iter()
                .map(|(name, email, time, is_boundary)| Touch {
                    name: name.to_string(),
                    email: email.to_string(),
                    time,
                    sort: if is_boundary { Sort::Boundary } else { Sort::Plain },
                    ..Touch::default()
                })
                .collect();
            let people = people(&touches);
            let counted: Vec<&Touch> =
                touches.iter().filter(|touch| touch.sort == Sort::Plain).collect();
            prop_assert_eq!(people.iter().map(|person| person.commits).sum::<u64>(), counted.len() as u64);
            for person in &people {
                let theirs = || counted.iter().filter(|touch| (&touch.name, &touch.email) == (&person.name, &person.email));
                prop_assert_eq!(theirs().count() as u64, person.commits);
                prop_assert_eq!(theirs().map(|touch| touch.time).min(), Some(person.first));
                prop_assert_eq!(theirs().map(|touch| touch.time).max(), Some(person.last));
            }
            for pair in people.windows(2) {
                let key = |person: &Person| (std::cmp::Reverse(person.commits), person.name.clone(), person.email.clone());
                prop_assert!(key(&pair[0]) < key(&pair[1]));
            }
        }
    }
}
