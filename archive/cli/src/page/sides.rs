//! The archives of a page, on one axis of time.
//!
//! Times of the page are those of the first archive. Those of the others are the same, or
//! moved so that all archives begin at the same time.

use std::path::PathBuf;

use pcp_archive::scan::Selection;
use pcp_archive::{ArchiveLabel, ArchiveSet, Source, Timestamp};

use crate::Failure;
use crate::options::sides::Parts;
use crate::options::{ArchiveArgument, SidesArgument};
use crate::selection::select_metrics;
use crate::time::Window;

/// One of the archives, or of the timelines of several.
#[derive(Debug)]
pub(crate) struct Side {
    /// Empty if there is only one without a name.
    pub(crate) name: String,
    argument: ArchiveArgument,
    pub(crate) archives: ArchiveSet,
    /// The nanoseconds from its times to those of the page.
    shift: i128,
}

/// All of them, at least one.
#[derive(Debug)]
pub(crate) struct Sides {
    first: Side,
    others: Vec<Side>,
    metrics: Vec<String>,
    instances: Vec<String>,
}

impl Side {
    pub(crate) fn source(&self) -> Source<'_> {
        Source::from(&self.archives)
    }

    /// Returns the files of its archives as they are now; none if they cannot be listed.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.argument.files().unwrap_or_default()
    }

    /// Returns the nanoseconds from its times to those of the page.
    pub(crate) const fn shift(&self) -> i128 {
        self.shift
    }

    pub(crate) fn on_page(&self, own: Timestamp) -> Timestamp {
        Timestamp::from_nanos(own.as_nanos().saturating_add(self.shift))
    }

    fn reopened(&self) -> Result<Self, Failure> {
        let archives = self.argument.open_quietly()?;
        let name = self.name.clone();
        let argument = self.argument.clone();
        Ok(Self { name, argument, archives, shift: self.shift })
    }

    pub(crate) fn own(&self, on_page: Timestamp) -> Timestamp {
        Timestamp::from_nanos(on_page.as_nanos().saturating_sub(self.shift))
    }

    /// Returns a window of the page in its own times.
    pub(crate) fn own_window(&self, window: Window) -> Window {
        let [start, end, origin] = [window.start, window.end, window.origin].map(|at| self.own(at));
        Window { start, end, origin }
    }
}

impl Sides {
    /// Opens the archives, with warnings of what they lack.
    ///
    /// # Errors
    ///
    /// Those of [`SidesArgument::parts`] and [`ArchiveArgument::open`].
    pub(crate) fn open(argument: &SidesArgument) -> Result<Self, Failure> {
        let Parts { first, others, metrics } = argument.parts()?;
        let open = |(name, argument): (String, ArchiveArgument)| -> Result<Side, Failure> {
            let archives = argument.open(&metrics)?;
            Ok(Side { name, argument, archives, shift: 0 })
        };
        let first = open(first)?;
        let mut others = others.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        if argument.is_aligned() {
            for side in &mut others {
                side.shift = first.source().start().nanos_since(side.source().start());
            }
        }
        Ok(Self { first, others, metrics, instances: argument.instances.clone() })
    }

    /// Opens the archives again as they are now, in the same order.
    ///
    /// # Errors
    ///
    /// Those of [`ArchiveArgument::open`].
    pub(crate) fn reopened(&self) -> Result<Self, Failure> {
        let others = self.others.iter().map(Side::reopened).collect::<Result<_, _>>()?;
        let metrics = self.metrics.clone();
        let instances = self.instances.clone();
        Ok(Self { first: self.first.reopened()?, others, metrics, instances })
    }

    /// Returns the first side, and the others in the order of the command line.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Side> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns the metrics that the command line names.
    pub(crate) fn metrics(&self) -> &[String] {
        &self.metrics
    }

    pub(crate) fn label(&self) -> &ArchiveLabel {
        self.first.source().label()
    }

    /// Returns the first time of any side, on the page.
    pub(crate) fn start(&self) -> Timestamp {
        let first = self.first.source().start();
        self.others.iter().map(|side| side.on_page(side.source().start())).fold(first, Ord::min)
    }

    /// Returns the last time of any side, on the page.
    pub(crate) fn end(&self) -> Timestamp {
        let first = self.first.source().end();
        self.others.iter().map(|side| side.on_page(side.source().end())).fold(first, Ord::max)
    }

    /// Returns the metrics and instances that the command line selects, of each side.
    pub(crate) fn selections(&self) -> Vec<Selection<'_>> {
        self.iter().map(|side| self.selection(side)).collect()
    }

    /// Returns a selection of the metrics and instances of one side.
    pub(crate) fn selection<'s>(&self, side: &'s Side) -> Selection<'s> {
        let mut selection = Selection::new(&side.archives);
        if self.metrics.is_empty() {
            selection.select("");
        }
        for name in &self.metrics {
            selection.select(name);
        }
        for instance in &self.instances {
            selection.select_instance(instance);
        }
        selection
    }

    /// Warns of names that are nowhere.
    ///
    /// # Errors
    ///
    /// [`Failure::NoData`] if no archive has any of the metrics, [`Failure::Usage`] for a text
    /// that selects nothing.
    pub(crate) fn check_names(&self) -> Result<(), Failure> {
        let mut missing = Ok(());
        let mut any = false;
        for side in self.iter() {
            match select_metrics(side.source(), &self.metrics, &self.instances) {
                Ok(_) => any = true,
                Err(failure @ Failure::NoData(_)) => missing = Err(failure),
                Err(failure) => return Err(failure),
            }
        }
        if any { Ok(()) } else { missing }
    }
}
