//! Waits for descriptors: the one place that calls poll(2) with a time.

use std::time::Instant;

use rustix::event::{PollFd, Timespec, poll};

/// Waits until a descriptor is ready, or `until` has come (`None`: without a limit). A signal ends the wait, too, and then
/// none is ready: the caller checks everything again. Allocates nothing.
pub fn wait(fds: &mut [PollFd<'_>], until: Option<Instant>) {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    if poll(fds, left.as_ref()).is_err() {
        fds.iter_mut().for_each(PollFd::clear_revents);
    }
}
