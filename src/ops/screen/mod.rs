//! What is seen while a run works: progress, a spinner, what changed.

pub mod change_report;
pub mod progress;
pub mod spinner;
pub mod undo_report;
