//! The interface between the loop and a script in plain language.

use crate::drive::script_host::ScriptHost;
use conversation::context::Section;
use conversation::format::file::Block;
use sys::env::Env;
use sys::interrupt::Interrupts;

/// The parts that a script in plain language provides to its run.
pub(crate) trait ScriptSetup {
    /// The first context.
    fn sections(&self) -> Vec<Section>;
    /// The output of a script before the run.
    fn results(&self) -> Vec<Block>;
    /// Makes the host that runs the model's scripts.
    fn make_host<'a>(
        &'a self,
        env: &'a Env,
        interrupts: &'a Interrupts,
    ) -> Box<dyn ScriptHost + 'a>;
}
