//! A command that keeps running next to the run, such as a server: its output goes to a file of bounded size.
//!
//! A thread moves the output from the pipe to the file, so that the command never waits for nagent; output beyond the
//! limit is read and dropped. The command and all processes that it started end when the value is dropped.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::CHUNK;
use super::job::{Finished, GRACE, Job, JobId, JobOutcome, StartError};
use super::running::{END_LIMIT, RunningJob};

/// Changes complete lines before they are stored.
pub type LineFilter = Box<dyn FnMut(&[u8]) -> Vec<u8> + Send>;

/// A command that keeps running.
#[derive(Debug)]
pub struct KeptJob {
    /// `None` once it has ended.
    running: Option<RunningJob>,
    writer: Option<JoinHandle<()>>,
}

impl KeptJob {
    /// Starts a job with merged output, of which at most `limit` bytes go to the file. With a filter they are written
    /// line by line.
    ///
    /// # Errors
    /// The job or the thread could not be started.
    pub fn start(
        job: Job,
        file: File,
        limit: u64,
        filter: Option<LineFilter>,
    ) -> Result<Self, StartError> {
        let mut running = RunningJob::start(job, JobId(0))?;
        let pipe = running.stdout.pipe.take();
        let mut kept = Self { running: Some(running), writer: None };
        let Some(pipe) = pipe else { return Ok(kept) };
        let blocking =
            fcntl_getfl(&pipe).and_then(|flags| fcntl_setfl(&pipe, flags - OFlags::NONBLOCK));
        blocking.map_err(|error| StartError(error.to_string()))?;
        let write = move || write_output(&mut File::from(pipe), &file, limit, filter);
        let writer = thread::Builder::new().spawn(write);
        kept.writer = Some(writer.map_err(|error| StartError(error.to_string()))?);
        Ok(kept)
    }

    /// Starts a job with open stdin and separate output. The caller gets its pipes: stdin, stdout and stderr.
    ///
    /// # Errors
    /// The job could not be started.
    pub fn start_with_pipes(job: Job) -> Result<(Self, [OwnedFd; 3]), StartError> {
        let mut running = RunningJob::start(job, JobId(0))?;
        let stdin = running.stdin.take().map(|feed| feed.pipe);
        let pipes = [stdin, running.stdout.pipe.take(), running.stderr.pipe.take()];
        let [Some(stdin), Some(stdout), Some(stderr)] = pipes else {
            return Err(StartError("its input and output are not pipes".to_owned()));
        };
        Ok((Self { running: Some(running), writer: None }, [stdin, stdout, stderr]))
    }

    /// The process id of the command, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.leader).filter(|id| *id > 0)
    }

    /// Whether no call has noticed its end yet.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Waits up to this time for its end. Only the first call after the end returns the result.
    pub fn ended_within(&mut self, time: Duration) -> Option<Finished> {
        let running = self.running.take_if(|running| running.has_ended_within(time))?;
        let finished = running.finish(&mut [], &mut |_, _| ());
        // A process that cannot be killed may hold the pipe open.
        if let Some(writer) = self.writer.take().filter(|_| finished.all_gone) {
            let _ = writer.join();
        }
        Some(finished)
    }
}

impl Drop for KeptJob {
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        running.terminate(JobOutcome::Stopped, Instant::now());
        if !running.has_ended_within(GRACE) {
            running.kill_job(JobOutcome::Stopped, Instant::now());
            if !running.has_ended_within(END_LIMIT) {
                running.kill_supervisor(JobOutcome::Stopped);
            }
        }
        running.release();
    }
}

/// Moves all output to the file, until no process can write any more.
fn write_output(pipe: &mut File, mut file: &File, limit: u64, mut filter: Option<LineFilter>) {
    let mut left = limit;
    let mut store = |bytes: &[u8]| {
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        left -= room as u64;
        // On a full disk the output is lost, and the command keeps running.
        let _ = file.write_all(&bytes[..room]);
    };
    let mut held = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = pipe.read(&mut chunk).unwrap_or(0);
        held.extend_from_slice(&chunk[..count]);
        // A line that does not end is cut.
        let end = if count == 0 || filter.is_none() || held.len() > CHUNK {
            held.len()
        } else {
            held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        };
        match &mut filter {
            Some(filter) if end > 0 => store(&filter(&held[..end])),
            _ => store(&held[..end]),
        }
        held.drain(..end);
        if count == 0 {
            return;
        }
    }
}
