//! One run of a client, timed from just before its start to its end.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::server::{Record, Server};
use crate::usage::{self, Ended};

/// What one run took.
pub(crate) struct Sample {
    /// From exec to the first request read.
    pub(crate) start: f64,
    /// From each reply written to the next request read.
    pub(crate) gaps: Vec<f64>,
    /// From the last reply written to the end.
    pub(crate) exit: f64,
    #[allow(dead_code, reason = "not every program asks for it")]
    pub(crate) wall: f64,
    /// User and system time, of descendants too.
    pub(crate) cpu: f64,
    /// The peak of memory in MB, at the last request.
    pub(crate) peak: Option<f64>,
    /// The memory that it shared with nobody, in MB, at the last request.
    pub(crate) private: Option<f64>,
    pub(crate) first_bytes: usize,
    pub(crate) last_bytes: usize,
    #[allow(dead_code, reason = "not every program asks for it")]
    pub(crate) first_body: Vec<u8>,
}

/// All times in milliseconds.
fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Runs `command` against the server, which has its script; an error says why there are no figures.
pub(crate) fn run(
    server: &Server,
    mut command: Command,
    requests: usize,
) -> Result<Sample, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begin = Instant::now();
    let child =
        command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    server.client_is(child.id());
    // Output is a few bytes, far below what a pipe holds: it is read after the end.
    let Ended { code, cpu, .. } = usage::wait(child.id())?;
    let end = Instant::now();
    let Record { marks, first, peak, private, too_many } = server.record();
    if code != 0 || too_many || marks.len() != requests {
        let mut said = String::new();
        if let Some(mut pipe) = child.stderr {
            let _ = std::io::Read::read_to_string(&mut pipe, &mut said);
        }
        let said = said.lines().next().unwrap_or_default();
        return Err(format!(
            "exit {code}, {} requests where {requests} are due: {said}",
            marks.len()
        ));
    }
    let (Some(head), Some(tail)) = (marks.first(), marks.last()) else {
        return Err("no request came".into());
    };
    Ok(Sample {
        start: ms(head.read - begin),
        gaps: marks
            .windows(2)
            .map(|pair| ms(pair[1].read.saturating_duration_since(pair[0].written)))
            .collect(),
        exit: ms(end.saturating_duration_since(tail.written)),
        wall: ms(end - begin),
        cpu: ms(cpu),
        peak: peak.map(|kib| kib as f64 / 1024.0),
        private: private.map(|kib| kib as f64 / 1024.0),
        first_bytes: head.bytes,
        last_bytes: tail.bytes,
        first_body: first,
    })
}
