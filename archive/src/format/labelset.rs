//! Label sets of one target from one time on: metadata records of type 3
//! (version 2) and 7 (version 3).
//!
//! | v2 + | v3 + | bytes | field | ours |
//! |---|---|---|---|---|
//! | 0 | 0 | 4 | length | |
//! | 4 | 4 | 4 | 3 or 7 | |
//! | 8 | 8 | 8 / 12 | start of validity | `timestamp` |
//! | 16 | 20 | 4 | class: 1, 2, 4, 8, 16 or 32 | `target` |
//! | 20 | 24 | 4 | identifier, by class | `target` |
//! | 24 | 28 | 4 | number of sets | |
//! | 28 | 32 | .. | the sets, one after the other | `sets` |
//! | .. | .. | 4 | length | |
//!
//! One set:
//!
//! | bytes | field | ours |
//! |---|---|---|
//! | 4 | instance, 0xffffffff but in class 32 | `instance` |
//! | 4 | J, at most 65 535 | |
//! | J | JSON object, no NUL, not padded | `json` |
//! | 4 | L, at most 255; negative: an error code in place of labels | |
//! | 8 L | entries, sorted by name | `labels` |
//!
//! One entry: name offset (2 bytes, after the quote), name length (1, without
//! quotes), flags (1), value offset (2), value length (2, with quotes); the
//! offsets count in the JSON text.
//!
//! **Source**: LOGARCHIVE(5), "pmLabelSet" (which gathers the JSON at the end,
//! wrongly); `src/libpcp/src/logmeta.c`, `labels.c`.

use std::fmt;
use std::ops::Range;

use pcp_types::json;
use pcp_types::names::is_label_name;
use zerocopy::big_endian::{I32, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::bytes::count;
use super::{Bytes, NULL, RecordType, frame, indom, timestamp};
use crate::{EncodeError, InDom, InstanceId, MetricDesc, Pmid, RecordError, Timestamp, Version};

/// The longest JSON text of a set.
const MAX_JSON: usize = 0xffff;
const MAX_LABELS: usize = 255;
/// The label does not identify the metric (`PM_LABEL_OPTIONAL`).
const OPTIONAL: u8 = 0x80;

/// At which level labels are attached (`PM_LABEL_*`). On lookup a later one
/// of this list overrides an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelClass {
    /// Everything of the host.
    Context = 1,
    /// Everything of a domain's agent.
    Domain = 2,
    /// Everything of an instance domain.
    InDom = 4,
    /// A cluster of metrics.
    Cluster = 8,
    /// Everything of one metric.
    Item = 16,
    /// Each instance of an instance domain on its own.
    Instances = 32,
}

impl LabelClass {
    /// Returns the bit that stands for the class, in records and in entry flags.
    pub const fn bit(self) -> u8 {
        self as u8
    }
}

/// The object that labels are attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelTarget {
    /// The host, and so all values of the archive.
    Context,
    /// The agent of a domain, 0..=511.
    Domain(u32),
    /// Everything of an instance domain.
    InDom(InDom),
    /// A cluster of metrics.
    Cluster {
        /// Number of the domain, 0..=511.
        domain: u32,
        /// Number of the cluster, 0..=4095.
        cluster: u32,
    },
    /// Everything of one metric.
    Item(Pmid),
    /// The instances of a domain; each has a set.
    Instances(InDom),
}

impl LabelTarget {
    /// Returns the targets that the labels of a metric are attached to. Those of a later target
    /// override those of the earlier ones (`pmLookupLabels(3)`); labels of instances come after
    /// all of them.
    pub fn of_metric(desc: &MetricDesc) -> impl Iterator<Item = Self> {
        let domain = desc.pmid.domain();
        let cluster = desc.pmid.cluster();
        let targets = [
            Some(Self::Context),
            Some(Self::Domain(domain)),
            desc.indom.map(Self::InDom),
            Some(Self::Cluster { domain, cluster }),
            Some(Self::Item(desc.pmid)),
        ];
        targets.into_iter().flatten()
    }
}

impl fmt::Display for LabelTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Context => write!(f, "the host"),
            Self::Domain(domain) => write!(f, "domain {domain}"),
            Self::InDom(indom) => write!(f, "instance domain {indom}"),
            Self::Cluster { domain, cluster } => write!(f, "cluster {domain}.{cluster}"),
            Self::Item(pmid) => write!(f, "metric {pmid}"),
            Self::Instances(indom) => write!(f, "instances of {indom}"),
        }
    }
}

