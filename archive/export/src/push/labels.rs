//! The encoded labels of a series, which precede its samples in remote write 1.0.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// The first field of `TimeSeries` of 1.0.
#[derive(Clone, PartialEq, Message)]
struct Labels {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
}

/// Encodes labels, which are sorted by name, once for all requests.
pub(super) fn encoded<'l>(labels: impl Iterator<Item = (&'l str, &'l str)>) -> Box<[u8]> {
    let mut message = Labels::default();
    for (name, value) in labels {
        message.labels.push(Label { name: name.into(), value: value.into() });
    }
    message.encode_to_vec().into()
}
