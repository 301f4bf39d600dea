//! What a scanner writes to: it names possible cuts here, and the packer chooses among them.

use super::character::{self, Unit};
use super::pack::{Boundary, Packer};
use super::view::View;

/// Where a scanner names possible cuts.
pub struct Sink<'a> {
    /// What the scanner reads.
    pub view: View<'a>,
    packer: &'a mut Packer,
    unit: Unit,
    out: &'a mut Vec<(u64, u64)>,
}

impl<'a> Sink<'a> {
    /// Names cuts of `view` to a packer, which adds the segments that it settles to `out`.
    pub(super) fn new(
        view: View<'a>,
        packer: &'a mut Packer,
        unit: Unit,
        out: &'a mut Vec<(u64, u64)>,
    ) -> Self {
        Self { view, packer, unit, out }
    }

    /// A possible cut.
    pub fn boundary(&mut self, at: u64, level: u32) {
        let (view, unit) = (self.view, self.unit);
        let mut forced = |at| character::before(view, unit, at);
        let out = &mut *self.out;
        self.packer.push(Boundary { at, level }, &mut forced, &mut |a, b| out.push((a, b)));
    }

    /// No more cuts come before `end`.
    pub fn reach(&mut self, end: u64) {
        let (view, unit) = (self.view, self.unit);
        let mut forced = |at| character::before(view, unit, at);
        let out = &mut *self.out;
        self.packer.reach(end, &mut forced, &mut |a, b| out.push((a, b)));
    }

    /// Where the segment begins that is being filled.
    pub fn start(&self) -> u64 {
        self.packer.start()
    }
}
