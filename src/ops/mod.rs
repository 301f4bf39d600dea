//! The work of the commands, in folders by purpose. Functions here take parsed flags and settings and return a
//! [`crate::out::Report`]; [`crate::drive`], [`segments`] and [`sys`] do the work.

pub mod batch;
pub mod conversations;
pub mod files;
pub mod mcp;
pub mod run;
pub mod screen;
pub mod scripts;
pub mod session;
pub mod setup;
pub mod single;
pub mod status;
