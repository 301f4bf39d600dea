//! Finds the places where a file may be cut: languages, grammars, and the choice among the places that they find.
//!
//! Pure: [`cutter`] drives the other modules through a file as it streams. `segments` writes the pieces.
//!
//! ```
//! use code::cutter::cut_text;
//! use code::language::Language;
//! use code::pack::CutRules;
//!
//! let text = b"fn a() {}\n\nfn b() {}\n";
//! let cuts = cut_text(Language::Rust, text, CutRules { target: 15, natural: false });
//! assert_eq!(cuts, [(0, 11), (11, 21)]);
//! ```

pub mod character;
pub mod cutter;
pub mod grammar;
pub mod highlight;
mod kinds;
pub mod language;
pub mod markdown;
pub mod outline;
pub mod pack;
pub mod text;
pub mod view;
