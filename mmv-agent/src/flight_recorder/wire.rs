//! The protocol between the agent and `mmv-agent capture`.
//!
//! The command sends a [`Request`], the agent answers with [`Message`]s: each is
//! one line of JSON. After the line of a chunk follow its bytes.
//!
//! ```text
//! {"last":300.0}
//! {"hello":{"version":"0.1.0","host":...}}
//! {"shape":{...}}                            before the first chunk of a shape
//! {"chunk":{"samples":2000,"bytes":8123,...}}
//! 8123 bytes
//! {"chunk":...
//! "end"                                      without it the answer is incomplete
//! ```
//!
//! The protocol may change with each version: the command refuses an agent of another
//! version.

use std::borrow::Cow;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use pcp_archive::{
    ByteText, Instance, LabelClass, LabelSet, LabelTarget, MetricDesc, TextKind, TextTarget,
};
use pcp_types::{InDom, InstanceId, Pmid, Semantics, Timestamp, Units, ValueType};
use serde::{Deserialize, Serialize};

use super::shape::Set;
use super::{Chunk, Shape};
use crate::metadata::Catalog;

/// The longest line that is read: metadata of some millions of instances.
const LINE: u64 = 1 << 30;

/// The flag of labels that do not identify a metric.
const OPTIONAL: u8 = 0x80;

/// A request.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The samples of the last seconds; `None`: all.
    pub last: Option<f64>,
}

/// A message of the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message<'a> {
    /// Why there are no samples.
    Refused(Refusal),
    /// The agent.
    Hello(Hello),
    /// The shape of the chunks that follow.
    Shape(#[serde(borrow)] FlatShape<'a>),
    /// Samples.
    Chunk(FlatChunk),
    /// The end of the answer.
    End,
}

/// Why there are no samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Refusal {
    /// The agent has no flight recorder.
    #[error("the agent has no [hindsight] in its configuration")]
    NotConfigured,
    /// There are no samples of that time.
    #[error("the agent has no samples of that time")]
    Nothing,
    /// The request is invalid.
    #[error("the agent does not understand the request")]
    Request,
    /// The user has as many connections as one may have.
    #[error("too many captures of this user are under way; try again when they are done")]
    Busy,
}

/// The agent and its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Hello {
    /// The agent's version.
    pub version: String,
    /// Its process.
    pub pid: i32,
    /// The host's name, its time zone and that zone's name, as in labels.
    pub host: String,
    pub timezone: String,
    pub zoneinfo: String,
    /// The server for prologues.
    pub server_pid: u64,
    pub server_seqnum: u32,
    /// Samples before this are not wanted: nanoseconds since 1970.
    pub since: i64,
}

/// A chunk without its shape and bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FlatChunk {
    there: Vec<bool>,
    after_gap: bool,
    first: i64,
    last: i64,
    samples: u64,
    bytes: u64,
}

/// A shape and its metadata. No metadata of metrics that have no values.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlatShape<'a> {
    metrics: Vec<FlatMetric<'a>>,
    /// By the domains' numbers.
    indoms: Vec<(u32, Vec<FlatInstance<'a>>)>,
    labels: Vec<(Target, Vec<FlatLabels<'a>>)>,
    /// What it is of, whether it is one line, the text.
    texts: Vec<(Target, bool, Cow<'a, str>)>,
    sets: Cow<'a, [Set]>,
}

/// PMID, type, instance domain, semantics, units, name.
type FlatMetric<'a> = (u32, i32, Option<u32>, i32, u32, Cow<'a, str>);

/// Number and name.
type FlatInstance<'a> = (i32, Cow<'a, str>);

/// Instance; name, value as JSON, and whether it is optional.
type FlatLabels<'a> = (Option<i32>, Vec<(Cow<'a, str>, Cow<'a, str>, bool)>);

/// What labels or a text are attached to.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Target {
    Context,
    Domain(u32),
    Indom(u32),
    Cluster(u32, u32),
    Metric(u32),
    Instances(u32),
}

/// Sends a message.
///
/// # Errors
///
/// From `out`.
pub(crate) fn send(message: &Message<'_>, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, message)?;
    out.write_all(b"\n")
}

