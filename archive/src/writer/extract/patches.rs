//! Records in which only identifiers change: words that are put into a copy of the bytes.
//!
//! Records of one shape have the same metrics and instances at the same places, so the words are
//! found once for each shape.

use super::mapping::Mapping;
use crate::format::{ShapeId, WORD, result};
use crate::writer::rewrite::renumbered;
use crate::{InstanceId, Record, Version};

/// Limit on known shapes of records, as in the reader.
const MAX_SHAPES: usize = 8;

/// The places and words of one shape; `None` if records of it have to be encoded again.
type Patches = Option<Vec<(u32, u32)>>;

/// The patches of the last shapes; the newest shape in front.
#[derive(Debug, Default)]
pub(super) struct KnownPatches {
    shapes: Vec<(ShapeId, Patches)>,
    /// The numbers of instances for which they were found.
    numbers_version: u64,
}

impl KnownPatches {
    /// Returns the places in a record and the words that they get; `None` if more than
    /// identifiers changes, or the shape of the record is not known.
    pub(super) fn find(
        &mut self,
        record: &Record<'_>,
        version: Version,
        mapping: &Mapping,
    ) -> Option<&[(u32, u32)]> {
        let shape = record.shape()?;
        if self.numbers_version != mapping.numbers_version() {
            self.numbers_version = mapping.numbers_version();
            self.shapes.clear();
        }
        let known = self.shapes.iter().position(|(known, _)| *known == shape);
        if let Some(place) = known {
            self.shapes.get_mut(..=place)?.rotate_right(1);
        } else {
            self.shapes.truncate(MAX_SHAPES - 1);
            self.shapes.insert(0, (shape, find(record, version, mapping)));
        }
        self.shapes.first()?.1.as_deref()
    }
}

fn find(record: &Record<'_>, version: Version, mapping: &Mapping) -> Patches {
    let mut patches = Vec::new();
    let mut at = result::head_size(version);
    for set in record.value_sets() {
        let copied = mapping.copied(set.pmid())?;
        if copied.instances.is_some() || copied.values.is_some() {
            return None;
        }
        if copied.pmid != set.pmid() {
            patches.push((at as u32, copied.pmid.raw()));
        }
        at += 2 * WORD;
        if set.is_empty() {
            continue;
        }
        at += WORD;
        for (instance, _) in set.stored() {
            let new = renumbered(instance, copied.new_numbers).ok()?;
            if new != instance {
                patches.push((at as u32, InstanceId::option_raw(new)));
            }
            at += 2 * WORD;
        }
    }
    Some(patches)
}