impl LabelTarget {
    /// Returns the level of the target.
    pub const fn class(self) -> LabelClass {
        match self {
            Self::Context => LabelClass::Context,
            Self::Domain(_) => LabelClass::Domain,
            Self::InDom(_) => LabelClass::InDom,
            Self::Cluster { .. } => LabelClass::Cluster,
            Self::Item(_) => LabelClass::Item,
            Self::Instances(_) => LabelClass::Instances,
        }
    }

    fn from_words(class: u32, id: u32) -> Result<Self, RecordError> {
        match class {
            1 => Ok(Self::Context),
            2 => Ok(Self::Domain(id)),
            4 => Ok(Self::InDom(indom::parse_id(id)?)),
            8 => {
                let pmid = Pmid::from_raw(id);
                Ok(Self::Cluster { domain: pmid.domain(), cluster: pmid.cluster() })
            }
            16 => Ok(Self::Item(Pmid::from_raw(id))),
            32 => Ok(Self::Instances(indom::parse_id(id)?)),
            _ => Err(RecordError::Field { field: "label class", found: i64::from(class) }),
        }
    }

    fn id_word(self) -> Result<u32, EncodeError> {
        Ok(match self {
            Self::Context => NULL,
            Self::Domain(domain) => domain,
            Self::InDom(indom) | Self::Instances(indom) => indom.raw(),
            Self::Cluster { domain, cluster } => Pmid::new(domain, cluster, 0)
                .map_err(|_| EncodeError::TooLarge {
                    field: "cluster of labels",
                    found: u64::from(domain.max(cluster)),
                    max: u64::from(Pmid::MAX_CLUSTER),
                })?
                .raw(),
            Self::Item(pmid) => pmid.raw(),
        })
    }
}

/// The positions of one label's name and value in the JSON text of its set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelEntry {
    /// The name, without quotes.
    pub name: Range<usize>,
    /// The value as JSON: a string has its quotes.
    pub value: Range<usize>,
    /// [`LabelClass::bit`], 0x40 for a compound (dotted) name, 0x80 if the
    /// label is optional.
    pub flags: u8,
}

/// The labels of one target, or of one instance of it (`pmLabelSet`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSet {
    /// The instance, for [`LabelTarget::Instances`] only.
    pub instance: Option<InstanceId>,
    /// All labels as one JSON object, `{"a":1,"b":"x"}`; empty without labels.
    pub json: String,
    /// The labels, sorted by name.
    pub labels: Vec<LabelEntry>,
}