/// Sends the line of a chunk, after its shape if that differs from the previous chunk's.
/// The bytes of the chunk come next.
///
/// # Errors
///
/// From `out`.
pub(crate) fn send_head(
    chunk: &Chunk,
    before: Option<&Chunk>,
    out: &mut impl Write,
) -> io::Result<()> {
    if !before.is_some_and(|before| Arc::ptr_eq(&before.shape, &chunk.shape)) {
        send(&Message::Shape(flat(&chunk.shape)), out)?;
    }
    let head = FlatChunk {
        there: chunk.there.clone(),
        after_gap: chunk.after_gap,
        first: nanos(chunk.first),
        last: nanos(chunk.last),
        samples: chunk.samples,
        bytes: chunk.bytes.len() as u64,
    };
    send(&Message::Chunk(head), out)
}

/// Reads a line; `None` at the end.
///
/// # Errors
///
/// From `input`; `InvalidData` for one that is too long.
pub(crate) fn read_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.by_ref().take(LINE).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Nanoseconds since 1970, until 2262.
pub(crate) fn nanos(timestamp: Timestamp) -> i64 {
    i64::try_from(timestamp.as_nanos()).unwrap_or(i64::MAX)
}

fn flat(shape: &Shape) -> FlatShape<'_> {
    let catalog = &shape.catalog;
    let metrics = catalog.metrics.iter().filter(|(desc, _)| shape.has(desc.pmid));
    let metrics = metrics.map(|(desc, name)| {
        let MetricDesc { pmid, value_type, indom, semantics, units } = *desc;
        let indom = indom.map(InDom::raw);
        (pmid.raw(), value_type.code(), indom, semantics.code(), units.raw(), (&**name).into())
    });
    let indoms = catalog.indoms.iter().filter(|(indom, _)| shape.has_instances_of(*indom));
    let indoms = indoms.map(|(indom, instances)| {
        let instances = instances.iter().map(|one| (one.id.get(), (&*one.name).into()));
        (indom.raw(), instances.collect())
    });
    let labels = catalog.labels.iter().filter(|(target, _)| match *target {
        LabelTarget::Item(pmid) => shape.has(pmid),
        LabelTarget::InDom(indom) | LabelTarget::Instances(indom) => shape.has_instances_of(indom),
        _ => true,
    });
    let labels = labels.map(|(target, sets)| (Target::of(*target), sets.iter().map(flat_labels)));
    let texts = catalog.texts.iter().filter(|(target, ..)| match *target {
        TextTarget::Metric(pmid) => shape.has(pmid),
        TextTarget::InDom(indom) => shape.has_instances_of(indom),
    });
    let texts = texts.map(|(target, kind, text)| {
        let target = match *target {
            TextTarget::Metric(pmid) => Target::Metric(pmid.raw()),
            TextTarget::InDom(indom) => Target::Indom(indom.raw()),
        };
        (target, *kind == TextKind::OneLine, text.into())
    });
    FlatShape {
        metrics: metrics.collect(),
        indoms: indoms.collect(),
        labels: labels.map(|(target, sets)| (target, sets.collect())).collect(),
        texts: texts.collect(),
        sets: shape.sets.as_slice().into(),
    }
}

fn flat_labels(set: &LabelSet) -> FlatLabels<'_> {
    let pairs = set.pairs().map(|(name, value, flags)| {
        let optional = flags & OPTIONAL != 0;
        (name.into(), value.into(), optional)
    });
    (set.instance.map(InstanceId::get), pairs.collect())
}

impl FlatShape<'_> {
    /// The shape, with a catalog number `id`. `None` if it makes no sense.
    pub(crate) fn unflatten(self, id: u64) -> Option<Shape> {
        let mut catalog = Catalog { id, ..Catalog::default() };
        for (pmid, value_type, indom, semantics, units, name) in self.metrics {
            let indom = indom.map(|raw| InDom::from_raw(raw).ok_or(())).transpose().ok()?;
            let desc = MetricDesc {
                pmid: Pmid::from_raw(pmid),
                value_type: ValueType::from_code(value_type).ok()?,
                indom,
                semantics: Semantics::from_code(semantics).ok()?,
                units: Units::from_raw(units),
            };
            catalog.metrics.push((desc, name.into()));
        }
        for (indom, instances) in self.indoms {
            let instance = |(id, name): FlatInstance<'_>| {
                Some(Instance {
                    id: InstanceId::new(id).ok()?,
                    name: ByteText::from_escaped(&name),
                })
            };
            let instances = instances.into_iter().map(instance).collect::<Option<_>>()?;
            catalog.indoms.push((InDom::from_raw(indom)?, instances));
        }
        for (target, sets) in self.labels {
            let target = target.labelled()?;
            let set = |set| unflatten_labels(target.class(), set);
            let sets = sets.into_iter().map(set).collect::<Option<_>>()?;
            catalog.labels.push((target, sets));
        }
        for (target, one_line, text) in self.texts {
            let target = match target {
                Target::Metric(pmid) => TextTarget::Metric(Pmid::from_raw(pmid)),
                Target::Indom(indom) => TextTarget::InDom(InDom::from_raw(indom)?),
                _ => return None,
            };
            let kind = if one_line { TextKind::OneLine } else { TextKind::Full };
            catalog.texts.push((target, kind, text.into_owned()));
        }
        Some(Shape::of(Arc::new(catalog), self.sets.into_owned()))
    }
}

