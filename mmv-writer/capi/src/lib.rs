//! libpcp_mmv's C interface, for programs that were compiled against it.
//!
//! The script `link`, next to this directory, makes `libpcp_mmv.so.1` of it, with the
//! same symbols under the same versions (`PCP_MMV_1.0` to `PCP_MMV_1.5`). A
//! program runs on it by `LD_LIBRARY_PATH` alone. The functions are those of
//! `mmv_stats_init(3)`, `mmv_stats_registry(3)`, `mmv_lookup_value_desc(3)`,
//! `mmv_inc_value(3)` and their like; files have the same bytes.
//!
//! | what | libpcp_mmv | here |
//! |---|---|---|
//! | adding to a number | load, add, store | atomic: threads lose nothing |
//! | ending an elapsed interval | cell first, then `extra` | `extra` first, once: no reader counts it twice, and ending one that never began adds nothing |
//! | setting a text | cleared, then copied | word by word; its last byte is NUL at every moment; writers wait for each other |
//! | a new file | removed, created, filled in place | filled under a hidden name, disk space allocated, renamed |
//! | a file named without a path, where the user may not write into the system's directory | `EACCES` | in the user's own directory, as for programs in Rust |
//! | a failed start | the old file is gone | the old file stays |
//! | generation | seconds and microseconds | nanoseconds, never that of the file before |
//! | file, names and help of a registry | the caller's pointers, read at the start | copied when added: their memory may be used again at once, and what is written there before the start has no effect |
//! | stop, with the PROCESS flag | removes what has the name | removes its own file |
//! | no memory left while registering | `ENOMEM` | the program aborts |
//!
//! Bad arguments have the same outcome and errno, except for these, which 6.0.3 and 7.2.1
//! have in common (597 cases were run on both):
//!
//! | argument | libpcp_mmv | here |
//! |---|---|---|
//! | a null pointer where one must not be | the program dies | `EFAULT`, or nothing is done |
//! | a map that is stopped twice, or stopped before its registry is freed | the program dies, unless the file is gone | nothing is done, unless a new file has the address |
//! | -1 instance domains | a file that states them | `EINVAL` |
//! | a path of 4096 bytes or more | the file of another name, or `ENOENT` | `ENAMETOOLONG` |
//! | a file that must not be replaced | `EEXIST` | why: `EACCES`, `EPERM` or `EROFS` |
//! | a full disk | the program dies of SIGBUS | `ENOSPC` |
//! | a label whose JSON is longer than 243 bytes by 1 to 5 | cut, so that it is no JSON | `E2BIG` |
//! | label values `-01`, `"\"` and `"\u12"` | written | `EINVAL` |
//! | a label value that adds labels: `[],"b":[]` | written | `EINVAL` |
//! | an object with a key twice, of which the values are objects with different keys | written | `EINVAL`, as for others with a key twice |
//! | arrays and objects nested more than 33 deep | written | `EINVAL` |
//! | a NaN, or a number beyond the type's range | what the processor makes of it | 0, or the nearest |
//! | a text of 2³¹ bytes or more | the lower 32 bits are its length | nothing is done |
//!
//! 6.0.3 also refuses keys of a label's objects that are not label names; 7.2.1 and this
//! library write them.
//!
//! As there: names, items, serials and clusters are checked only as in `check`; strings of labels
//! need not be UTF-8 (the agent leaves such labels out); files have lowest versions; a text of 255
//! bytes or more is ignored. A forked child shares its parent's file, where `mmv-writer` would let
//! it count for itself: a program that starts a file and then becomes a daemon continues to count.
//! The file still names the parent as its process.
//!
//! # Panics
//!
//! None reaches C. Functions that register or publish catch it and set `errno`
//! to `ENOTRECOVERABLE`. Functions that update values hold nothing that could:
//! no index, no arithmetic but wrapping, no allocation.
//!
//! # Safety
//!
//! All functions require this of the caller. The SAFETY comments call it *the caller's
//! promise*:
//!
//! * a `map` is null or what `mmv_stats_start`, `mmv_stats_init` or
//!   `mmv_stats2_init` gave, and not stopped yet (`mmv_stats_stop` alone takes
//!   any address);
//! * a `value` is null or what `mmv_lookup_value_desc` or
//!   `mmv_stats_interval_start` gave for that map;
//! * a `registry` is null or what `mmv_stats_registry` gave, not freed, and used
//!   by one thread at a time;
//! * a text is null or ends in a NUL; an array has as many elements as its count,
//!   or its count is 0;
//! * only these functions, and the program through its values, write to the file.
//!
//! The metadata in a map, from its header to its strings, never changes once it
//! is published, so it is read with plain loads. Cells are read and written with
//! atomic ones of eight bytes, as everywhere in this workspace.
//!
//! # Read the modules in this order
//!
//! [`abi`] (the C types) -> `content` (what was registered) -> `check` ->
//! `label` -> `encode` (its bytes) -> `files` (published ones) -> `registry` and
//! `arrays` (the functions that make them) -> `metadata` (a published file, read
//! in place) -> `lookup` -> `value` -> `update` and `by_name` (the functions that
//! count).

#![expect(unsafe_code, reason = "a C interface; see the section on safety")]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[forbid(unsafe_code)]
pub mod abi;
pub mod arrays;
pub mod by_name;
#[forbid(unsafe_code)]
mod check;
mod content;
#[forbid(unsafe_code)]
mod encode;
#[forbid(unsafe_code)]
mod errno;
#[forbid(unsafe_code)]
mod files;
#[forbid(unsafe_code)]
mod label;
pub mod lookup;
mod metadata;
pub mod registry;
pub mod update;
mod value;
