//! Gives metrics names that readers find them by.
//!
//! In: the names of a descriptor, in file order. Out: the same names, or others where
//! PCP's readers would cut a name, cannot hold it, or find another metric by it. A new name has the
//! old one in it, so that nothing is lost:
//!
//! | name | new name |
//! |---|---|
//! | with NUL | each NUL as `\x00`, as [`ByteText`] writes bytes |
//! | of an earlier metric | `NAME_70_1_2`, by the PMID |
//! | longer than 4095 bytes | as much as fits, and `_70_1_2` |

use hashbrown::{HashMap, HashSet};

use super::Renamed;
use crate::format::{DescRecord, desc};
use crate::{ByteText, Metadata, Pmid};

/// Decides about the names of one descriptor after the other.
pub(super) struct NameFilter<'m> {
    /// Metadata of the old archive.
    old: &'m Metadata,
    /// The names that were made.
    new: HashSet<ByteText>,
    /// For which names of which metrics.
    made: HashMap<(ByteText, Pmid), ByteText>,
}

impl<'m> NameFilter<'m> {
    pub(super) fn new(old: &'m Metadata) -> Self {
        Self { old, new: HashSet::new(), made: HashMap::new() }
    }

    /// Returns the names that a descriptor gets, and which of them are new; `None` if it keeps
    /// its own.
    pub(super) fn pass(
        &mut self,
        record: &DescRecord<'_>,
    ) -> Option<(Vec<ByteText>, Vec<Renamed>)> {
        let pmid = record.desc.pmid;
        let mut renamed = Vec::new();
        let names = record.names.iter().map(|name| {
            let Some((new, reason)) = self.new_name(name, pmid) else {
                return ByteText::from_bytes(name);
            };
            let old = ByteText::from_bytes(name);
            renamed.push(Renamed { pmid, old, new: new.clone(), reason });
            new
        });
        let names: Vec<_> = names.collect();
        (!renamed.is_empty()).then_some((names, renamed))
    }

    fn new_name(&mut self, name: &[u8], pmid: Pmid) -> Option<(ByteText, String)> {
        let old = ByteText::from_bytes(name);
        let owner = self.old.metric_by_name(&old).map(|metric| metric.desc.pmid);
        let owner = owner.filter(|owner| *owner != pmid);
        let has_nul = name.contains(&0);
        let too_long = desc::check_len(name).err();
        let reason = if has_nul {
            "PCP's readers cut a name at a NUL".to_owned()
        } else if let Some(error) = &too_long {
            error.to_string()
        } else {
            format!("metric {} has this name", owner?)
        };
        let key = (old, pmid);
        if let Some(known) = self.made.get(&key) {
            return Some((known.clone(), reason));
        }
        let bytes = if has_nul { escape_nul(name) } else { name.to_vec() };
        let fits = owner.is_none() && desc::check_len(&bytes).is_ok();
        let marks = [String::new(), mark(pmid)].into_iter().skip(usize::from(!fits));
        let numbered = (2u32..).map(|number| format!("{}_{number}", mark(pmid)));
        let mut names = marks.chain(numbered).map(|mark| marked(&bytes, &mark));
        // A name that is made must not be one that is there.
        let new = names
            .find(|new| self.old.metric_by_name(new).is_none() && self.new.insert(new.clone()))?;
        self.made.insert(key, new.clone());
        Some((new, reason))
    }
}

/// Returns each NUL as `\x00`, and a backslash that would read as a byte as `\x5c`.
fn escape_nul(name: &[u8]) -> Vec<u8> {
    let parts = name.split(|byte| *byte == 0).map(|part| {
        let mut escaped = Vec::with_capacity(part.len());
        for (at, byte) in part.iter().enumerate() {
            if part.get(at..).is_some_and(is_escape) {
                escaped.extend_from_slice(br"\x5c");
            } else {
                escaped.push(*byte);
            }
        }
        escaped
    });
    parts.collect::<Vec<_>>().join(br"\x00".as_slice())
}

fn is_escape(bytes: &[u8]) -> bool {
    matches!(bytes, [b'\\', b'x', high, low, ..]
        if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

/// Returns a suffix that tells the names of two metrics apart.
fn mark(pmid: Pmid) -> String {
    format!("_{}_{}_{}", pmid.domain(), pmid.cluster(), pmid.item())
}

/// Returns as much of a name as there is room for, and a mark.
fn marked(name: &[u8], mark: &str) -> ByteText {
    let room = desc::MAX_NAME.saturating_sub(mark.len());
    let kept = name.get(..room).unwrap_or(name);
    ByteText::from_bytes(&[kept, mark.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::MetadataRecord;
    use crate::reader::MetadataLoader;
    use crate::{MetricDesc, Semantics, Units, ValueType};

    fn record(item: u32, name: &[u8]) -> DescRecord<'_> {
        let desc = MetricDesc {
            pmid: Pmid::new(70, 1, item).unwrap(),
            value_type: ValueType::U32,
            indom: None,
            semantics: Semantics::Instant,
            units: Units::from_raw(0),
        };
        DescRecord { desc, names: vec![name] }
    }

    /// Returns the names of metrics 70.1.0, 70.1.1 and so on after the filter.
    fn passed(names: &[&[u8]]) -> Vec<Vec<u8>> {
        let records: Vec<_> = (0..).zip(names).map(|(item, name)| record(item, name)).collect();
        let mut loader = MetadataLoader::default();
        for record in &records {
            loader.add(0, MetadataRecord::Desc(record.clone())).unwrap();
        }
        let metadata = loader.finish();
        let mut filter = NameFilter::new(&metadata);
        let names = records.iter().map(|record| match filter.pass(record) {
            Some((new, renamed)) => {
                assert!(renamed[0].new == new[0] && renamed[0].pmid == record.desc.pmid);
                new[0].to_bytes().into_owned()
            }
            None => record.names[0].to_vec(),
        });
        names.collect()
    }

    #[test]
    fn names_that_readers_find_are_kept() {
        let names: [&[u8]; 5] = [b"a.b", b"a c", b"\xff", br"a\x00b", b"40.4"];
        assert_eq!(passed(&names), names);
    }

    #[test]
    fn a_nul_is_written_so_that_it_can_be_read_back() {
        let names: [&[u8]; 2] = [b"a\0b\xe9", b"\0\\xff\\"];
        let new = passed(&names);
        assert_eq!(new[0], b"a\\x00b\xe9");
        assert_eq!(new[1], br"\x00\x5cxff\");
        let text = std::str::from_utf8(&new[1]).unwrap();
        assert_eq!(*ByteText::unescape(text), *names[1]);
    }

    #[test]
    fn the_name_of_an_earlier_metric_gets_the_pmid() {
        let names: [&[u8]; 5] = [b"a.b", b"a.b", b"a.b_70_1_1", b"a\0", b"a\\x00"];
        let expected: [&[u8]; 5] =
            [b"a.b", b"a.b_70_1_1_2", b"a.b_70_1_1", b"a\\x00_70_1_3", b"a\\x00"];
        assert_eq!(passed(&names), expected);
    }

    #[test]
    fn a_name_that_readers_cannot_hold_is_cut() {
        let fits = [b'x'; 4095];
        let longer = [b'x'; 4096];
        let other = [b'x'; 5000];
        let new = passed(&[&fits, &longer, &other]);
        assert_eq!(new[0], fits);
        for (name, mark) in new.iter().skip(1).zip(["xxx_70_1_1", "xxx_70_1_2"]) {
            assert_eq!(name.len(), 4095);
            assert!(name.ends_with(mark.as_bytes()), "{mark}");
        }
    }
}
