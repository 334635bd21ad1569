//! The meaning of an answer.
//!
//! | answer | verdict |
//! |---|---|
//! | 2xx | stored; of remote write 2.0 only if it counts all samples as written |
//! | 2xx of OTLP with refused points | stored except for these |
//! | none, 408, 429, 5xx | not now: the same request is repeated |
//! | 400, 422 or 500 about samples that are too old or out of order | too old |
//! | 500 about native histograms that are disabled | no receiver |
//! | 400, 413, 422 | refused: some samples are invalid, or the request is too large |
//! | any other, also a redirect | no receiver |
//!
//! Prometheus rolls back the whole request if it refuses one sample. For "too old" the status is 500
//! in version 2.42, and 400 later.

use std::time::Duration;

use pcp_types::printable;

use super::Protocol;
use super::client::Answer;
#[cfg(feature = "otlp")]
use super::otlp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All samples are stored.
    Stored,
    /// Some points are refused and all others stored: the request must not be repeated.
    #[cfg(feature = "otlp")]
    StoredInPart { refused: u64, why: String },
    /// The request must be repeated unchanged, after the delay that the receiver asks for.
    NotNow {
        after: Option<Duration>,
        /// Whether some samples may be stored.
        may_be_stored: bool,
        why: String,
    },
    /// The receiver has newer samples of a series and accepts no older ones.
    TooOld(String),
    /// The receiver accepts no samples of any series from this time.
    TooOldForAll(String),
    /// Some samples are refused.
    Refused(String),
    /// The URL does not accept these requests.
    NoReceiver(String),
}

/// Messages of Prometheus about a series whose last sample is newer.
const OUT_OF_ORDER: [&str; 1] = ["out of order"];
/// Messages of Prometheus about samples before its time limit.
const TOO_OLD: [&str; 2] = ["too old", "out of bounds"];

/// Messages of Prometheus before 3.8 without `--enable-feature=native-histograms`.
const NO_HISTOGRAMS: [&str; 1] = ["native histograms are disabled"];

pub(super) fn verdict(
    answer: Result<Answer, ureq::Error>,
    protocol: Protocol,
    samples: u64,
) -> Verdict {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let why = text(error.to_string().as_bytes());
            return Verdict::NotNow { after: None, may_be_stored: true, why };
        }
    };
    let said = format!("{} {}", answer.status, text(&answer.text));
    match answer.status {
        200..300 => stored(&answer, protocol, samples, &said),
        400 | 422 | 500 if has_any(&answer.text, &TOO_OLD) => Verdict::TooOldForAll(said),
        400 | 422 | 500 if has_any(&answer.text, &OUT_OF_ORDER) => Verdict::TooOld(said),
        400 | 500 if has_any(&answer.text, &NO_HISTOGRAMS) => Verdict::NoReceiver(said),
        400 | 413 | 422 => Verdict::Refused(said),
        408 | 429 => Verdict::NotNow { after: answer.retry_after, may_be_stored: false, why: said },
        500..600 => Verdict::NotNow { after: answer.retry_after, may_be_stored: true, why: said },
        _ => Verdict::NoReceiver(said),
    }
}

/// Returns the verdict on a successful request. Receivers that only support remote write 1.0 answer
/// requests of 2.0 with 204 and store nothing.
fn stored(answer: &Answer, protocol: Protocol, samples: u64, said: &str) -> Verdict {
    #[cfg(feature = "otlp")]
    if protocol == Protocol::Otlp
        && let Some((refused, why)) = otlp::refused(&answer.text)
    {
        return Verdict::StoredInPart { refused: refused.min(samples), why: text(why.as_bytes()) };
    }
    if protocol != Protocol::RemoteWrite2 || answer.written == Some(samples) {
        return Verdict::Stored;
    }
    Verdict::NoReceiver(match answer.written {
        None => format!("{said}: the answer has no count of stored samples, as 2.0 requires"),
        Some(written) => format!("{said}: only {written} of {samples} samples were stored"),
    })
}

