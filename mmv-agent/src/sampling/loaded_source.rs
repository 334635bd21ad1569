//! One file under harvest, as the loader sees it: its metadata.

use std::ffi::OsString;
use std::sync::Arc;

use super::active_source::{ActiveSource, Ticket};
use crate::metadata::{Member, Translation};
use crate::source::Source;

/// A file under harvest with its metadata.
#[derive(Debug)]
pub(super) struct LoadedSource {
    pub(super) name: OsString,
    pub(super) source: Arc<Source>,
    /// How many of its entries were left out.
    pub(super) left_out: usize,
    /// The later it came the greater.
    pub(super) number: u64,
    /// Which one it is to the sampler.
    pub(super) ticket: Ticket,
    /// What the sampler gets of it, until the sampler has it.
    pub(super) active: Option<Box<ActiveSource>>,
    translation: Translation,
}

impl LoadedSource {
    /// A source that the sampler does not have yet.
    pub(super) fn new(
        name: OsString,
        source: Source,
        translation: Translation,
        left_out: usize,
        ticket: Ticket,
    ) -> Self {
        let source = Arc::new(source);
        let active = Some(Box::new(ActiveSource::new(ticket, Arc::clone(&source))));
        Self { name, source, left_out, number: 0, ticket, active, translation }
    }

    /// The source as the catalog sees it, paid for by a user.
    pub(super) fn member(&self, payer: u32) -> Member<'_> {
        let Self { name, source, translation, .. } = self;
        Member { file: name, owner: source.owner, payer, translation, plan: source.plan() }
    }
}
