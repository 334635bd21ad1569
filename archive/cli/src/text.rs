//! Text of all kinds: values, numbers, descriptors, tables, and the buffer in
//! front of standard output.

pub(crate) mod descriptor;
mod lists;
mod natural_order;
pub(crate) mod number;
pub(crate) mod output;
pub(crate) mod value;

pub(crate) use lists::{broken, first_of, no_room_for};
pub(crate) use natural_order::natural_order;
pub(crate) use output::{
    CapturedOutput, Output, capture, output_height, output_width, shown, shown_bytes, shown_path,
    terminal_height, terminal_width, warn,
};
pub(crate) use value::{EpochSeconds, EventJson, Json, Rfc3339, push_hex, push_plain};
