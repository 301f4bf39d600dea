//! The record of the changes that runs made, so that they can be undone.

pub mod changes;
