//! Tests of the writer through its public interface, as one program.

mod child;
#[cfg(feature = "derive")]
mod derive;
mod exact;
mod file_size_limit;
mod flat;
mod instance_numbers;
mod killed;
mod same_name;
mod squatted_name;
mod statics;
