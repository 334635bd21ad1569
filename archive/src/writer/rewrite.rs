//! Rules that change an archive while it is copied.
//!
//! In: the text of files of rules, in the language of pmlogrewrite(1). Out: for an archive, the
//! change of each of its metrics, instance domains, help texts and labels, which
//! [`Extract`](crate::extract::Extract) applies.
//!
//! ```text
//! global { hostname -> web2  time -> -3600 }
//! metric acme.products.count { name -> shop.sold  type -> U64 }
//! metric 70.3.* { pmid -> 71.*.* }
//! indom 70.1 { indom -> 71.1  inst 0 -> 10  iname "anvils" -> "Anvils" }
//! text metric shop.sold * { delete }
//! label context "team" { value -> "blue" }
//! ```
//!
//! All rules see the archive as it is, not as other rules leave it: two metrics can exchange their
//! names. A rule for what an archive does not have changes nothing.
//!
//! Differences from pmlogrewrite 7: labels of instances follow their numbers; labels of clusters
//! follow their metrics, and those of a domain stay where metrics stay; new labels are part of
//! every later state; a time of less than a second also moves an archive; what would collide is
//! an error.

mod grammar;
mod indoms;
mod labels;
mod metrics;
mod parse;
mod plan;
mod replacement;
mod scanner;
mod values;

pub use crate::error::rules::{RulePosition, RulesError};
pub use grammar::Rules;
pub(super) use indoms::NewNumbers;
pub(super) use labels::LabelMoves;
pub(super) use plan::Rewrite;
pub(super) use values::{ValueChange, renumbered};
