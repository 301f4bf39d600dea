//! The same walls by `nagent --sandbox workspace --no-network` itself: around the shell, `--check`, a child's shell.

use crate::figures::Figures;

pub(super) fn run(figures: &mut Figures) {
    let _ = figures;
}
