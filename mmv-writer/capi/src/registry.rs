//! Files made of a registry that is filled step by step (`mmv_stats_registry(3)`).
//!
//! All functions: [safety](crate#safety).

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use mmv_format::layout::{LabelEntry, Version};
use nix::errno::Errno;

use crate::abi::{Map, Units};
use crate::check::check;
use crate::content::{Content, IndomContent, MetricContent, help, name, text};
use crate::encode::Identity;
use crate::errno::report;
use crate::files::{self, StartedFile};
use crate::label::{self, Subject};

/// The `mmv_registry_t` of C, opaque there.
#[derive(Debug)]
pub struct Registry {
    file: Option<CString>,
    cluster: c_int,
    flags: u32,
    content: Content,
    /// True if there ever was a label: the version stays 3, as with libpcp_mmv.
    labelled: bool,
    /// The file that was started last.
    started: Option<StartedFile>,
}

impl Registry {
    fn start(&mut self) -> Result<Map, Errno> {
        let lowest = check(&self.content)?;
        let version = if self.labelled { Version::V3 } else { lowest };
        let identity = Identity { version, cluster: self.cluster, flags: self.flags };
        let file = self.file.as_ref().ok_or(Errno::EFAULT)?;
        let started = files::start(file, &mut self.content, identity)?;
        self.started = Some(started);
        Ok(started.map)
    }

    fn reset(&mut self) {
        self.content = Content::default();
        if let Some(started) = self.started.take() {
            files::stop(self.file.as_deref(), started);
        }
    }

    fn add_label(&mut self, label: LabelEntry) {
        self.content.labels.push(label);
        self.labelled = true;
    }
}

/// Returns the registry that a pointer leads to.
///
/// # Safety
///
/// The caller's promise on registries.
unsafe fn registry<'call>(registry: *mut Registry) -> Result<&'call mut Registry, Errno> {
    // SAFETY: null, or from `mmv_stats_registry`, hence aligned and valid; no one
    // else uses it during this call.
    unsafe { registry.as_mut() }.ok_or(Errno::EFAULT)
}

/// Makes a registry for a file: a name below the MMV directory, or a path from `/`. Neither is
/// checked before the start.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_registry(
    file: *const c_char,
    cluster: c_int,
    flags: u32,
) -> *mut Registry {
    report(ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let file = unsafe { text(file) }.map(ToOwned::to_owned);
        let content = Content::default();
        Ok(Box::into_raw(Box::new(Registry {
            file,
            cluster,
            flags,
            content,
            labelled: false,
            started: None,
        })))
    })
}

/// Adds a metric; returns 0, or -1 with errno.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_add_metric(
    registry_: *mut Registry,
    name_: *const c_char,
    item: c_int,
    type_code: c_int,
    semantics: c_int,
    units: Units,
    serial: c_int,
    short_help: *const c_char,
    long_help: *const c_char,
) -> c_int {
    report(-1, || {
        // SAFETY: the caller's promise.
        let registry = unsafe { registry(registry_) }?;
        // SAFETY: the caller's promise.
        let name = unsafe { name(name_) }?;
        // SAFETY: the caller's promise.
        let help = unsafe { help(short_help, long_help) };
        registry.content.metrics.push(MetricContent {
            name,
            item: item.cast_unsigned(),
            type_code,
            semantics,
            units: units.word,
            indom: serial.cast_unsigned(),
            help,
        });
        Ok(0)
    })
}

/// Adds an instance domain; returns 0, or -1 with errno.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_add_indom(
    registry_: *mut Registry,
    serial: c_int,
    short_help: *const c_char,
    long_help: *const c_char,
) -> c_int {
    report(-1, || {
        // SAFETY: the caller's promise.
        let registry = unsafe { registry(registry_) }?;
        // SAFETY: the caller's promise.
        let help = unsafe { help(short_help, long_help) };
        let serial = serial.cast_unsigned();
        registry.content.indoms.push(IndomContent { serial, help, instances: Vec::new() });
        Ok(0)
    })
}