impl LabelSet {
    /// Returns a set from (name, value as JSON, optional), in any order.
    ///
    /// # Errors
    ///
    /// [`EncodeError::LabelName`], [`EncodeError::LabelValue`],
    /// [`EncodeError::RepeatedLabel`], [`EncodeError::TooLarge`] for more than
    /// 255 labels or 65 535 bytes of JSON.
    pub fn from_pairs<'p>(
        class: LabelClass,
        pairs: impl IntoIterator<Item = (&'p str, &'p str, bool)>,
    ) -> Result<Self, EncodeError> {
        Self::from_entries(pairs.into_iter().map(|(name, value, optional)| {
            let optional = if optional { OPTIONAL } else { 0 };
            (name, value, class.bit() | optional)
        }))
    }

    /// Returns a set from (name, value as JSON, flags), as [`from_pairs`](Self::from_pairs).
    pub(crate) fn from_entries<'p>(
        entries: impl IntoIterator<Item = (&'p str, &'p str, u8)>,
    ) -> Result<Self, EncodeError> {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_unstable();
        let mut set = Self::default();
        for (name, value, flags) in entries {
            if set.pairs().next_back().is_some_and(|(last, _, _)| last == name) {
                return Err(EncodeError::RepeatedLabel { name: name.to_owned() });
            }
            set.push(name, value, flags)?;
        }
        if !set.labels.is_empty() {
            set.json.push('}');
        }
        EncodeError::check_size("labels of a set", set.labels.len(), MAX_LABELS)?;
        EncodeError::check_size("JSON of a label set", set.json.len(), MAX_JSON)?;
        Ok(set)
    }

    /// Makes the labels a set of one instance.
    #[must_use]
    pub fn for_instance(self, instance: InstanceId) -> Self {
        Self { instance: Some(instance), ..self }
    }

    /// Returns whether the JSON is an object, or there is none.
    pub(crate) fn is_object(&self) -> bool {
        self.json.is_empty() || (self.json.starts_with('{') && json::is_value(&self.json))
    }

    /// Returns name, value as JSON, and flags of each label, sorted by name.
    pub fn pairs(&self) -> impl DoubleEndedIterator<Item = (&str, &str, u8)> {
        self.labels.iter().filter_map(|label| {
            let name = self.json.get(label.name.clone())?;
            let value = self.json.get(label.value.clone())?;
            Some((name, value, label.flags))
        })
    }

    fn push(&mut self, name: &str, value: &str, flags: u8) -> Result<(), EncodeError> {
        if !is_label_name(name) {
            return Err(EncodeError::LabelName { name: name.to_owned() });
        }
        if !json::is_value(value) {
            let name = name.to_owned();
            let value = value.to_owned();
            return Err(EncodeError::LabelValue { name, value });
        }
        // Readers take the value between the offsets unchanged.
        let value = value.trim_ascii();
        EncodeError::check_size("label name", name.len(), usize::from(u8::MAX))?;
        self.json.push(if self.labels.is_empty() { '{' } else { ',' });
        self.json.push('"');
        let name = self.append(name);
        self.json.push_str("\":");
        let value = self.append(value);
        self.labels.push(LabelEntry { name, value, flags });
        Ok(())
    }

    fn append(&mut self, text: &str) -> Range<usize> {
        let start = self.json.len();
        self.json.push_str(text);
        start..self.json.len()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelRecord {
    pub(crate) timestamp: Timestamp,
    pub(crate) target: LabelTarget,
    pub(crate) sets: Vec<LabelSet>,
    /// The errors of sets that cannot be read, by instance.
    pub(crate) lost: Vec<(Option<InstanceId>, RecordError)>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct EntryLayout {
    name_offset: U16,
    name_len: u8,
    flags: u8,
    value_offset: U16,
    value_len: U16,
}

const _: () = assert!(size_of::<EntryLayout>() == 8 && align_of::<EntryLayout>() == 1);

/// Bytes of a set with neither JSON nor labels: the least that one takes.
const MIN_SET_SIZE: usize = 12;

/// A label record whose sets have their bytes.
pub(crate) struct RawLabels<'a> {
    pub(crate) timestamp: Timestamp,
    pub(crate) target: LabelTarget,
    pub(crate) sets: Vec<RawSet<'a>>,
}

/// A set, or what is wrong with it, and its bytes.
pub(crate) struct RawSet<'a> {
    pub(crate) instance: Option<InstanceId>,
    pub(crate) set: Result<LabelSet, RecordError>,
    bytes: &'a [u8],
}

/// Parses what follows the type word. A set that is not UTF-8, or has an entry outside of its
/// JSON, is lost alone.
///
/// # Errors
///
/// [`RecordError::Field`] for an unknown class, a JSON text or a number of
/// labels above the limit, and what lengths can be wrong with.
pub(crate) fn parse(version: Version, body: &mut Bytes<'_>) -> Result<LabelRecord, RecordError> {
    let RawLabels { timestamp, target, sets: raw } = parse_raw(version, body)?;
    let mut sets = Vec::with_capacity(raw.len());
    let mut lost = Vec::new();
    for RawSet { instance, set, .. } in raw {
        match set {
            Ok(set) => sets.push(set),
            Err(error) => lost.push((instance, error)),
        }
    }
    Ok(LabelRecord { timestamp, target, sets, lost })
}

/// Parses a whole record, framing included, without checking its sets.
///
/// # Errors
///
/// As [`parse`].
pub(crate) fn raw(version: Version, record: &[u8]) -> Result<RawLabels<'_>, RecordError> {
    let mut body = Bytes::new(frame::parse(record)?);
    body.take::<U32>("record type")?;
    parse_raw(version, &mut body)
}

fn parse_raw<'a>(version: Version, body: &mut Bytes<'a>) -> Result<RawLabels<'a>, RecordError> {
    let timestamp = timestamp::parse(version, body)?;
    let class = body.take::<U32>("label class")?.get();
    let target = LabelTarget::from_words(class, body.take::<U32>("label target")?.get())?;
    let n = count("number of label sets", body.take::<I32>("number of label sets")?.get())?;
    let mut sets = Vec::with_capacity((n as usize).min(body.len() / MIN_SET_SIZE));
    for _ in 0..n {
        let mut from = *body;
        let (instance, set) = parse_set(body)?;
        let bytes = from.slice("label set", (from.len() - body.len()) as u64)?;
        sets.push(RawSet { instance, set, bytes });
    }
    Ok(RawLabels { timestamp, target, sets })
}

