//! A long run with a provider that fails one time in five: nothing lost, nothing left behind, no growth. Needs nothing special.

use crate::figures::Figures;
use crate::{ground, soak};

/// `TURNS=20000` goes on for longer, `SEED=7` has other requests fail.
pub(crate) fn run(figures: &mut Figures) {
    let (turns, seed) = (ground::number("TURNS", 2000), ground::number("SEED", 1));
    println!("  seed {seed}");
    let soaked = soak::soak(turns, seed as u64, true);
    for wrong in &soaked.wrong {
        figures.miss(wrong.clone());
    }
    figures.at_least("requests that failed", soaked.failed, turns / 8);
    figures.exactly("lost, doubled or left behind", soaked.wrong.len(), 0);
    let (early, late) = (soaked.early, soaked.late);
    // The run holds its conversation in memory, and what it sends.
    let grown = late.0.saturating_sub(early.0) / 1024;
    figures.row("MiB of memory more at the end than at a tenth", grown, "at most 64", grown <= 64);
    figures.row(
        "descriptors more at the end",
        late.1.saturating_sub(early.1),
        "at most 2",
        late.1 <= early.1 + 2,
    );
}
