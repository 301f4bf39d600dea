//! Where a file may be cut: languages, grammars, and the choice among the places that they name. Pure.
//! [`cutter`] leads the others through a file as it streams.

pub mod character;
pub mod csv;
pub mod cutter;
pub mod grammar;
mod kinds;
pub mod language;
pub mod markdown;
pub mod outline;
pub mod pack;
pub mod text;
pub mod view;
