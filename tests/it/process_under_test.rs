//! One run of an executable: started, watched, signalled, and what it left behind.
//!
//! The process gets a group of its own, so that a run that hangs can be killed with its children. If its output pipe
//! stays open after its end, it has left a descendant, and that fails the test too.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long a run may take before it counts as hanging.
const CAP: Duration = Duration::from_mins(1);

/// How much longer than on a quiet machine something may take: at least twice as long, and as many times as there are
/// processes for each core. Tests of time limits failed on busy machines, and retries hid those that were wrong.
pub(crate) fn slowness() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let fields: Vec<&str> = text.split([' ', '/']).collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0.0_f64);
    // The average of the last minute, and what runs right now.
    let busy = number(0).max(number(3));
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    2.0_f64.max(1.0 + busy / cores)
}

/// A process that runs.
pub(crate) struct Running {
    child: Child,
    what: String,
    started: Instant,
    stdout: Collector,
    stderr: Collector,
}

/// Bytes of a pipe, read by a thread.
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Collector {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let (end, ended) = channel();
        let into = Arc::clone(&bytes);
        std::thread::spawn(move || {
            let mut chunk = vec![0; 1 << 16];
            while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                into.lock().unwrap().extend_from_slice(&chunk[..count]);
            }
            let _ = end.send(());
        });
        Self { bytes, ended }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

impl Running {
    pub(crate) fn start(mut command: Command, what: String) -> Self {
        let started = Instant::now();
        let mut child = command
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot start {what}: {error}");
            });
        let stdout = Collector::new(child.stdout.take().unwrap());
        let stderr = Collector::new(child.stderr.take().unwrap());
        Self { child, what, started, stdout, stderr }
    }

    pub(crate) fn take_stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process alone, not to its group.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its stdout so far.
    pub(crate) fn stdout_so_far(&self) -> String {
        self.stdout.text()
    }

    /// Its stderr so far.
    pub(crate) fn stderr_so_far(&self) -> String {
        self.stderr.text()
    }

    /// Waits for its end. The time is counted from here for `after`, from the start for `seconds`.
    pub(crate) fn wait(self) -> Run {
        self.wait_up_to(CAP)
    }

    /// Like [`Running::wait`], for a run that takes longer than others.
    pub(crate) fn wait_up_to(mut self, cap: Duration) -> Run {
        let from = Instant::now();
        // Held until the end: a pipe that nobody closes is part of some tests.
        let stdin = self.child.stdin.take();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let took = self.started.elapsed();
            if took > cap && took > cap.mul_f64(slowness()) {
                self.end_group();
                panic!("{} did not end within {cap:?}\n{}", self.what, self.said());
            }
            // Looked at more seldom the longer it takes: each look costs the machine time.
            std::thread::sleep(
                (took / 64).clamp(Duration::from_millis(1), Duration::from_millis(10)),
            );
        };
        let (seconds, after) = (self.started.elapsed().as_secs_f64(), from.elapsed().as_secs_f64());
        let open = |pipe: &Collector| pipe.ended.recv_timeout(Duration::from_secs(10)).is_err();
        if open(&self.stdout) || open(&self.stderr) {
            self.end_group();
            panic!("{} ended, and a descendant still holds its output\n{}", self.what, self.said());
        }
        drop(stdin);
        let code = status.code().unwrap_or_else(|| -status.signal().unwrap_or(0));
        let what = std::mem::take(&mut self.what);
        Run { what, code, stdout: self.stdout.text(), stderr: self.stderr.text(), seconds, after }
    }

    fn said(&self) -> String {
        format!("--- stdout\n{}\n--- stderr\n{}", self.stdout.text(), self.stderr.text())
    }

    fn end_group(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        drop(self.child.wait());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.end_group();
        }
    }
}

/// A run that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    what: String,
    /// The exit code; minus the signal's number when a signal ended it.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// From the start to the end.
    pub(crate) seconds: f64,
    /// From the call of `wait` to the end.
    pub(crate) after: f64,
}

impl Run {
    fn told(&self) -> String {
        let Self { what, code, stdout, stderr, seconds, .. } = self;
        format!(
            "{what} exited {code} after {seconds:.2} s\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        )
    }

    /// The exit code. A panic of the program fails any test.
    #[track_caller]
    pub(crate) fn assert_exit(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code\n{}", self.told());
        assert!(!self.stderr.contains("panicked at"), "a panic\n{}", self.told());
        self
    }

    #[track_caller]
    pub(crate) fn stdout_is(self, text: &str) -> Self {
        assert_eq!(self.stdout, text, "stdout\n{}", self.told());
        self
    }

    #[track_caller]
    pub(crate) fn no_stdout(self) -> Self {
        self.stdout_is("")
    }

    #[track_caller]
    pub(crate) fn no_stderr(self) -> Self {
        assert_eq!(self.stderr, "", "stderr\n{}", self.told());
        self
    }

    /// Asserts that it ended with this answer and printed nothing else.
    #[track_caller]
    pub(crate) fn answers(self, text: &str) -> Self {
        self.assert_exit(0).stdout_is(&format!("{text}\n")).no_stderr()
    }

    /// Asserts that stderr contains each of `words`, in any case.
    #[track_caller]
    pub(crate) fn stderr_has(self, words: &[&str]) -> Self {
        for word in words {
            let found = self.stderr.to_lowercase().contains(&word.to_lowercase());
            assert!(found, "stderr lacks {word:?}\n{}", self.told());
        }
        self
    }

    /// Asserts that stdout contains each of `words`.
    #[track_caller]
    pub(crate) fn stdout_has(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stdout.contains(word), "stdout lacks {word:?}\n{}", self.told());
        }
        self
    }

    /// Asserts that it ended in time: `seconds` on a quiet machine, more on a busy one.
    #[track_caller]
    pub(crate) fn within(self, seconds: f64) -> Self {
        let limit = seconds * slowness();
        let Self { after, .. } = self;
        assert!(after <= limit, "took {after:.2} s, not {limit:.1} s\n{}", self.told());
        self
    }

    /// The one JSON document that stdout is.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        let document: serde_json::Value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
                panic!("stdout is not one JSON document ({error})\n{}", self.told())
            });
        assert!(document.is_object(), "stdout is not a JSON object\n{}", self.told());
        document
    }
}
