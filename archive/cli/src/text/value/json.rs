//! Values as JSON.

use std::fmt::{self, Display};

use pcp_archive::raw::event::{EventArray, EventRecord};
use pcp_archive::{ByteText, Metadata, Pmid, Timestamp, Value};
use serde::{Serialize, Serializer};

use crate::text::descriptor::type_name;
use crate::text::push_hex;

/// A value that keeps its type in JSON: integers have all 64 bits; numbers that JSON
/// does not have are the strings `"NaN"`, `"inf"` and `"-inf"`; bytes are an object
/// with their hexadecimal digits. A string is its [`ByteText`].
///
/// An event array is an object with its records:
///
/// ```text
/// {"event":[{"time":"2023-11-14T22:13:20.500000000Z","seconds":1700000000.5,"flags":1,
///            "parameters":[
///              {"pmid":"70.1.2","metric":"acme.path","type":"string","value":"/"}]},
///           {"time":"2023-11-14T22:13:21.000000000Z","seconds":1700000001.0,
///            "flags":2147483648,"missed":3,"parameters":[]}]}
/// ```
///
/// A damaged event array has its hexadecimal digits and the `error`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<'a> {
    value: Value<'a>,
    /// Has the names of event parameters.
    metadata: Option<&'a Metadata>,
}

impl<'a> Json<'a> {
    pub(crate) const fn new(value: Value<'a>, metadata: &'a Metadata) -> Self {
        Self { value, metadata: Some(metadata) }
    }

    /// Wraps a computed number.
    pub(crate) const fn number(number: f64) -> Self {
        Self { value: Value::Double(number), metadata: None }
    }

    fn events<S: Serializer>(
        &self,
        serializer: S,
        kind: &'static str,
        bytes: &[u8],
    ) -> Result<S::Ok, S::Error> {
        match EventArray::unpack(self.value) {
            Ok(array) => {
                let metadata = self.metadata;
                let records = array.records().map(|record| TimedEventJson {
                    time: Rfc3339(record.timestamp()),
                    seconds: EpochSeconds(record.timestamp()),
                    event: EventJson::new(record, metadata),
                });
                serializer.collect_map([(kind, records.collect::<Vec<_>>())])
            }
            Err(error) => {
                serializer.collect_map([(kind, hex_digits(bytes)), ("error", error.to_string())])
            }
        }
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::I32(v) => serializer.serialize_i32(v),
            Value::U32(v) => serializer.serialize_u32(v),
            Value::I64(v) => serializer.serialize_i64(v),
            Value::U64(v) => serializer.serialize_u64(v),
            Value::Float(v) if v.is_finite() => serializer.serialize_f32(v),
            Value::Float(v) => serializer.serialize_str(not_finite(f64::from(v))),
            Value::Double(v) if v.is_finite() => serializer.serialize_f64(v),
            Value::Double(v) => serializer.serialize_str(not_finite(v)),
            Value::String(bytes) => serializer.serialize_str(&ByteText::escape(bytes)),
            Value::Aggregate(bytes) => serializer.collect_map([("aggregate", hex_digits(bytes))]),
            Value::Event(bytes) => self.events(serializer, "event", bytes),
            Value::HighresEvent(bytes) => self.events(serializer, "highres_event", bytes),
        }
    }
}

/// A time as text of RFC 3339 in UTC, with all its nanoseconds; beyond the years that jiff has,
/// the seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rfc3339(pub(crate) Timestamp);

/// As in the errors of the library: with the decimals that the time has.
impl Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(self.0.as_nanos()) {
            Ok(instant) => instant.fmt(f),
            Err(_) => self.0.fmt(f),
        }
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match jiff::Timestamp::from_nanosecond(self.0.as_nanos()) {
            Ok(instant) => serializer.collect_str(&format_args!("{instant:.9}")),
            Err(_) => serializer.collect_str(&self.0),
        }
    }
}

/// A time as the number of seconds since 1970, to a quarter of a microsecond.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EpochSeconds(pub(crate) Timestamp);

impl Serialize for EpochSeconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fraction = f64::from(self.0.nanoseconds()) / 1e9;
        serializer.serialize_f64(self.0.seconds() as f64 + fraction)
    }
}

fn not_finite(value: f64) -> &'static str {
    match (value.is_nan(), value.is_sign_negative()) {
        (true, _) => "NaN",
        (false, false) => "inf",
        (false, true) => "-inf",
    }
}

fn hex_digits(bytes: &[u8]) -> String {
    let mut digits = Vec::with_capacity(bytes.len() * 2);
    for byte in bytes {
        push_hex(&mut digits, *byte);
    }
    String::from_utf8_lossy(&digits).into_owned()
}

