//! Times, windows of time and time zones of the commands. How people write times is the business of
//! `mmv-arguments`.

mod window;
pub(crate) mod zone;

pub(crate) use mmv_arguments::span::{SpanOptions, Window};
pub(crate) use mmv_arguments::time::{Frame, parse_time, parse_timestamp, to_jiff};
pub(crate) use window::WindowOptions;
pub(crate) use zone::{Zone, ZoneOptions};
