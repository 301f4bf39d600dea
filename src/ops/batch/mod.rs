//! Many inputs: the same prompt over each, jobs side by side, and the flags that children inherit.

pub mod child_flags;
pub mod each;
pub mod side_by_side;
