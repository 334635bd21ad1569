//! The documentation is right: its commands, configurations and code are valid.

mod snippets;
