//! Many inputs: the same prompt over each, side by side, and the flags that children inherit.

pub mod child_flags;
pub mod each;
