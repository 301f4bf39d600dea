//! What a program printed that stands in for a model, and recordings of exchanges.

use super::input::Input;
use models::command::{Preset, parse};
use models::replay::Recording;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let preset = input.one_of(&[Preset::ClaudeCode, Preset::Cursor, Preset::Command]);
    let exit = input.one_of(&[Some(0), Some(1), None]);
    if input.byte().is_multiple_of(2) {
        let stdout = input.field();
        match parse(preset, exit, stdout, input.rest) {
            Ok(_) => assert_eq!(exit, Some(0)),
            Err(error) => {
                assert!(error.message.chars().count() <= 2_000 && !error.message.is_empty());
                assert!(!error.message.contains(char::is_control), "{:?}", error.message);
            }
        }
        return;
    }
    let text = input.text();
    if let Err((line, why)) = Recording::parse(&text) {
        assert!((1..=text.lines().count()).contains(&line) && !why.is_empty());
    }
}
