//! Archives made of valid and invalid answers of an agent.

use std::io::{BufRead as _, Write};
use std::os::unix::net::UnixListener;
use std::thread;

use pcp_archive::{Archive, MetricDesc, OwnedValue, Pmid, Semantics, Units, ValueType};

use super::*;
use crate::flight_recorder::{Shape, delta};
use crate::metadata::{Catalog, Place, ValueSetShape};
use crate::source::Values;

const START: i64 = 1_700_000_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_nanos(i128::from(START * 1000 + millis) * 1_000_000)
}

/// A counter of this type called so, sampled every 100 ms.
fn chunk(name: &str, value_type: ValueType, first: i64, values: &[u64]) -> Chunk {
    let pmid = Pmid::new(70, 1, 1).unwrap();
    let (semantics, units) = (Semantics::Counter, Units::NONE);
    let desc = MetricDesc { pmid, value_type, indom: None, semantics, units };
    let catalog = Catalog { metrics: vec![(desc, name.into())], ..Catalog::default() };
    let places = &[Place { instance: None, source: 0, value: 0 }];
    let set = ValueSetShape { pmid, value_type, owners: &[0], places };
    let record_shape = [set].into_iter().collect();
    let (shape, gathers) = Shape::new(&record_shape, Arc::new(catalog));
    let (mut known, mut bytes) = (vec![Values::blank(1, 0)], Vec::new());
    for (number, value) in values.iter().enumerate() {
        delta::put_varint(if number == 0 { 0 } else { 100_000_000 }, &mut bytes);
        let now = Values::of_words(&[*value]);
        delta::encode(&gathers, &mut known, &[Some(&now)], &mut bytes);
    }
    let last = first + 100 * (values.len() as i64 - 1);
    Chunk {
        shape: Arc::new(shape),
        there: vec![true],
        after_gap: false,
        first: at(first),
        last: at(last),
        samples: values.len() as u64,
        bytes,
    }
}

fn hello() -> Hello {
    Hello {
        version: VERSION.to_owned(),
        pid: 77,
        host: "box".to_owned(),
        timezone: "UTC".to_owned(),
        zoneinfo: String::new(),
        server_pid: 5,
        server_seqnum: 6,
        since: wire::nanos(at(0)),
    }
}

/// The answer of an agent with these chunks.
fn answer(chunks: &[Chunk]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::send(&Message::Hello(hello()), &mut out).unwrap();
    for chunk in chunks {
        wire::send_head(chunk, None, &mut out).unwrap();
        out.extend(&chunk.bytes);
    }
    wire::send(&Message::End, &mut out).unwrap();
    out
}

/// Captures from an agent with this answer.
fn capture_of(answer: Vec<u8>) -> (tempfile::TempDir, Result<Captured, Error>) {
    let dir = tempfile::tempdir().unwrap();
    let status = dir.path().join("status.sock");
    let listener = UnixListener::bind(socket(&status)).unwrap();
    let agent = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        let _ = stream.write_all(&answer);
        request
    });
    let captured = capture(&status, Some(Duration::from_secs(5)), &dir.path().join("a"));
    assert_eq!(agent.join().unwrap(), "{\"last\":5.0}\n");
    (dir, captured)
}

/// Time in milliseconds and value of each record; `None` for a mark.
fn records(dir: &tempfile::TempDir) -> Vec<(i64, Option<u64>)> {
    let archive = Archive::open(dir.path().join("a")).unwrap();
    let mut records = archive.records().unwrap();
    let mut found = Vec::new();
    while let Some(record) = records.next().unwrap() {
        let millis = record.timestamp().nanos_since(at(0)) / 1_000_000;
        let owned = record.to_owned(archive.metadata()).unwrap();
        let set = owned.value_sets.iter().find(|set| set.pmid.domain() == 70);
        match set.map(|set| &set.values.as_ref().unwrap()[0].1) {
            Some(OwnedValue::U64(value)) => found.push((millis as i64, Some(*value))),
            Some(OwnedValue::U32(value)) => found.push((millis as i64, Some((*value).into()))),
            _ if record.is_mark() => found.push((millis as i64, None)),
            _ => {}
        }
    }
    found
}

