//! The checks of libpcp_mmv before it makes a file.
//!
//! | found | errno |
//! |---|---|
//! | a domain with serial 0 or all ones | `ESRCH` |
//! | help text of a domain with 256 bytes or more | `E2BIG` |
//! | an empty instance name (registries and `mmv_stats2_init` only) | `EINVAL` |
//! | an instance name with 256 bytes or more (these only) | `E2BIG` |
//! | a type below -1 or above 9, or an empty metric name | `EINVAL` |
//! | a metric name with 256 bytes or more | `E2BIG` |
//! | a metric whose domain is not there | `ESRCH` |
//!
//! Source: `mmv_check` and `mmv_check2` of `src/libpcp_mmv/src/mmv_stats.c`.

use mmv_format::layout::{NAME_BYTES, STRING_BYTES, TYPE_ELAPSED, Version};
use nix::errno::Errno;

use crate::content::{Content, IndomContent, MetricContent, is_singular};

/// Code of `MMV_TYPE_NOSUPPORT`, the lowest type that libpcp_mmv accepts.
const TYPE_NOSUPPORT: i32 = -1;

/// Checks the content, and returns the lowest version that holds the names.
pub(crate) fn check(content: &Content) -> Result<Version, Errno> {
    let mut version = Version::V1;
    for indom in &content.indoms {
        check_domain(indom)?;
        for (_, name) in &indom.instances {
            version = version.max(check_name(name)?);
        }
    }
    for metric in &content.metrics {
        version = version.max(check_metric(content, metric)?);
    }
    Ok(version)
}

/// Checks the content for `mmv_stats_init`, whose names are cut to fit version 1.
pub(crate) fn check_inline(content: &Content) -> Result<Version, Errno> {
    content.indoms.iter().try_for_each(check_domain)?;
    for metric in &content.metrics {
        check_metric(content, metric)?;
    }
    Ok(Version::V1)
}

fn check_domain(indom: &IndomContent) -> Result<(), Errno> {
    if is_singular(indom.serial) {
        return Err(Errno::ESRCH);
    }
    let mut texts = [&indom.help.short, &indom.help.long].into_iter().flatten();
    if texts.any(|text| text.len() >= STRING_BYTES) {
        return Err(Errno::E2BIG);
    }
    Ok(())
}

fn check_metric(content: &Content, metric: &MetricContent) -> Result<Version, Errno> {
    if !(TYPE_NOSUPPORT..=TYPE_ELAPSED).contains(&metric.type_code) {
        return Err(Errno::EINVAL);
    }
    let version = check_name(&metric.name)?;
    if !is_singular(metric.indom) && content.instances_of(metric.indom).is_none() {
        return Err(Errno::ESRCH);
    }
    Ok(version)
}

fn check_name(name: &[u8]) -> Result<Version, Errno> {
    match name.len() {
        0 => Err(Errno::EINVAL),
        bytes if bytes < NAME_BYTES => Ok(Version::V1),
        bytes if bytes < STRING_BYTES => Ok(Version::V2),
        _ => Err(Errno::E2BIG),
    }
}
