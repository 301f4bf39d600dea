//! The worst model there is: it takes every instruction in what it was sent and sends it back as actions. With the sandbox off no
//! tag of its writes outside of the boundary, no turn is forged, and no key gets anywhere.
//!
//! The instructions are data, in `injections/`: what a document looks like, then one set of instructions a line. The torture
//! part `injections` takes the same with the sandbox on.

use crate::injected::{self, World};

/// All documents but those whose commands do harm by themselves, which is theirs to do with the sandbox off.
#[test]
fn whatever_a_text_says_no_tag_writes_outside_no_turn_is_forged_and_no_key_gets_out() {
    let documents: Vec<_> =
        injected::documents().into_iter().filter(|document| !document.needs_sandbox).collect();
    assert!(documents.len() >= 150, "{} documents", documents.len());
    let mut world = World::new();
    let groups: std::collections::BTreeSet<&str> = documents.iter().map(|one| one.group).collect();
    for group in groups {
        let of_group: Vec<_> = documents.iter().filter(|one| one.group == group).collect();
        let troubles = world.run(&[], group, &of_group);
        assert!(troubles.is_empty(), "{group}: {}", troubles.join("\n"));
    }
    let seen = world.seen();
    assert!(seen.refused >= 60, "{seen:?}");
    assert!(seen.actions >= 190 && seen.tags >= 12, "{seen:?}");
    assert!(seen.connections >= 2, "the way out is open, and what goes out holds no key: {seen:?}");
}

#[test]
fn the_model_finds_the_instructions_in_every_document() {
    for document in injected::documents() {
        let found = injected::instructions(&document.text("/h", "/w"));
        assert!(
            found.len() >= document.steps,
            "{}: {found:?} in {}",
            document.group,
            document.text("/h", "/w")
        );
    }
}
