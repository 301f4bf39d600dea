//! A policy's file: what is read reads back, and no damage allows anything.

use std::path::Path;

use super::input::Input;
use sandbox::script::policy::{AccessRequest, Approval, Layers, Mode, Policy, Subject};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let is_global = input.byte().is_multiple_of(2);
    let text = input.text();
    let Ok(mut policy) = Policy::parse(&text) else { return };
    assert_eq!(Policy::parse(&policy.format()).as_ref(), Ok(&policy));
    let mut layers = Layers::default();
    let layer = if is_global { &mut layers.global } else { &mut layers.own };
    layer.clone_from(&policy);
    let write = AccessRequest::Path(Mode::Write, Path::new("/a/b"));
    let [free, asked] = [true, false].map(|is_free| layers.decide(write, is_free));
    assert!(free != Approval::Deny || asked == Approval::Deny, "{text}");
    layers.decide(AccessRequest::Host("a.example", 443), false);
    let secret = AccessRequest::Variable("A_KEY", true);
    let by_wildcard = layers.decide(secret, false) == Approval::Allow;
    assert!(!by_wildcard || text.contains("A_KEY") || text.contains("\\u"), "{text}");
    policy.remove(&Subject::Env("A_KEY".to_owned()));
}
