//! Bounds what a thread allocates.

/// Memory that any input may take, for buffers of fixed sizes.
const BASE: u64 = 4 << 20;
/// Additional memory per byte of input. The worst is a name of one letter, of
/// which four bytes of file become two strings and a node of a tree.
const PER_BYTE: u64 = 64;

/// Runs a function on an input of this length; it must not take more memory
/// than such an input justifies.
pub fn within(len: usize, work: impl FnOnce()) {
    let peak = allocation_counter::measure(work).bytes_max;
    let bound = BASE + PER_BYTE * len as u64;
    assert!(peak <= bound, "{peak} bytes allocated for {len} of input, bound {bound}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "bytes allocated for 100 of input")]
    fn a_length_that_is_believed_is_noticed() {
        within(100, || drop(std::hint::black_box(vec![0u8; 5 << 20])));
    }

    #[test]
    fn memory_that_was_given_back_does_not_count_twice() {
        within(100, || {
            for _ in 0..10 {
                drop(std::hint::black_box(vec![0u8; 2 << 20]));
            }
        });
    }
}