/// Parses the instance of a set, and the set or what is wrong with it. An error is one of the
/// record.
fn parse_set(body: &mut Bytes<'_>) -> Result<(Option<InstanceId>, ReadSet), RecordError> {
    let instance = InstanceId::new(body.take::<I32>("instance of labels")?.get()).ok();
    let len = count("JSON length", body.take::<I32>("JSON length")?.get())?;
    if len as usize > MAX_JSON {
        return Err(RecordError::Field { field: "JSON length", found: i64::from(len) });
    }
    let bytes = body.slice("JSON", u64::from(len))?;
    let number = body.take::<I32>("number of labels")?.get();
    // Negative: the code of the error that there was in place of labels.
    let number = u32::try_from(number).unwrap_or(0);
    if number as usize > MAX_LABELS {
        return Err(RecordError::Field { field: "number of labels", found: i64::from(number) });
    }
    let entries: &[EntryLayout] = body.table("labels", number)?;
    Ok((instance, read_set(instance, bytes, entries)))
}

type ReadSet = Result<LabelSet, RecordError>;

fn read_set(instance: Option<InstanceId>, json: &[u8], entries: &[EntryLayout]) -> ReadSet {
    let json = std::str::from_utf8(json)
        .map_err(|e| RecordError::NotUtf8 { field: "JSON", at: e.valid_up_to() as u64 })?;
    let labels = entries.iter().map(|entry| parse_entry(*entry, json));
    let labels = labels.collect::<Result<Vec<_>, _>>()?;
    Ok(LabelSet { instance, json: json.to_owned(), labels })
}

fn parse_entry(entry: EntryLayout, json: &str) -> Result<LabelEntry, RecordError> {
    let span = |field, offset: U16, len: usize| {
        let range = usize::from(offset.get())..usize::from(offset.get()) + len;
        match json.get(range.clone()) {
            Some(_) => Ok(range),
            None => {
                Err(RecordError::Offset { field, found: range.end as u64, end: json.len() as u64 })
            }
        }
    };
    Ok(LabelEntry {
        name: span("label name", entry.name_offset, usize::from(entry.name_len))?,
        value: span("label value", entry.value_offset, usize::from(entry.value_len.get()))?,
        flags: entry.flags,
    })
}

/// Appends a record.
///
/// # Errors
///
/// [`EncodeError::TooLarge`] if a set is beyond a limit;
/// [`EncodeError::TimeRange`] in version 2.
pub(crate) fn encode(
    version: Version,
    timestamp: Timestamp,
    target: LabelTarget,
    sets: &[LabelSet],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    encode_with(version, timestamp, target, sets.len(), out, |out| {
        sets.iter().try_for_each(|set| encode_set(set, out))
    })
}

/// Appends a record of some of the sets of another, byte for byte; with
/// `without_instances` they are of no instance.
///
/// # Errors
///
/// None that the limits of the format allow.
pub(crate) fn encode_raw(
    version: Version,
    labels: &RawLabels<'_>,
    without_instances: bool,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let RawLabels { timestamp, target, sets } = labels;
    encode_with(version, *timestamp, *target, sets.len(), out, |out| {
        for RawSet { instance, bytes, .. } in sets {
            let instance = instance.filter(|_| !without_instances);
            out.extend(InstanceId::option_raw(instance).to_be_bytes());
            out.extend_from_slice(bytes.get(size_of::<I32>()..).unwrap_or_default());
        }
        Ok(())
    })
}

fn encode_with(
    version: Version,
    timestamp: Timestamp,
    target: LabelTarget,
    sets: usize,
    out: &mut Vec<u8>,
    encode_sets: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let id = target.id_word()?;
    frame::encode(out, |out| {
        let record_type = match version {
            Version::V2 => RecordType::LabelV2,
            Version::V3 => RecordType::Label,
        };
        record_type.encode(out);
        timestamp::encode(version, timestamp, out)?;
        out.extend(u32::from(target.class().bit()).to_be_bytes());
        out.extend(id.to_be_bytes());
        out.extend((sets as u32).to_be_bytes());
        encode_sets(out)
    })
}