#[derive(Debug, Serialize)]
struct TimedEventJson<'a> {
    time: Rfc3339,
    seconds: EpochSeconds,
    #[serde(flatten)]
    event: EventJson<'a>,
}

/// One record of an event array.
#[derive(Debug, Serialize)]
pub(crate) struct EventJson<'a> {
    /// The bits of `PM_EVENT_FLAG_*`, as in the metric `event.flags`.
    flags: u32,
    /// The number of lost records that this one represents.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u32>,
    parameters: Vec<ParameterJson<'a>>,
}

#[derive(Debug, Serialize)]
struct ParameterJson<'a> {
    pmid: String,
    metric: Option<&'a str>,
    #[serde(rename = "type")]
    value_type: &'static str,
    value: Json<'a>,
}

impl<'a> EventJson<'a> {
    pub(crate) fn new(record: EventRecord<'a>, metadata: Option<&'a Metadata>) -> Self {
        let parameters = record.parameters();
        let parameters = parameters.map(|(pmid, value)| ParameterJson::new(pmid, value, metadata));
        Self {
            flags: record.flags().bits(),
            missed: record.missed(),
            parameters: parameters.collect(),
        }
    }
}

impl<'a> ParameterJson<'a> {
    fn new(pmid: Pmid, value: Value<'a>, metadata: Option<&'a Metadata>) -> Self {
        let metric = metadata.and_then(|metadata| metadata.metric(pmid));
        Self {
            pmid: pmid.to_string(),
            metric: metric.and_then(|metric| metric.names.first()).map(AsRef::as_ref),
            value_type: type_name(value.value_type()),
            value: Json { value, metadata },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_archive::raw::event::{EventArrayBuilder, EventFlags};

    fn json(value: Value<'_>) -> String {
        serde_json::to_string(&Json::new(value, &Metadata::default())).unwrap()
    }

    #[test]
    fn json_keeps_the_type_and_all_bits() {
        assert_eq!(json(Value::U64(u64::MAX)), "18446744073709551615");
        assert_eq!(json(Value::I64(i64::MIN)), "-9223372036854775808");
        assert_eq!(json(Value::Double(0.1)), "0.1");
        assert_eq!(json(Value::Float(0.1)), "0.1");
        assert_eq!(json(Value::Double(f64::NEG_INFINITY)), "\"-inf\"");
        assert_eq!(json(Value::String(b"a\nb")), "\"a\\nb\"");
        assert_eq!(json(Value::String(b"caf\xe9")), r#""caf\\xe9""#);
        assert_eq!(json(Value::Aggregate(&[1, 255])), "{\"aggregate\":\"01ff\"}");
    }

    #[test]
    fn a_time_is_text_in_utc_and_a_number() {
        let json = |seconds, nanos| {
            let at = Timestamp::new(seconds, nanos).unwrap();
            serde_json::to_string(&(Rfc3339(at), EpochSeconds(at))).unwrap()
        };
        let expected = r#"["2023-11-14T22:13:20.123456789Z",1700000000.1234567]"#;
        assert_eq!(json(1_700_000_000, 123_456_789), expected);
        assert_eq!(json(0, 0), r#"["1970-01-01T00:00:00.000000000Z",0.0]"#);
        // After the year 9999.
        assert_eq!(json(1 << 40, 5), r#"["1099511627776.000000005",1099511627776.0]"#);
    }

    #[test]
    fn an_event_array_is_its_records() {
        let at = |seconds| Timestamp::new(seconds, 500).unwrap();
        let mut builder = EventArrayBuilder::highres();
        let record = builder.record(at(1), EventFlags::START | EventFlags::ID).unwrap();
        record.parameter(Pmid::new(70, 1, 2).unwrap(), Value::U64(u64::MAX)).unwrap();
        builder.missed(at(2), 3).unwrap();
        let array = builder.finish();
        let expected = "{\"highres_event\":[\
            {\"time\":\"1970-01-01T00:00:01.000000500Z\",\"seconds\":1.0000005,\"flags\":10,\"parameters\":[{\"pmid\":\"70.1.2\",\
            \"metric\":null,\"type\":\"u64\",\"value\":18446744073709551615}]},\
            {\"time\":\"1970-01-01T00:00:02.000000500Z\",\"seconds\":2.0000005,\"flags\":2147483648,\"missed\":3,\"parameters\":[]}]}";
        assert_eq!(json(array.as_value()), expected);
    }

    #[test]
    fn an_array_that_does_not_unpack_is_its_bytes_and_the_reason() {
        let expected = "{\"event\":\"00000002\",\
            \"error\":\"timestamp: expected 8 bytes, found 0\"}";
        assert_eq!(json(Value::Event(&[0, 0, 0, 2])), expected);
    }
}
