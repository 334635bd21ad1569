//! Text of all kinds: values, numbers, descriptors, tables, and the buffer in
//! front of standard output.

pub(crate) mod descriptor;
pub(crate) mod grid;
mod natural_order;
pub(crate) mod number;
pub(crate) mod output;
pub(crate) mod scaled;
pub(crate) mod value;

pub(crate) use grid::Grid;
pub(crate) use natural_order::natural_order;
pub(crate) use output::{
    Output, output_height, output_width, shown, shown_bytes, shown_path, terminal_height,
    terminal_width, warn,
};
pub(crate) use scaled::{axis_unit, scaled};
pub(crate) use value::{EventJson, Json, json_time, push_hex, push_plain};
