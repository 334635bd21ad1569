//! The bytes of a file, in libpcp_mmv's layout: the sections follow the table of
//! contents in the order of their codes, without gaps.
//!
//! Source: `mmv_init` of `src/libpcp_mmv/src/mmv_stats.c`.

use mmv_format::content::Value;
use mmv_format::layout::{Header, MAGIC, Version};
use zerocopy::IntoBytes;

use crate::content::{Content, is_singular};
use crate::value::TYPE_STRING;

/// The header's fields that do not depend on the content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) version: Version,
    pub(crate) cluster: i32,
    pub(crate) flags: u32,
}

/// Encodes all bytes of a file, with the values of all metrics; the generations, which are set at
/// publication, are 0.
pub(crate) fn encode(content: &mut Content, identity: Identity) -> Vec<u8> {
    content.values = values(content);
    let image = content.encode(identity.version, None);
    let header = Header {
        magic: MAGIC,
        version: identity.version.code(),
        generation1: 0,
        generation2: 0,
        toc_count: image.toc.len() as i32,
        flags: identity.flags,
        pid: std::process::id().cast_signed(),
        cluster: identity.cluster,
    };
    let values = image.values.as_bytes();
    [header.as_bytes(), image.toc.as_bytes(), &image.metadata, values, &image.texts].concat()
}

/// Returns the values of all metrics, in the order of the metrics and their instances.
fn values(content: &Content) -> Vec<Option<Value>> {
    let mut values = Vec::new();
    for (index, metric) in content.metrics.iter().enumerate() {
        let is_text = metric.type_code == TYPE_STRING;
        let value = |instance| Some(Value { metric: index, instance, is_text });
        if is_singular(metric.indom) {
            values.push(value(None));
        } else {
            let instances = content.instances_of(metric.indom).unwrap_or_default();
            values.extend(instances.map(|instance| value(Some(instance))));
        }
    }
    values
}
