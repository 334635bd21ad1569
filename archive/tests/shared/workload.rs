//! An archive with all that can be in one, and every state in which its files
//! were while it was written.
//!
//! The writer only ever appends, one write after the other. So if it dies, its
//! files are those of the finished archive, cut to the lengths that they had:
//! one of them perhaps within a write.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};
use pcp_archive::raw::{
    ErrorCode, FetchResult, LabelClass, LabelSet, LabelTarget, TextKind, TextTarget, ValueSet,
};
use pcp_archive::{
    ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics, Timestamp,
    Units, Value, ValueType, Version, WriterOptions,
};
use tempfile::TempDir;

type Lengths = BTreeMap<String, u64>;

/// A finished archive, and how its files grew.
pub(crate) struct Workload {
    pub(crate) base: PathBuf,
    _directory: TempDir,
    files: BTreeMap<String, Vec<u8>>,
    writes: Vec<Write>,
}

struct Write {
    file: String,
    bytes: Range<u64>,
    /// The write is a data record, not a label, metadata or an index entry.
    is_record: bool,
}

/// Files on disk if the writer dies at some moment.
#[derive(Debug)]
pub(crate) struct State {
    lengths: Lengths,
    pub(crate) records: usize,
    /// The file whose last record, label or entry is not.
    pub(crate) torn: Option<String>,
}

impl Workload {
    pub(crate) fn new(version: Version) -> Self {
        let directory = test_archives::scratch();
        let base = directory.path().join("a");
        let mut logger = Logger::new(&base, version);
        (0..RECORDS).for_each(|second| logger.live(second));
        let writes = logger.finish();
        let read = |write: &Write| {
            let file = base.with_extension(&write.file);
            (write.file.clone(), fs::read(file).unwrap())
        };
        let files = writes.iter().map(read).collect();
        Self { base, _directory: directory, files, writes }
    }

    /// Returns the state after every write and, for each write, after its first `within` bytes.
    pub(crate) fn states<W>(&self, within: impl Fn(u64) -> W) -> Vec<State>
    where
        W: IntoIterator<Item = u64>,
    {
        let (mut states, mut lengths, mut records) = (Vec::new(), Lengths::new(), 0);
        for Write { file, bytes, is_record } in &self.writes {
            // A file that was there is longer by one byte at least.
            let least = u64::from(bytes.start > 0);
            for more in within(bytes.end - bytes.start).into_iter().filter(|more| *more >= least) {
                let end = bytes.start + more;
                lengths.insert(file.clone(), end);
                let torn = Some(file.clone()).filter(|_| !self.is_whole(file, bytes.start, end));
                states.push(State { lengths: lengths.clone(), records, torn });
            }
            lengths.insert(file.clone(), bytes.end);
            records += usize::from(*is_record);
            states.push(State { lengths: lengths.clone(), records, torn: None });
        }
        states
    }

    /// Returns whether a write to a file that ends early ends between two records: one write has
    /// all metadata that there is.
    fn is_whole(&self, file: &str, start: u64, end: u64) -> bool {
        let mut offset = start as usize;
        while file == "meta" && 0 < offset && offset < end as usize {
            let length = self.files[file][offset..].first_chunk().unwrap();
            offset += u32::from_be_bytes(*length) as usize;
        }
        offset > start as usize && offset == end as usize
    }

    pub(crate) fn restore(&self, state: &State, base: &Path) {
        for (file, len) in &state.lengths {
            fs::write(base.with_extension(file), &self.files[file][..*len as usize]).unwrap();
        }
    }
}

const RECORDS: i64 = 16;
const VOLUMES: [&str; 3] = ["0", "1", "2"];
/// Seconds in which the clock jumps, by more than the writer waits with an index entry.
const JUMP: Range<i64> = 10..40;

struct Logger {
    writer: ArchiveWriter,
    base: PathBuf,
    label_size: u64,
    workers: Vec<Instance>,
    now: Lengths,
    writes: Vec<Write>,
}

fn domain() -> InDom {
    InDom::new(70, 1).unwrap()
}

fn at(second: i64) -> Timestamp {
    let second = if second < JUMP.start { second } else { second + JUMP.end - JUMP.start };
    Timestamp::new(1_700_000_000 + second, 1000).unwrap()
}

/// Returns the descriptor of an item: 1 counts by worker, 2 is text, 3 events, 4 comes late.
fn desc(item: u32) -> MetricDesc {
    let (value_type, indom, semantics) = match item {
        1 => (ValueType::U64, Some(domain()), Semantics::Counter),
        2 => (ValueType::String, None, Semantics::Discrete),
        3 => (ValueType::Event, None, Semantics::Instant),
        _ => (ValueType::Double, Some(domain()), Semantics::Instant),
    };
    let pmid = Pmid::new(70, 1, item).unwrap();
    MetricDesc { pmid, value_type, indom, semantics, units: Units::count() }
}

fn worker(id: i32, name: &str) -> Instance {
    let id = InstanceId::new(id).unwrap();
    Instance { id, name: format!("{name} {id}").into() }
}

fn labels(class: LabelClass, value: i64) -> LabelSet {
    let value = value.to_string();
    LabelSet::from_pairs(class, [("state", value.as_str(), false)]).unwrap()
}

impl Logger {
    fn new(base: &Path, version: Version) -> Self {
        let label_size = if version == Version::V2 { 132 } else { 808 };
        let options = WriterOptions {
            version,
            index_bytes: 1600,
            index_interval: Some(Duration::from_secs(20)),
            volume_bytes: Some(label_size + 4500),
            ..WriterOptions::default()
        };
        let writer =
            ArchiveWriter::create_with(base, test_archives::label("host"), options).unwrap();
        Self {
            writer,
            base: base.to_owned(),
            label_size,
            workers: Vec::new(),
            now: Lengths::new(),
            writes: Vec::new(),
        }
    }