fn unflatten_labels(class: LabelClass, (instance, pairs): FlatLabels<'_>) -> Option<LabelSet> {
    let pairs = pairs.iter().map(|(name, value, optional)| (&**name, &**value, *optional));
    let set = LabelSet::from_pairs(class, pairs).ok()?;
    match instance {
        Some(id) => Some(set.for_instance(InstanceId::new(id).ok()?)),
        None => Some(set),
    }
}

impl FlatChunk {
    /// The chunk, whose bytes are next in `input`.
    ///
    /// # Errors
    ///
    /// From `input`.
    pub(crate) fn read(self, shape: Arc<Shape>, input: &mut impl Read) -> io::Result<Chunk> {
        let mut bytes = Vec::new();
        input.take(self.bytes).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != self.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let timestamp = |nanos| Timestamp::from_nanos(i128::from(nanos));
        Ok(Chunk {
            shape,
            there: self.there,
            after_gap: self.after_gap,
            first: timestamp(self.first),
            last: timestamp(self.last),
            samples: self.samples,
            bytes,
        })
    }
}

impl Target {
    fn of(target: LabelTarget) -> Self {
        match target {
            LabelTarget::Context => Self::Context,
            LabelTarget::Domain(domain) => Self::Domain(domain),
            LabelTarget::InDom(indom) => Self::Indom(indom.raw()),
            LabelTarget::Cluster { domain, cluster } => Self::Cluster(domain, cluster),
            LabelTarget::Item(pmid) => Self::Metric(pmid.raw()),
            LabelTarget::Instances(indom) => Self::Instances(indom.raw()),
        }
    }

