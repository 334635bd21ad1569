//! Work begins here.
