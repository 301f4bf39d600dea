//! A credential that a command prints: a token of a cloud's own program, which lives for an hour or so.

use std::ffi::OsString;
use std::path::PathBuf;

use super::env::Env;
use super::http::RequestError;
use super::interrupt::Interrupts;
use super::process;
use super::process::job::{Job, JobOutcome, Output};
use conversation::limits;
use conversation::model::{ApiError, ErrorKind};

/// The command that prints the credential.
pub struct KeyCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The whole environment, which it may need to sign in.
    pub env: Env,
    /// The folder that it runs in.
    pub folder: PathBuf,
}

impl KeyCommand {
    /// Runs it, and returns what it prints on stdout, without blanks around it.
    pub fn fetch_key(&self, interrupts: &Interrupts) -> Result<String, RequestError> {
        let name = self.words.first().map_or("", String::as_str);
        let failed = |why: String| {
            ApiError::new(
                ErrorKind::NoCredential,
                &format!("\"key_command\" in the config: {name} {why}"),
            )
        };
        let mut argv: Vec<OsString> = self.words.iter().map(OsString::from).collect();
        if let Some(program) = argv.first_mut() {
            *program = self.env.find_program(name).into_os_string();
        }
        let mut job = Job::new(argv, self.folder.clone(), self.env.for_children(&[]));
        job.output = Output::Separate;
        job.timeout = Some(limits::KEY_COMMAND);
        let finished = process::run(job, interrupts)
            .map_err(|error| failed(format!("does not start: {error}")))?;
        let stderr = String::from_utf8_lossy(&finished.stderr).into_owned();
        let why = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let key = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        match finished.outcome {
            JobOutcome::Interrupted(signal) => Err(RequestError::Interrupted(signal)),
            JobOutcome::Ended { code: 0 } if !key.is_empty() => Ok(key),
            JobOutcome::Ended { code: 0 } => Err(failed("printed nothing".to_owned()).into()),
            JobOutcome::Ended { code } => {
                Err(failed(format!("failed with exit code {code}: {why}")).into())
            }
            _ => Err(failed("did not end in time".to_owned()).into()),
        }
    }
}