fn has_any(text: &[u8], words: &[&str]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// Returns the first line of a text, shortened and made printable.
fn text(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line: String = String::from_utf8_lossy(line).chars().take(200).collect();
    printable::line(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(status: u16, text: &str) -> Verdict {
        let answer = Answer { status, text: text.into(), ..Answer::default() };
        verdict(Ok(answer), Protocol::RemoteWrite1, 3)
    }

    #[test]
    fn each_status_has_a_verdict() {
        assert_eq!(verdict_of(204, ""), Verdict::Stored);
        assert_eq!(verdict_of(200, ""), Verdict::Stored);
        assert!(matches!(verdict_of(400, "label name \"a-b\" is invalid"), Verdict::Refused(_)));
        assert!(matches!(verdict_of(400, "duplicate sample for timestamp"), Verdict::Refused(_)));
        assert!(matches!(verdict_of(413, ""), Verdict::Refused(_)));
        assert!(matches!(verdict_of(400, "out of order sample"), Verdict::TooOld(_)));
        assert!(matches!(verdict_of(400, "out of bounds"), Verdict::TooOldForAll(_)));
        assert!(matches!(verdict_of(500, "too old sample"), Verdict::TooOldForAll(_)));
        let disabled = verdict_of(500, "native histograms are disabled");
        assert!(matches!(disabled, Verdict::NoReceiver(_)), "a retry cannot help");
        for status in [500, 502, 503, 504] {
            assert!(matches!(verdict_of(status, ""), Verdict::NotNow { may_be_stored: true, .. }));
        }
        for status in [408, 429] {
            assert!(matches!(verdict_of(status, ""), Verdict::NotNow { may_be_stored: false, .. }));
        }
        for status in [301, 302, 307, 401, 403, 404, 405, 415] {
            assert!(matches!(verdict_of(status, ""), Verdict::NoReceiver(_)), "{status}");
        }
    }

    #[test]
    fn without_a_count_of_what_was_written_2_0_is_not_stored() {
        let verdict_of = |written| {
            let answer = Answer { status: 204, written, ..Answer::default() };
            verdict(Ok(answer), Protocol::RemoteWrite2, 3)
        };
        assert_eq!(verdict_of(Some(3)), Verdict::Stored);
        assert!(matches!(verdict_of(None), Verdict::NoReceiver(_)));
        assert!(matches!(verdict_of(Some(2)), Verdict::NoReceiver(_)));
    }

    #[test]
    #[cfg(feature = "otlp")]
    fn what_a_receiver_of_otlp_refuses_is_what_its_answer_says() {
        let verdict_of = |text: &[u8]| {
            let answer = Answer { status: 200, text: text.to_vec(), ..Answer::default() };
            verdict(Ok(answer), Protocol::Otlp, 3)
        };
        let refused = |refused, why: &str| Verdict::StoredInPart { refused, why: why.to_owned() };
        for whole in [&b""[..], b"\x0a\x00", b"\x0a\x03\x12\x01x", b"{}", b"OK"] {
            assert_eq!(verdict_of(whole), Verdict::Stored, "{whole:?}");
        }
        assert_eq!(verdict_of(b"\x0a\x05\x08\x02\x12\x01x"), refused(2, "x"));
        assert_eq!(verdict_of(b"\x0a\x02\x08\x09"), refused(3, ""), "no more than were sent");
        // A negative number makes no sense.
        let negative = [&b"\x0a\x0b\x08"[..], &[0xff; 9], &[1]].concat();
        assert_eq!(verdict_of(&negative), Verdict::Stored);
    }

    #[test]
    fn what_a_receiver_says_is_one_short_printable_line() {
        let Verdict::Refused(said) =
            verdict_of(400, &format!("\u{1b}[31m{}\nmore", "x".repeat(999)))
        else {
            panic!()
        };
        assert!(said.len() < 300 && !said.contains('\u{1b}') && !said.contains("more"), "{said}");
    }
}
