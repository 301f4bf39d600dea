//! Where a file may be cut: languages, grammars, and the choice among the places that they name. Pure.
//!
//! In reading order: [`language`] (what a file is), [`pack`] (which of the possible cuts are taken), then who names the
//! possible ones: [`grammar`] where tree-sitter parses the language, and [`text`] for what is read line by line.
//! [`outline`] tells what a file defines. Nothing here opens a file or looks at a clock.

pub mod grammar;
mod kinds;
pub mod language;
pub mod outline;
pub mod pack;
