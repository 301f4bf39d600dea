//! Finds the `bwrap` of the system.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sys::interrupt::Interrupts;
use crate::sys::process;
use crate::sys::process::job::Job;

/// How long finding out whether the sandbox works may take.
pub(super) const PROBE_TIME: Duration = Duration::from_secs(20);

/// Where `bwrap` may be. `PATH` is not searched: it may lead into the working tree.
const BWRAP: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// Returns the path of `bwrap` if the system has one that only the superuser can change, else why there is none.
pub(super) fn find_bwrap() -> Result<PathBuf, String> {
    let is_fine = |path: &&Path| {
        std::fs::metadata(path)
            .is_ok_and(|there| there.is_file() && there.uid() == 0 && there.mode() & 0o022 == 0)
    };
    if let Some(path) = BWRAP.iter().map(Path::new).find(is_fine) {
        return Ok(path.to_owned());
    }
    Err(match BWRAP.iter().find(|path| Path::new(path).is_file()) {
        Some(path) => format!("{path} could be changed by others than the superuser"),
        None => "it is not installed".to_owned(),
    })
}

/// Asks `bwrap` for its version; empty if it does not answer.
pub(super) fn bwrap_version(bwrap: &Path) -> String {
    let mut job = Job::new(vec![bwrap.into(), "--version".into()], PathBuf::from("/"), Vec::new());
    job.timeout = Some(PROBE_TIME);
    let finished =
        Interrupts::without_handlers().ok().and_then(|quiet| process::run(job, &quiet).ok());
    let text = finished.map(|finished| String::from_utf8_lossy(&finished.stdout).trim().to_owned());
    text.map(|text| text.trim_start_matches("bubblewrap ").to_owned()).unwrap_or_default()
}
