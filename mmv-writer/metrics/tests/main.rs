//! Tests of the recorder through its public interface, as one program.

mod file_size_limit;
mod recorder;