#[test]
fn samples_become_records_and_gaps_marks() {
    let counter = |first, values: &[u64]| chunk("mmv.a", ValueType::U64, first, values);
    let mut late = counter(5000, &[9, 10]);
    late.after_gap = true;
    let (dir, captured) =
        capture_of(answer(&[counter(-100, &[1, 2, 3]), counter(200, &[4]), late]));
    let captured = captured.unwrap();
    let expected = [
        (0, Some(2)),
        (100, Some(3)),
        (200, Some(4)),
        (201, None),
        (5000, Some(9)),
        (5100, Some(10)),
    ];
    assert_eq!(records(&dir), expected);
    assert_eq!((captured.samples, captured.values, captured.left_out), (5, 5, 0));
    assert_eq!(captured.span, (at(0), at(5100)));
    let text = captured.to_string();
    let head =
        "a.0, .meta, .index: 5 samples of 5.1 s, 5 values, 0.0 MB, from 2023-11-14T22:13:20.000Z";
    assert!(text.contains(head), "{text}");
    assert!(
        captured.is_short_of(Duration::from_secs(6))
            && !captured.is_short_of(Duration::from_secs(5))
    );
    let archive = Archive::open(dir.path().join("a")).unwrap();
    assert_eq!((archive.label().pid, &*archive.label().hostname), (77, "box"));
}

#[test]
fn what_metrics_meant_before_is_left_out() {
    for chunks in [
        [chunk("mmv.a", ValueType::U64, 0, &[1, 2]), chunk("mmv.b", ValueType::U64, 200, &[3])],
        [chunk("mmv.a", ValueType::U64, 0, &[1, 2]), chunk("mmv.a", ValueType::U32, 200, &[3])],
    ] {
        let (dir, captured) = capture_of(answer(&chunks));
        let captured = captured.unwrap();
        assert_eq!((captured.samples, captured.left_out), (1, 2));
        assert!(captured.to_string().contains("2 samples before are left out"));
        assert_eq!(records(&dir), [(200, Some(3))]);
    }
}

#[track_caller]
fn refused(answer: Vec<u8>, code: u8) -> String {
    let (dir, captured) = capture_of(answer);
    let error = captured.unwrap_err();
    assert_eq!(error.exit_code(), code, "{error}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    error.to_string()
}

#[test]
fn an_answer_that_is_cut_off_is_no_archive() {
    let whole = answer(&[chunk("mmv.a", ValueType::U64, 0, &[1, 2, 300])]);
    for len in (0..whole.len()).step_by(7) {
        refused(whole[..len].to_vec(), EXIT_IO);
    }
}

#[test]
fn an_answer_that_is_damaged_is_no_archive() {
    let text = |text: &str| text.as_bytes().to_vec();
    refused(text("what?\n"), EXIT_DATA);
    refused(text("\"end\"\n"), EXIT_DATA);
    refused(text("{\"chunk\":{}}\n"), EXIT_DATA);
    refused(answer(&[]), EXIT_FINDINGS);
    refused(text("{\"refused\":\"nothing\"}\n"), EXIT_FINDINGS);
    refused(text("{\"refused\":\"not-configured\"}\n"), EXIT_CONFIG);
    let mut damaged = chunk("mmv.a", ValueType::U64, 0, &[1, 2, 300]);
    damaged.bytes.pop();
    refused(answer(&[damaged]), EXIT_DATA);
    let backwards =
        [chunk("mmv.a", ValueType::U64, 1000, &[1]), chunk("mmv.a", ValueType::U64, 0, &[2])];
    refused(answer(&backwards), EXIT_IO);
    let mut other = Vec::new();
    let hello = Hello { version: "0.0.7".to_owned(), ..hello() };
    wire::send(&Message::Hello(hello), &mut other).unwrap();
    let error = refused(other, EXIT_DATA);
    assert_eq!(error, format!("the agent is of version 0.0.7, this program of {VERSION}"));
}

#[test]
fn any_flipped_bit_is_an_archive_or_none_and_no_panic() {
    let whole = answer(&[chunk("mmv.a", ValueType::U64, 0, &[1, 2, 300])]);
    let dir = tempfile::tempdir().unwrap();
    for bit in (0..8 * whole.len()).step_by(11) {
        let mut answer = whole.clone();
        answer[bit / 8] ^= 1 << (bit % 8);
        let mut input = answer.as_slice();
        let Ok((hello, chunks)) = listen(&mut input, Path::new("socket")) else { continue };
        let base = dir.path().join(bit.to_string());
        let mut replay = Replay::new(&hello, &base, Staging::new(&base).unwrap());
        if chunks.iter().all(|chunk| replay.add(chunk).is_ok()) {
            let _ = replay.finish();
        }
    }
}
