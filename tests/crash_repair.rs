//! A writer that died at any moment: pmlogcheck finds nothing in the repaired
//! archive.
//!
//! `archive/tests/crash.rs` tests other properties at many more moments.

use pcp_archive::Version;
use pcp_archive::repair::repair;

use crate::compliance;
use crate::harness::oracle::Oracle;

#[path = "../archive/tests/shared/workload.rs"]
mod workload;

#[test]
fn pmlogcheck_is_silent_after_a_repair() {
    let Some(oracle) = Oracle::find() else { return };
    for version in [Version::V3, Version::V2] {
        let workload = workload::Workload::new(version);
        compliance::assert_without_finding(&oracle, &workload.base);
        // After every write, and at three places within it.
        for state in workload.states(|len| [1, len / 2, len - 1]) {
            if state.records == 0 {
                continue;
            }
            println!("{} records, and half a write to {:?}", state.records, state.torn);
            let directory = test_archives::scratch();
            let base = directory.path().join("a");
            workload.restore(&state, &base);
            let mended = directory.path().join("mended");
            repair(&base, &mended).unwrap();
            compliance::assert_without_finding(&oracle, &mended);
        }
    }
}
