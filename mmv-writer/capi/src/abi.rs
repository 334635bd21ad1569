//! The types of `mmv_stats.h`, as C has them.
//!
//! Enumerations of C are plain integers here: C may pass any number.

use std::ffi::{c_char, c_void};

/// Size of a name inside a struct (`MMV_NAMEMAX`), with its NUL.
pub const NAMEMAX: usize = 64;

/// The address of a whole file, mapped (`void *`); null if there is none.
pub type Map = *mut c_void;

/// A value's eight bytes (`pmAtomValue`).
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub struct AtomValue([u8; 8]);

/// Dimension and scale (`pmUnits`): bit fields of one word. A struct, since some
/// machines pass structs otherwise than integers.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Units {
    /// The word as in a file.
    pub word: u32,
}

/// An instance with its name inside (`mmv_instances_t`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Instance {
    /// The number within the domain.
    pub internal: i32,
    /// The name, up to the first NUL.
    pub external: [c_char; NAMEMAX],
}

/// An instance with a pointer to its name (`mmv_instances2_t`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Instance2 {
    /// The number within the domain.
    pub internal: i32,
    /// Pointer to the name.
    pub external: *const c_char,
}

/// An instance domain (`mmv_indom_t` with [`Instance`], `mmv_indom2_t` with
/// [`Instance2`]).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Indom<I> {
    /// The domain's number within the file.
    pub serial: u32,
    /// Number of instances.
    pub count: u32,
    /// Pointer to the first instance.
    pub instances: *const I,
    /// The one-line help text, or null.
    pub shorttext: *const c_char,
    /// The long help text, or null.
    pub helptext: *const c_char,
}

/// A metric (`mmv_metric_t` with its name inside, `mmv_metric2_t` with a pointer
/// to it).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Metric<N> {
    /// The name or the pointer to it.
    pub name: N,
    /// The item number of its PMID.
    pub item: u32,
    /// One of `MMV_TYPE_*`.
    pub type_code: i32,
    /// One of `MMV_SEM_*`.
    pub semantics: i32,
    /// Dimension and scale of the values.
    pub dimension: Units,
    /// The serial of its domain; 0 or all ones for a singular metric.
    pub indom: u32,
    /// The one-line help text, or null.
    pub shorttext: *const c_char,
    /// The long help text, or null.
    pub helptext: *const c_char,
}

/// A name inside a struct, up to the first NUL.
pub type InlineName = [c_char; NAMEMAX];
/// A pointer to a name, which ends in a NUL.
pub type PointedName = *const c_char;

const _: () = assert!(size_of::<AtomValue>() == 8);
const _: () = assert!(size_of::<Units>() == 4);
const _: () = assert!(size_of::<Instance>() == 68);
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Instance2>() == 16);
    assert!(size_of::<Indom<Instance>>() == 32);
    assert!(size_of::<Metric<InlineName>>() == 104);
    assert!(size_of::<Metric<PointedName>>() == 48);
};
