//! The room that a program asks for in a file that grows.

/// Limits on the numbers of entries in a growing file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    pub(crate) instances: u32,
    pub(crate) values: u32,
    pub(crate) texts: u32,
    /// Numbers of strings and of instances in the first parts, which precede the values.
    pub(crate) first: (u32, u32),
}

impl Default for Capacity {
    fn default() -> Self {
        Self { instances: 1 << 16, values: 1 << 18, texts: 1 << 16, first: (128, 64) }
    }
}
