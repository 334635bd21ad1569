//! A writer, and a model of the archive that it writes.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::collection::btree_set;
use proptest::prelude::*;

use super::{descs, indom, label, value_sets};
use crate::format::timestamp;
use crate::{
    ArchiveWriter, Error, FetchResult, Instance, InstanceId, LabelClass, LabelSet, LabelTarget,
    Result, Timestamp, ValueSet, WriterOptions,
};

/// Something that happens to an archive. Times are nanoseconds after the last
/// record.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Result { after: u64, sets: Vec<ValueSet> },
    Mark { after: u64 },
    Instances(BTreeSet<i32>),
    Label(u32),
    Switch,
    Sync,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (after(), value_sets()).prop_map(|(after, sets)| Step::Result { after, sets }),
        1 => after().prop_map(|after| Step::Mark { after }),
        3 => btree_set(0..12, 1..10).prop_map(Step::Instances),
        1 => (0u32..3).prop_map(Step::Label),
        1 => Just(Step::Switch),
        1 => Just(Step::Sync),
    ]
}

/// None at all, less than version 2 knows, or up to some seconds.
pub(crate) fn after() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 1 => 1u64..2000, 5 => 1u64..3_000_000_000]
}

#[derive(Debug)]
pub(crate) struct Logger {
    pub(crate) writer: ArchiveWriter,
    /// Earliest time of the next step.
    pub(crate) now: Timestamp,
    pub(crate) logged: LoggedContents,
    instances: Changing<Vec<Instance>>,
    label: Changing<Vec<LabelSet>>,
}

/// The contents that an archive must give back.
#[derive(Debug, Default)]
pub(crate) struct LoggedContents {
    pub(crate) records: Vec<FetchResult>,
    /// The instances of [`indom`] at each record, once there are any.
    pub(crate) domains: Vec<Option<Vec<Instance>>>,
    pub(crate) labels: Vec<Option<Vec<LabelSet>>>,
}

/// Metadata as it was declared, and as it was last written.
#[derive(Debug)]
struct Changing<T> {
    now: Option<T>,
    written: Option<(Timestamp, T)>,
}

impl Logger {
    pub(crate) fn new(base: &Path, start: Timestamp, options: WriterOptions) -> Self {
        let mut writer = ArchiveWriter::create_with(base, label(), options).unwrap();
        for desc in descs() {
            writer.declare_metric(&desc, &[&format!("test.m{}", desc.pmid.item())]).unwrap();
        }
        Self {
            writer,
            now: start,
            logged: LoggedContents::default(),
            instances: Changing { now: None, written: None },
            label: Changing { now: None, written: None },
        }
    }

    /// Lets a step happen. After an error nothing has, and it can be repeated.
    pub(crate) fn take(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Result { after, sets } => self.record(*after, sets.clone())?,
            Step::Mark { after } => self.record(*after, Vec::new())?,
            Step::Instances(ids) => {
                let instances = ids.iter().map(|id| Instance {
                    id: InstanceId::new(*id).unwrap(),
                    name: format!("instance {id}").into(),
                });
                let instances: Vec<_> = instances.collect();
                self.writer.declare_indom(indom(), &instances)?;
                self.instances.now = Some(instances);
            }
            Step::Label(value) => {
                let pair = ("value", &*value.to_string(), false);
                let sets = vec![LabelSet::from_pairs(LabelClass::Context, [pair])?];
                self.writer.declare_labels(LabelTarget::Context, &sets)?;
                self.label.now = Some(sets);
            }
            Step::Switch => self.writer.switch_volume(),
            Step::Sync => self.writer.sync()?,
        }
        Ok(())
    }

    /// A record, or without value sets a mark. The writer must refuse it if
    /// its time is not late enough.
    fn record(&mut self, after: u64, value_sets: Vec<ValueSet>) -> Result<()> {
        let timestamp = Timestamp::from_nanos(self.now.as_nanos() + i128::from(after));
        let result = FetchResult { timestamp, value_sets };
        let is_mark = result.value_sets.is_empty();
        let written = if is_mark {
            self.writer.write_mark(timestamp)
        } else {
            self.writer.write_result(&result)
        };
        let timestamp = timestamp::stored(self.writer.version(), timestamp).unwrap();
        let is_late_enough = match self.logged.records.last() {
            None => !is_mark,
            Some(last) => {
                let may_be_equal = !is_mark && !last.value_sets.is_empty();
                timestamp > last.timestamp || timestamp == last.timestamp && may_be_equal
            }
        };
        if !is_late_enough {
            assert!(matches!(written, Err(Error::TimeBackwards { .. } | Error::LeadingMark)));
            return Ok(());
        }
        written?;
        self.now = timestamp;
        self.logged.records.push(FetchResult { timestamp, ..result });
        self.logged.domains.push(self.instances.write(timestamp));
        self.logged.labels.push(self.label.write(timestamp));
        Ok(())
    }
}

impl<T: Clone + PartialEq> Changing<T> {
    /// Returns what readers find at a record with this time. A second state of the same time is
    /// written with the next record.
    fn write(&mut self, timestamp: Timestamp) -> Option<T> {
        let now = self.now.as_ref()?;
        let written = self.written.as_ref();
        if written.is_none_or(|(last, written)| *last != timestamp && written != now) {
            self.written = Some((timestamp, now.clone()));
        }
        self.written.clone().map(|(_, written)| written)
    }
}