fn encode_set(set: &LabelSet, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    EncodeError::check_size("JSON of a label set", set.json.len(), MAX_JSON)?;
    EncodeError::check_size("labels of a set", set.labels.len(), MAX_LABELS)?;
    out.extend(InstanceId::option_raw(set.instance).to_be_bytes());
    out.extend((set.json.len() as u32).to_be_bytes());
    out.extend(set.json.as_bytes());
    out.extend((set.labels.len() as u32).to_be_bytes());
    for label in &set.labels {
        EncodeError::check_size("label name", label.name.len(), usize::from(u8::MAX))?;
        EncodeError::check_size("label name", label.name.end, set.json.len())?;
        EncodeError::check_size("label value", label.value.end, set.json.len())?;
        let entry = EntryLayout {
            name_offset: (label.name.start as u16).into(),
            name_len: label.name.len() as u8,
            flags: label.flags,
            value_offset: (label.value.start as u16).into(),
            value_len: (label.value.len() as u16).into(),
        };
        out.extend(entry.as_bytes());
    }
    Ok(())
}

/// Checks that sets can be stored for a target.
///
/// # Errors
///
/// [`EncodeError::TooLarge`] if something is beyond a limit.
pub(crate) fn check(target: LabelTarget, sets: &[LabelSet]) -> Result<(), EncodeError> {
    encode(Version::V3, Timestamp::EPOCH, target, sets, &mut Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::metadata_record::test_support::{body, every_bit_flipped, hex};

    const EXAMPLE: &str = "00000043 00000007 6553f100 00000000 075bcd15 00000001 ffffffff \
        00000001 ffffffff 0000000b 7b22637478223a2243227d 00000001 0002 03 01 0007 0003 00000043";

    fn example() -> LabelRecord {
        let set = LabelSet::from_pairs(LabelClass::Context, [("ctx", "\"C\"", false)]).unwrap();
        let timestamp = Timestamp::new(0x6553_f100, 0x075b_cd15).unwrap();
        LabelRecord { timestamp, target: LabelTarget::Context, sets: vec![set], lost: Vec::new() }
    }

    fn encoded(record: &LabelRecord) -> Vec<u8> {
        let mut out = Vec::new();
        encode(Version::V3, record.timestamp, record.target, &record.sets, &mut out).unwrap();
        out
    }

    #[test]
    fn bytes_both_ways() {
        assert_eq!(encoded(&example()), hex(EXAMPLE));
        assert_eq!(parse(Version::V3, &mut body(&hex(EXAMPLE))), Ok(example()));
    }

    #[test]
    fn each_class_reads_back_with_its_identifier() {
        let indom = InDom::new(70, 2051).unwrap();
        for target in [
            LabelTarget::Context,
            LabelTarget::Domain(70),
            LabelTarget::InDom(indom),
            LabelTarget::Cluster { domain: 70, cluster: 4095 },
            LabelTarget::Item(Pmid::new(70, 1, 2).unwrap()),
            LabelTarget::Instances(indom),
        ] {
            let record = LabelRecord { target, ..example() };
            let bytes = encoded(&record);
            assert_eq!(bytes[23], target.class().bit());
            assert_eq!(parse(Version::V3, &mut body(&bytes)), Ok(record));
        }
    }

    #[test]
    fn an_instance_without_labels_has_neither_json_nor_entries() {
        let empty = LabelSet::from_pairs(LabelClass::Instances, []).unwrap();
        let set = empty.for_instance(InstanceId::new(7).unwrap());
        let target = LabelTarget::Instances(InDom::new(70, 1).unwrap());
        let record = LabelRecord { target, sets: vec![set], ..example() };
        let bytes = encoded(&record);
        assert_eq!(bytes.len(), 32 + 12 + 4);
        assert_eq!(parse(Version::V3, &mut body(&bytes)), Ok(record));
    }

    #[test]
    fn sets_are_sorted_and_values_keep_their_quotes() {
        let pairs = [("b", "\"x\"", true), ("a", "1", false)];
        let set = LabelSet::from_pairs(LabelClass::Item, pairs).unwrap();
        assert_eq!(set.json, r#"{"a":1,"b":"x"}"#);
        let found: Vec<_> = set.pairs().collect();
        assert_eq!(found, [("a", "1", 0x10), ("b", "\"x\"", 0x90)]);
    }

    #[test]
    fn white_space_around_a_value_is_not_stored() {
        let set = LabelSet::from_pairs(LabelClass::Item, [("a", " [1, 2]\n", false)]).unwrap();
        assert_eq!(set.json, r#"{"a":[1, 2]}"#);
        assert_eq!(set.pairs().next(), Some(("a", "[1, 2]", 0x10)));
    }

    #[test]
    fn bad_names_values_and_repetitions_are_refused() {
        let set = |pairs: &[(&'static str, &'static str, bool)]| {
            LabelSet::from_pairs(LabelClass::Item, pairs.iter().copied())
        };
        for name in ["", "1a", "_a", "a.b", "a\"", "\u{e4}"] {
            assert!(matches!(set(&[(name, "1", false)]), Err(EncodeError::LabelName { .. })));
        }
        assert!(matches!(set(&[("a", "x", false)]), Err(EncodeError::LabelValue { .. })));
        let twice = set(&[("a", "1", false), ("b", "1", false), ("a", "2", false)]);
        assert_eq!(twice, Err(EncodeError::RepeatedLabel { name: "a".to_owned() }));
    }

    #[test]
    fn more_than_255_labels_are_refused_and_255_are_not() {
        let names: Vec<String> = (0..256).map(|n| format!("n{n}")).collect();
        let set = |n| {
            let pairs = names.iter().take(n).map(|name| (name.as_str(), "0", false));
            LabelSet::from_pairs(LabelClass::Context, pairs)
        };
        assert!(matches!(set(256), Err(EncodeError::TooLarge { found: 256, max: 255, .. })));
        let record = LabelRecord { sets: vec![set(255).unwrap()], ..example() };
        assert_eq!(parse(Version::V3, &mut body(&encoded(&record))), Ok(record));
    }

    #[test]
    fn an_error_code_in_place_of_labels_means_no_labels() {
        let mut bytes = hex("00000038 00000007 6553f100 00000000 075bcd15 00000001 ffffffff \
                             00000001 ffffffff 00000000 ffffcfbd 00000038");
        bytes[3] = bytes.len() as u8;
        let last = bytes.len() - 1;
        bytes[last] = bytes.len() as u8;
        let record = parse(Version::V3, &mut body(&bytes)).unwrap();
        assert_eq!(record.sets, [LabelSet::default()]);
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = hex(EXAMPLE);
        let whole = body(&bytes).rest();
        for len in 0..whole.len() {
            assert!(parse(Version::V3, &mut Bytes::new(&whole[..len])).is_err(), "{len}");
        }
    }

    #[test]
    fn flipped_bits_never_panic_nor_pass_unseen() {
        let good = hex(EXAMPLE);
        for bytes in every_bit_flipped(&good, 8..good.len() - 4) {
            let mut rest = body(&bytes);
            let parsed = parse(Version::V3, &mut rest);
            // The identifier of the context and the sign of an instance that
            // is none mean nothing; a shorter set leaves bytes behind.
            let free = bytes[24..28] != good[24..28] || bytes[32..36] != good[32..36];
            assert!(parsed != Ok(example()) || rest.len() > 0 || free);
        }
    }

    #[test]
    fn absurd_numbers_are_refused_before_anything_is_allocated() {
        for (at, word) in [(28, i32::MAX), (36, i32::MAX), (36, 0xffff), (51, 255), (51, i32::MAX)]
        {
            let mut bytes = hex(EXAMPLE);
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
            assert!(parse(Version::V3, &mut body(&bytes)).is_err(), "{at} {word}");
        }
    }

    #[test]
    fn entries_outside_their_json_cost_their_set() {
        for at in [56, 57, 60, 62] {
            let mut bytes = hex(EXAMPLE);
            bytes[at] = 0xff;
            let record = parse(Version::V3, &mut body(&bytes)).unwrap();
            assert!(record.sets.is_empty());
            let [(None, RecordError::Offset { .. })] = *record.lost else { panic!("{record:?}") };
        }
    }

    #[test]
    fn json_that_is_not_utf_8_costs_its_set_and_no_other() {
        let set = |id, value| {
            let set = LabelSet::from_pairs(LabelClass::Instances, [("a", value, false)]).unwrap();
            set.for_instance(InstanceId::new(id).unwrap())
        };
        let target = LabelTarget::Instances(InDom::new(70, 1).unwrap());
        let sets = vec![set(1, "\"one\""), set(2, "\"two\""), set(3, "\"six\"")];
        let record = LabelRecord { target, sets, ..example() };
        let mut bytes = encoded(&record);
        let at = bytes.windows(3).position(|window| window == b"two").unwrap();
        bytes[at + 1] = 0xff;
        let parsed = parse(Version::V3, &mut body(&bytes)).unwrap();
        assert_eq!(parsed.sets, [&record.sets[..1], &record.sets[2..]].concat());
        let error = RecordError::NotUtf8 { field: "JSON", at: 7 };
        assert_eq!(parsed.lost, [(InstanceId::new(2).ok(), error)]);
    }
}
