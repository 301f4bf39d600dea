//! The two actions of scripts in plain language: JavaScript that runs with what a policy allows, and text for stdout.

use anyhow::Result;

use super::result_block::error;
use super::runner::Runner;
use super::script_host::ScriptResult;
use super::truncate;
use conversation::format::file::Block;

impl Runner<'_> {
    pub(super) fn run_script(&mut self, block: Block, code: &str) -> Result<Block> {
        let Some(scripts) = &mut self.scripts else {
            return Ok(error(block, "<nagent-script> works only in nagent-think"));
        };
        let ScriptResult { value, console, seconds } = scripts.run_script(code)?;
        let (status, mut text) = match value {
            Ok(value) => ("ok", value),
            Err(message) => ("error", message),
        };
        if !console.is_empty() {
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!("{gap}console:\n{}", console.trim_end_matches('\n')));
        }
        let block =
            block.with("status", status).with("seconds", (seconds * 1000.0).round() / 1000.0);
        let redactor = &self.context.redactor;
        let text = redactor.redact_text(text).0;
        truncate::with_text(block, text, &self.context.root.outputs_folder(), redactor.keep)
    }

    pub(super) fn write_stdout(&mut self, block: Block, text: &str) -> Block {
        match &mut self.scripts {
            None => error(block, "<nagent-stdout> works only in nagent-think"),
            Some(scripts) => {
                scripts.write_stdout(text);
                block.with("status", "ok").with("bytes", text.len())
            }
        }
    }
}