    fn labelled(self) -> Option<LabelTarget> {
        Some(match self {
            Self::Context => LabelTarget::Context,
            Self::Domain(domain) => LabelTarget::Domain(domain),
            Self::Indom(indom) => LabelTarget::InDom(InDom::from_raw(indom)?),
            Self::Cluster(domain, cluster) => LabelTarget::Cluster { domain, cluster },
            Self::Metric(pmid) => LabelTarget::Item(Pmid::from_raw(pmid)),
            Self::Instances(indom) => LabelTarget::Instances(InDom::from_raw(indom)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{Payers, Place, RecordShape, ValueSetShape};

    /// Metric 1 with an instance and all metadata, and metric 2 without values.
    fn shape() -> Shape {
        let indom = InDom::new(70, 1).unwrap();
        let other = InDom::new(70, 2).unwrap();
        let id = InstanceId::new(7).unwrap();
        let desc = |item, indom| MetricDesc {
            pmid: Pmid::new(70, 1, item).unwrap(),
            value_type: ValueType::Double,
            indom: Some(indom),
            semantics: Semantics::Instant,
            units: Units::bytes().per_second(),
        };
        let pairs = [("a", "\"x y\"", true), ("b", "4", false)];
        let labels = |class| LabelSet::from_pairs(class, pairs).unwrap();
        let (one, two) = (desc(1, indom), desc(2, other));
        let cluster = LabelTarget::Cluster { domain: 70, cluster: 1 };
        let of_instance = labels(LabelClass::Instances).for_instance(id);
        let text = |target, kind| (target, kind, "several\nlines \u{fc}".to_owned());
        let instances = vec![Instance { id, name: "7 of \"9\"".into() }];
        let catalog = Catalog {
            id: 1,
            metrics: vec![(one, "mmv.a".into()), (two, "mmv.b".into())],
            indoms: vec![(indom, instances.clone()), (other, instances)],
            labels: vec![
                (LabelTarget::Context, vec![labels(LabelClass::Context)]),
                (LabelTarget::Domain(70), vec![labels(LabelClass::Domain)]),
                (cluster, vec![labels(LabelClass::Cluster)]),
                (LabelTarget::InDom(indom), vec![labels(LabelClass::InDom)]),
                (LabelTarget::Item(one.pmid), vec![labels(LabelClass::Item)]),
                (LabelTarget::Item(two.pmid), vec![labels(LabelClass::Item)]),
                (LabelTarget::Instances(indom), vec![of_instance]),
            ],
            texts: vec![
                text(TextTarget::Metric(one.pmid), TextKind::OneLine),
                text(TextTarget::Metric(two.pmid), TextKind::Full),
                text(TextTarget::InDom(indom), TextKind::Full),
                text(TextTarget::InDom(other), TextKind::Full),
            ],
            payers: Payers::default(),
        };
        let places = [Place { instance: Some(id), source: 0, value: 0 }];
        let value_type = ValueType::Double;
        let layout: RecordShape =
            [ValueSetShape { pmid: one.pmid, value_type, owners: &[0], places: &places }]
                .into_iter()
                .collect();
        Shape::new(&layout, Arc::new(catalog)).0
    }

    #[test]
    fn a_shape_arrives_as_it_was_sent_without_metrics_that_have_no_values() {
        let shape = shape();
        let mut bytes = Vec::new();
        send(&Message::Shape(flat(&shape)), &mut bytes).unwrap();
        let line = read_line(&mut bytes.as_slice()).unwrap().unwrap();
        let Ok(Message::Shape(found)) = serde_json::from_slice(&line) else { panic!() };
        let found = found.unflatten(2).unwrap();
        assert_eq!(found.sets, shape.sets);
        let (sent, found) = (&shape.catalog, &found.catalog);
        assert_eq!(found.metrics, sent.metrics[..1]);
        assert_eq!(found.indoms, sent.indoms[..1]);
        let labels: Vec<_> = sent.labels.iter().enumerate().filter(|(n, _)| *n != 5).collect();
        assert_eq!(
            found.labels.iter().collect::<Vec<_>>(),
            labels.iter().map(|l| l.1).collect::<Vec<_>>()
        );
        assert_eq!(found.texts, [sent.texts[0].clone(), sent.texts[2].clone()]);
    }

    #[test]
    fn a_chunk_arrives_as_it_was_sent_and_its_shape_once() {
        let chunk = Chunk {
            shape: Arc::new(shape()),
            there: vec![true],
            after_gap: true,
            first: Timestamp::new(1_700_000_000, 5).unwrap(),
            last: Timestamp::new(1_700_000_001, 999_999_999).unwrap(),
            samples: 3,
            bytes: b"any bytes\n\0".to_vec(),
        };
        let (mut first, mut next) = (Vec::new(), Vec::new());
        send_head(&chunk, None, &mut first).unwrap();
        first.extend(&chunk.bytes);
        send_head(&chunk, Some(&chunk), &mut next).unwrap();
        next.extend(&chunk.bytes);
        let mut input = first.as_slice();
        let line = read_line(&mut input).unwrap().unwrap();
        assert!(matches!(serde_json::from_slice(&line), Ok(Message::Shape(_))));
        assert_eq!(input, next);
        let line = read_line(&mut input).unwrap().unwrap();
        let Ok(Message::Chunk(head)) = serde_json::from_slice(&line) else { panic!() };
        let found = head.read(Arc::clone(&chunk.shape), &mut input).unwrap();
        let parts = |chunk: &Chunk| {
            let Chunk { there, after_gap, first, last, samples, bytes, .. } = chunk;
            (there.clone(), *after_gap, *first, *last, *samples, bytes.clone())
        };
        assert_eq!(parts(&found), parts(&chunk));
        assert!(read_line(&mut input).unwrap().is_none());
    }

    #[test]
    fn invalid_shapes_are_refused() {
        let mut bytes = Vec::new();
        send(&Message::Shape(flat(&shape())), &mut bytes).unwrap();
        let sound = String::from_utf8(bytes).unwrap();
        for (part, other) in [
            ("[70,", "[70,"),
            (",5,", ",99,"),
            ("[7,\"7 of", "[-7,\"7 of"),
            ("\"4\"", "\"{4\""),
            ("{\"metric\":", "{\"cluster\":"),
            ("\"sets\"", "\"bets\""),
        ] {
            assert!(part == other || sound.contains(part), "{part} in {sound}");
            let spoilt = sound.replace(part, other);
            let found = serde_json::from_str::<Message<'_>>(&spoilt);
            let is_shape = match found {
                Ok(Message::Shape(flat)) => flat.unflatten(2).is_some(),
                _ => false,
            };
            assert_eq!(is_shape, part == other, "{spoilt}");
        }
    }
}
