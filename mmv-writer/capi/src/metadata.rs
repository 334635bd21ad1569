//! The constant part of a published file, read in place.
//!
//! A map is trusted, as libpcp_mmv trusts it: `encode` wrote it, and by the
//! caller's promise it has not changed since, except for cells, `extra` and texts. The
//! SAFETY comments call this *what `encode` wrote*: every offset in the file leads
//! to a whole entry of its section, every section starts at a multiple of eight,
//! and every name ends in a NUL.

use std::ffi::c_char;
use std::mem::offset_of;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::{ptr, slice};

use mmv_format::layout::{
    Header, InstanceV1, InstanceV2, MetricV1, MetricV2, STRING_BYTES, SectionKind, TocEntry,
    ValueEntry, Version,
};

use crate::abi::{AtomValue, Map};
use crate::content::is_singular;

/// Size of a text in words.
pub(crate) const TEXT_WORDS: usize = STRING_BYTES / size_of::<u64>();

/// A value entry in a map: [`ValueEntry`] with the parts that change as atomics.
#[repr(C)]
pub(crate) struct MappedValue {
    pub(crate) cell: AtomicU64,
    pub(crate) extra: AtomicI64,
    metric: u64,
    instance: u64,
}

const _: () = assert!(size_of::<MappedValue>() == size_of::<ValueEntry>());
const _: () = assert!(offset_of!(MappedValue, cell) == 0);
const _: () = assert!(offset_of!(MappedValue, metric) == offset_of!(ValueEntry, metric));

impl MappedValue {
    /// Returns the entry that a value of C's points to; `None` for null.
    ///
    /// # Safety
    ///
    /// The caller's promise on values.
    #[inline]
    pub(crate) unsafe fn from_raw<'call>(value: *mut AtomValue) -> Option<&'call Self> {
        // SAFETY: null, or the first field of a value entry of a map, which is
        // aligned and stays mapped during the call; others change its first two
        // fields, which are atomics, and no code the others.
        unsafe { value.cast::<Self>().as_ref() }
    }

    /// Returns the pointer by which C knows the entry. It covers the whole entry, since `of` reads
    /// more than the cell that it points to.
    pub(crate) fn as_value(&self) -> *mut AtomValue {
        ptr::from_ref(self).cast_mut().cast()
    }
}

/// A published file, read through its mapping.
#[derive(Clone, Copy)]
pub(crate) struct Metadata {
    base: *const u8,
    is_v1: bool,
}

impl Metadata {
    /// Returns the file at `map`; `None` for null.
    ///
    /// # Safety
    ///
    /// The caller's promise on maps; the result is used during the call only.
    #[inline]
    pub(crate) unsafe fn from_raw(map: Map) -> Option<Self> {
        // SAFETY: null, or the start of a page that begins with a header, whose
        // fields do not change.
        let header = unsafe { map.cast::<Header>().as_ref() }?;
        Some(Self { base: map.cast(), is_v1: header.version == Version::V1.code() })
    }

    /// Returns a field of the file.
    ///
    /// # Safety
    ///
    /// `at` is where a `T` is by what `encode` wrote, and does not change.
    #[inline]
    unsafe fn field<T>(&self, at: usize) -> &T {
        // SAFETY: `encode` wrote a `T` there, inside the file, which stays mapped
        // during the call; fields are aligned as their entries are.
        unsafe { &*self.base.wrapping_add(at).cast() }
    }

    pub(crate) fn values(&self) -> &[MappedValue] {
        // SAFETY: the map starts with a header.
        let header: &Header = unsafe { self.field(0) };
        for index in 0..header.toc_count as usize {
            // SAFETY: this many entries of the table of contents follow the header.
            let entry: &TocEntry = unsafe { self.field(Header::BYTES + index * TocEntry::BYTES) };
            if entry.kind == SectionKind::Values.code() {
                let first = self.base.wrapping_add(entry.offset as usize).cast();
                // SAFETY: by what `encode` wrote; each as in `MappedValue::from_raw`.
                return unsafe { slice::from_raw_parts(first, entry.count as usize) };
            }
        }
        &[]
    }

    #[inline]
    pub(crate) fn type_code(&self, entry: &MappedValue) -> i32 {
        let v1 = offset_of!(MetricV1, type_code);
        let field = if self.is_v1 { v1 } else { offset_of!(MetricV2, type_code) };
        // SAFETY: `metric` leads to a metric entry of the file's version.
        *unsafe { self.field(entry.metric as usize + field) }
    }

    pub(crate) fn is_singular(&self, entry: &MappedValue) -> bool {
        let v1 = offset_of!(MetricV1, indom);
        let field = if self.is_v1 { v1 } else { offset_of!(MetricV2, indom) };
        // SAFETY: as in `type_code`.
        is_singular(*unsafe { self.field(entry.metric as usize + field) })
    }

    pub(crate) fn metric_name(&self, entry: &MappedValue) -> *const c_char {
        let at = entry.metric as usize;
        self.name(at + offset_of!(MetricV1, name), at + offset_of!(MetricV2, name))
    }

    /// Returns the name of a value's instance, if its metric is not singular.
    pub(crate) fn instance_name(&self, entry: &MappedValue) -> *const c_char {
        let at = entry.instance as usize;
        self.name(at + offset_of!(InstanceV1, name), at + offset_of!(InstanceV2, name))
    }

    /// Returns a name, which version 1 has in the entry at `inside`; in other versions its offset
    /// is at `pointed`.
    fn name(&self, inside: usize, pointed: usize) -> *const c_char {
        let at = if self.is_v1 {
            inside
        } else {
            // SAFETY: both callers give the place of an offset of a string.
            *unsafe { self.field::<u64>(pointed) } as usize
        };
        self.base.wrapping_add(at).cast()
    }

    pub(crate) fn is_same_metric(one: &MappedValue, other: &MappedValue) -> bool {
        one.metric == other.metric
    }

    pub(crate) fn text(&self, extra: i64) -> &[AtomicU64; TEXT_WORDS] {
        // SAFETY: `extra` of such a value leads to a string entry, and never
        // changes; the string is only accessed as atomic words.
        unsafe { self.field(extra as usize) }
    }
}
