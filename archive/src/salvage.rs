//! Reading what is damaged.

mod scanner;

pub(crate) use scanner::{Damage, Piece, Scanner};
