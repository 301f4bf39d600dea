//! The edge: the only folder whose code starts processes, connects, reads the clock or the environment,
//! or asks about the terminal. Its errors name the path, the program or the host.
//!
//! Nothing here knows what a tag, a turn or a conversation is. Linux only: descendants are found through
//! procfs, pidfds and the child subreaper.
#![expect(
    clippy::disallowed_methods,
    reason = "this is where the effects live that the lint keeps out of the rest"
)]

pub mod clock;
pub mod http;
pub mod interrupt;
pub mod process;
pub mod terminal;
