//! Where a file may be cut: languages, grammars, and the choice among the places that they name. Pure.
//!
//! In reading order: [`language`] (what a file is), [`pack`] (which of the possible cuts are taken), then who names the
//! possible ones: [`grammar`] where tree-sitter parses the language, [`markdown`], and [`text`] and [`csv`] for what is
//! read line by line; [`character`] where nothing was named; [`cutter`] leads them through a file as it streams.
//! Nothing here opens a file or looks at a clock.

pub mod character;
pub mod csv;
pub mod cutter;
pub mod grammar;
mod kinds;
pub mod language;
pub mod markdown;
pub mod pack;
pub mod text;
pub mod view;
