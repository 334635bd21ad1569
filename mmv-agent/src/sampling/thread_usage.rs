//! Waits of a thread for pages of files, or for a processor.

use nix::sys::resource::{Usage, UsageWho, getrusage};

/// The work of the system for the calling thread up to a moment.
#[derive(Debug, Default)]
pub(super) struct ThreadUsage(Option<Usage>);

/// Number of pages that may be mapped without being noticed.
const FEW_FAULTS: i64 = 16;

impl ThreadUsage {
    pub(super) fn now() -> Self {
        Self(getrusage(UsageWho::RUSAGE_THREAD).ok())
    }

    /// Returns true if no page of a file made the thread wait since then: it met no fault, or was
    /// preempted and met few. Without a fault it waited for a processor, which the host of a
    /// virtual machine may take without a switch of threads, or for a lock of this process.
    pub(super) fn excludes_files(&self) -> bool {
        let (Some(before), Some(now)) = (&self.0, Self::now().0) else { return false };
        let major_faults = now.major_page_faults() - before.major_page_faults();
        let minor_faults = now.minor_page_faults() - before.minor_page_faults();
        if major_faults == 0 && minor_faults == 0 {
            return true;
        }
        now.involuntary_context_switches() > before.involuntary_context_switches()
            && now.voluntary_context_switches() == before.voluntary_context_switches()
            && major_faults == 0
            && minor_faults < FEW_FAULTS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn waits_without_a_fault_are_not_for_files() {
        let pause = || std::thread::sleep(Duration::from_millis(2));
        pause();
        // A fault of the test itself, such as one of its stack, may occur once.
        let are_excluded = (0..10).any(|_| {
            let usage = ThreadUsage::now();
            pause();
            usage.excludes_files()
        });
        assert!(are_excluded);
    }

    #[test]
    fn many_faults_may_be_of_files() {
        let usage = ThreadUsage::now();
        // Large enough that the allocator maps fresh pages, and that 2 MiB pages still fault often.
        let pages = vec![1u8; 64 << 20];
        assert!(std::hint::black_box(&pages).contains(&1));
        assert!(!usage.excludes_files());
    }
}