/// Adds an instance to the first domain with a serial; returns 0, or -1 with errno: `EINVAL`
/// if there is no such domain.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_add_instance(
    registry_: *mut Registry,
    serial: c_int,
    instance: c_int,
    name_: *const c_char,
) -> c_int {
    report(-1, || {
        // SAFETY: the caller's promise.
        let registry = unsafe { registry(registry_) }?;
        // SAFETY: the caller's promise.
        let name = unsafe { name(name_) }?;
        let serial = serial.cast_unsigned();
        let mut indoms = registry.content.indoms.iter_mut();
        let indom = indoms.find(|indom| indom.serial == serial).ok_or(Errno::EINVAL)?;
        indom.instances.push((instance, name));
        Ok(0)
    })
}

/// A label's name, value, kind and whether it is optional, as C passes them.
#[derive(Debug, Clone, Copy)]
struct LabelArguments {
    name: *const c_char,
    value: *const c_char,
    kind: u32,
    optional: c_int,
}

/// Adds a label to `subject`; returns 0, or -1 with errno.
///
/// # Safety
///
/// The caller's promise.
unsafe fn add_label(
    registry_: *mut Registry,
    subject: impl FnOnce(&Registry) -> Subject,
    given: LabelArguments,
) -> c_int {
    report(-1, || {
        // SAFETY: the caller's promise.
        let registry = unsafe { registry(registry_) }?;
        // SAFETY: the caller's promise.
        let name = unsafe { text(given.name) }.ok_or(Errno::EINVAL)?;
        // SAFETY: the caller's promise.
        let value = unsafe { text(given.value) }.ok_or(Errno::EINVAL)?;
        let subject = subject(registry);
        registry.add_label(label::entry(subject, name, value, given.kind, given.optional)?);
        Ok(0)
    })
}

/// Adds a label to all metrics; returns 0, or -1 with errno.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_add_registry_label(
    registry: *mut Registry,
    name: *const c_char,
    value: *const c_char,
    kind: u32,
    optional: c_int,
) -> c_int {
    let given = LabelArguments { name, value, kind, optional };
    // SAFETY: the caller's promise.
    unsafe {
        add_label(registry, |registry| Subject::File(registry.cluster.cast_unsigned()), given)
    }
}

/// Adds a label to a domain; returns 0, or -1 with errno.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_add_indom_label(
    registry: *mut Registry,
    serial: c_int,
    name: *const c_char,
    value: *const c_char,
    kind: u32,
    optional: c_int,
) -> c_int {
    let given = LabelArguments { name, value, kind, optional };
    // SAFETY: the caller's promise.
    unsafe { add_label(registry, |_| Subject::Indom(serial.cast_unsigned()), given) }
}

/// Adds a label to a metric; returns 0, or -1 with errno.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_add_metric_label(
    registry: *mut Registry,
    item: c_int,
    name: *const c_char,
    value: *const c_char,
    kind: u32,
    optional: c_int,
) -> c_int {
    let given = LabelArguments { name, value, kind, optional };
    // SAFETY: the caller's promise.
    unsafe { add_label(registry, |_| Subject::Metric(item.cast_unsigned()), given) }
}

/// Adds a label to an instance; returns 0, or -1 with errno.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_add_instance_label(
    registry: *mut Registry,
    serial: c_int,
    instance: c_int,
    name: *const c_char,
    value: *const c_char,
    kind: u32,
    optional: c_int,
) -> c_int {
    let given = LabelArguments { name, value, kind, optional };
    // SAFETY: the caller's promise.
    unsafe { add_label(registry, |_| Subject::Instance(serial.cast_unsigned(), instance), given) }
}

/// Publishes the file and returns its address; null with errno if that fails. May be called
/// again after more was added, which makes a new file.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_start(registry_: *mut Registry) -> Map {
    report(ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        unsafe { registry(registry_) }?.start()
    })
}

/// Removes all that was added, and stops the file.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_reset(registry_: *mut Registry) {
    report((), || {
        // SAFETY: the caller's promise.
        unsafe { registry(registry_) }?.reset();
        Ok(())
    });
}

/// Resets the registry as [`mmv_stats_reset`] does, and frees it.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_free(registry_: *mut Registry) {
    report((), || {
        // SAFETY: the caller's promise.
        unsafe { registry(registry_) }?.reset();
        // SAFETY: from `mmv_stats_registry`, where `Box::into_raw` made it; not
        // freed yet, by the caller's promise; the reference above is gone.
        drop(unsafe { Box::from_raw(registry_) });
        Ok(())
    });
}
