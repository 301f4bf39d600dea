//! A policy's file: what is read reads back, and no damage allows anything.

use std::path::Path;

use super::input::Input;
use script::policy::{Approval, Layers, Mode, Policy, PolicySubject};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let is_global = input.byte().is_multiple_of(2);
    let text = input.text();
    let Ok(mut policy) = Policy::parse(&text) else { return };
    assert_eq!(Policy::parse(&policy.format()).as_ref(), Ok(&policy));
    let mut layers = Layers::default();
    let layer = if is_global { &mut layers.global } else { &mut layers.own };
    layer.clone_from(&policy);
    let free = layers.decide_path(Mode::Write, Path::new("/a/b"), true);
    let asked = layers.decide_path(Mode::Write, Path::new("/a/b"), false);
    assert!(free != Approval::Deny || asked == Approval::Deny, "{text}");
    layers.decide_host("a.example", 443);
    let by_wildcard = layers.decide_variable("A_KEY", true) == Approval::Allow;
    assert!(!by_wildcard || text.contains("A_KEY") || text.contains("\\u"), "{text}");
    policy.remove(PolicySubject::Env, "A_KEY");
}
