//! Files made of arrays that state everything at once (`mmv_stats_init(3)`).
//!
//! Both functions: [safety](crate#safety). Errors: `EFAULT` for a null pointer to
//! something, `EINVAL` for a negative count, the errors of `check` and of
//! the system.

use std::ffi::{c_char, c_int};
use std::{ptr, slice};

use mmv_format::layout::Version;
use nix::errno::Errno;

use crate::abi::{Indom, InlineName, Instance, Instance2, Map, Metric, PointedName};
use crate::check::{check, check_inline};
use crate::content::{self, Content, inline_name, text};
use crate::encode::Identity;
use crate::errno::report;
use crate::files;

/// Publishes a file with names of at most 63 bytes; null with errno if that
/// fails.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_init(
    file: *const c_char,
    cluster: c_int,
    flags: u32,
    metrics: *const Metric<InlineName>,
    metric_count: c_int,
    indoms: *const Indom<Instance>,
    indom_count: c_int,
) -> Map {
    let arrays = Arrays { metrics, metric_count, indoms, indom_count };
    // SAFETY: the caller's promise.
    unsafe { start(file, cluster, flags, &arrays, check_inline) }
}

/// Publishes a file with names of at most 255 bytes; null with errno if that
/// fails.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats2_init(
    file: *const c_char,
    cluster: c_int,
    flags: u32,
    metrics: *const Metric<PointedName>,
    metric_count: c_int,
    indoms: *const Indom<Instance2>,
    indom_count: c_int,
) -> Map {
    let arrays = Arrays { metrics, metric_count, indoms, indom_count };
    // SAFETY: the caller's promise.
    unsafe { start(file, cluster, flags, &arrays, check) }
}

/// Unmaps a file, and removes it if it has the PROCESS flag. Does nothing with an
/// address that is not that of a file.
///
/// # Safety
///
/// See [the crate](crate#safety); any address will do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_stop(file: *const c_char, map: Map) {
    report((), || {
        // SAFETY: the caller's promise.
        files::stop_at(unsafe { text(file) }, map);
        Ok(())
    });
}

/// The arguments of the caller: pointers and counts.
struct Arrays<N, I> {
    metrics: *const Metric<N>,
    metric_count: c_int,
    indoms: *const Indom<I>,
    indom_count: c_int,
}

/// # Safety
///
/// The caller's promise.
unsafe fn start<N: Name, I: Member>(
    file: *const c_char,
    cluster: c_int,
    flags: u32,
    arrays: &Arrays<N, I>,
    check: fn(&Content) -> Result<Version, Errno>,
) -> Map {
    report(ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let mut content = unsafe { arrays.copy() }?;
        let version = check(&content)?;
        // SAFETY: the caller's promise.
        let file = unsafe { text(file) }.ok_or(Errno::EFAULT)?;
        Ok(files::start(file, &mut content, Identity { version, cluster, flags })?.map)
    })
}

impl<N: Name, I: Member> Arrays<N, I> {
    /// # Safety
    ///
    /// The caller's promise.
    unsafe fn copy(&self) -> Result<Content, Errno> {
        let count = |count: c_int| usize::try_from(count).map_err(|_| Errno::EINVAL);
        let mut content = Content::default();
        // SAFETY: the caller's promise.
        for indom in unsafe { elements(self.indoms, count(self.indom_count)?) }? {
            // SAFETY: the caller's promise.
            content.indoms.push(unsafe { copy_indom(indom) }?);
        }
        // SAFETY: the caller's promise.
        for metric in unsafe { elements(self.metrics, count(self.metric_count)?) }? {
            // SAFETY: the caller's promise.
            content.metrics.push(unsafe { copy_metric(metric) }?);
        }
        Ok(content)
    }
}

/// # Safety
///
/// The caller's promise.
unsafe fn copy_indom<I: Member>(indom: &Indom<I>) -> Result<content::IndomContent, Errno> {
    let mut instances = Vec::new();
    // SAFETY: the caller's promise.
    for member in unsafe { elements(indom.instances, indom.count as usize) }? {
        // SAFETY: the caller's promise.
        instances.push((member.id(), unsafe { member.name() }?));
    }
    // SAFETY: the caller's promise.
    let help = unsafe { content::help(indom.shorttext, indom.helptext) };
    Ok(content::IndomContent { serial: indom.serial, help, instances })
}

/// # Safety
///
/// The caller's promise.
unsafe fn copy_metric<N: Name>(metric: &Metric<N>) -> Result<content::MetricContent, Errno> {
    // SAFETY: the caller's promise.
    let name = unsafe { metric.name.copy() }?;
    // SAFETY: the caller's promise.
    let help = unsafe { content::help(metric.shorttext, metric.helptext) };
    Ok(content::MetricContent {
        name,
        item: metric.item,
        type_code: metric.type_code,
        semantics: metric.semantics,
        units: metric.dimension.word,
        indom: metric.indom,
        help,
    })
}

/// Returns the elements of an array of the caller's.
///
/// # Safety
///
/// The caller's promise on arrays; the result is used during the call only.
unsafe fn elements<'call, T>(first: *const T, count: usize) -> Result<&'call [T], Errno> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: not null; the array has that many elements by the caller's promise,
    // of types for which every C value is one of Rust's, and no code changes it
    // during the call.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// A metric's name, inside the struct or behind a pointer.
trait Name {
    /// # Safety
    ///
    /// The caller's promise on texts.
    unsafe fn copy(&self) -> Result<Vec<u8>, Errno>;
}

impl Name for InlineName {
    unsafe fn copy(&self) -> Result<Vec<u8>, Errno> {
        Ok(inline_name(self))
    }
}

impl Name for PointedName {
    unsafe fn copy(&self) -> Result<Vec<u8>, Errno> {
        // SAFETY: the caller's promise.
        unsafe { content::name(*self) }
    }
}

/// An instance with its name inside or behind a pointer.
trait Member {
    fn id(&self) -> i32;

    /// # Safety
    ///
    /// The caller's promise on texts.
    unsafe fn name(&self) -> Result<Vec<u8>, Errno>;
}

impl Member for Instance {
    fn id(&self) -> i32 {
        self.internal
    }

    unsafe fn name(&self) -> Result<Vec<u8>, Errno> {
        Ok(inline_name(&self.external))
    }
}

impl Member for Instance2 {
    fn id(&self) -> i32 {
        self.internal
    }

    unsafe fn name(&self) -> Result<Vec<u8>, Errno> {
        // SAFETY: the caller's promise.
        unsafe { content::name(self.external) }
    }
}