    /// Writes a second: something is declared, and there is a record.
    fn live(&mut self, second: i64) {
        match second {
            0 => self.begin(),
            // A difference, then a name that changed: the whole domain.
            2 => self.workers.push(worker(9, "late")),
            3 => self.workers[0] = worker(0, "renamed"),
            4 => self.writer.switch_volume(),
            5 => self.declare(4, &["test.late", "test.again.late"]),
            6 => self.relabel(second),
            7 => return self.mark(second),
            // No instance is left, and then there is one.
            11 => self.workers.clear(),
            12 => self.workers.push(worker(3, "again")),
            _ => {}
        }
        self.writer.declare_indom(domain(), &self.workers).unwrap();
        self.sample(second);
    }

    fn begin(&mut self) {
        for item in [1, 2, 3] {
            self.declare(item, &[&format!("test.item{item}")]);
        }
        self.workers.extend((0..4).map(|id| worker(id, "worker")));
        let target = TextTarget::InDom(domain());
        self.writer.declare_text(target, TextKind::OneLine, "a line").unwrap();
        self.relabel(0);
    }

    fn declare(&mut self, item: u32, names: &[&str]) {
        let desc = desc(item);
        self.writer.declare_metric(&desc, names).unwrap();
        let target = TextTarget::Metric(desc.pmid);
        self.writer.declare_text(target, TextKind::OneLine, "a line").unwrap();
        self.writer.declare_text(target, TextKind::Full, "several\nlines\n\nof help").unwrap();
    }

    fn relabel(&mut self, value: i64) {
        let (pmid, indom) = (desc(1).pmid, domain());
        for (target, class) in [
            (LabelTarget::Context, LabelClass::Context),
            (LabelTarget::Domain(70), LabelClass::Domain),
            (LabelTarget::Cluster { domain: 70, cluster: 1 }, LabelClass::Cluster),
            (LabelTarget::Item(pmid), LabelClass::Item),
            (LabelTarget::InDom(indom), LabelClass::InDom),
        ] {
            self.writer.declare_labels(target, &[labels(class, value)]).unwrap();
        }
        let of = |one: &Instance| labels(LabelClass::Instances, value).for_instance(one.id);
        let sets: Vec<_> = self.workers.iter().map(of).collect();
        self.writer.declare_labels(LabelTarget::Instances(indom), &sets).unwrap();
    }

    fn sample(&mut self, second: i64) {
        let count = |one: &Instance| (Some(one.id), OwnedValue::U64(1000 + second as u64));
        let level = |one: &Instance| (Some(one.id), OwnedValue::Double(second as f64 / 3.0));
        // Once there is more text than goes between two index entries, and
        // once more than is left of a volume.
        let text = if second == 8 || second == 13 { 1700 } else { 3 * second as usize };
        let of = |item, values| ValueSet { pmid: desc(item).pmid, values };
        let mut value_sets = vec![
            of(1, Ok(self.workers.iter().map(count).collect())),
            of(2, Ok(vec![(None, OwnedValue::String(vec![b'x'; text]))])),
            of(3, if second == 9 { Err(ErrorCode::VALUE) } else { Ok(vec![(None, events())]) }),
        ];
        if second >= 5 {
            value_sets.push(of(4, Ok(self.workers.iter().map(level).collect())));
        }
        self.writer.write_result(&FetchResult { timestamp: at(second), value_sets }).unwrap();
        self.note();
    }

    fn mark(&mut self, second: i64) {
        self.writer.write_mark(at(second)).unwrap();
        self.note();
    }

    fn finish(mut self) -> Vec<Write> {
        let sum = self.writer.finish().unwrap();
        assert_eq!(sum.volumes as usize, VOLUMES.len());
        add_growth(&mut self.writes, &mut self.now, &self.base, self.label_size);
        self.writes
    }

    fn note(&mut self) {
        add_growth(&mut self.writes, &mut self.now, &self.base, self.label_size);
    }
}

fn events() -> OwnedValue {
    let mut array = EventArrayBuilder::new();
    array.record(at(0), EventFlags::NONE).unwrap();
    array.parameter(desc(1).pmid, Value::U64(7)).unwrap();
    array.missed(at(0), 3).unwrap();
    array.finish()
}

/// Adds the writes of one call: from the lengths before it, which become those
/// after it. Labels of new files come first, then metadata, the record and the
/// index entry: the writer's own tests check that this is their order.
fn add_growth(writes: &mut Vec<Write>, now: &mut Lengths, base: &Path, label_size: u64) {
    let len = |file: &str| Some(fs::metadata(base.with_extension(file)).ok()?.len());
    let files = ["meta"].into_iter().chain(VOLUMES).chain(["index"]);
    let files: Vec<_> = files.filter_map(|file| Some((file, len(file)?))).collect();
    let known = now.clone();
    let mut grow = |file: &str, end: u64| {
        let start = now.insert(file.to_owned(), end).unwrap_or(0);
        if start < end {
            let is_record = start > 0 && file.parse::<u32>().is_ok();
            writes.push(Write { file: file.to_owned(), bytes: start..end, is_record });
        }
    };
    for (file, _) in files.iter().filter(|(file, _)| !known.contains_key(*file)) {
        grow(file, label_size);
    }
    for (file, len) in &files {
        grow(file, *len);
    }
}
