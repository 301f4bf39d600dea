//! Runs the model's scripts in `nagent-think`, and owns its stdout.

use anyhow::Result;

/// The result of a script of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptResult {
    /// Its value, or the error.
    pub value: Result<String, String>,
    /// Its output on the console.
    pub console: String,
    /// Its duration in seconds.
    pub seconds: f64,
}

/// Runs the scripts of the model, and has the stdout of the run.
pub trait ScriptHost {
    /// Runs a script.
    ///
    /// # Errors
    /// No script can be run at all.
    fn run_script(&mut self, code: &str) -> Result<ScriptResult>;

    /// Writes text to stdout, byte for byte.
    fn write_stdout(&mut self, text: &str);
}
