//! The display while a run works: progress, a spinner, changes.

pub mod change_report;
pub mod progress;
pub mod spinner;
pub mod undo_report;
