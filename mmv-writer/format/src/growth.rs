//! Growing files, and the use of metadata that was read before a file grew.
//!
//! Input: the table of contents and the values of a file as they were read. Output: whether
//! the file has only been appended to since then, and which of its cells still belong to the
//! same metric and instance.
//!
//! The writer of a growing file follows section 10 of `docs/mmv-format.md`: entries never
//! move, a value entry keeps its metric and its instance entry, and the value entries of a
//! removed instance lose their metric before its instance entry is used again, which changes its
//! count of reuses and its number. Other
//! programs promise none of this. A growing file is recognized by its table of contents, which
//! no other program writes.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use pcp_types::InstanceId;
use zerocopy::FromBytes;

use crate::layout::{
    Flags, Header, INSTANCE_OFFSET, METRIC_OFFSET, SectionKind, TocEntry, Version,
};

/// The table of contents of a growing file, which has version 3.
pub const GROWING_SECTIONS: [SectionKind; 9] = [
    SectionKind::Labels,
    SectionKind::Values,
    SectionKind::Metrics,
    SectionKind::Indoms,
    SectionKind::Indoms,
    SectionKind::Instances,
    SectionKind::Instances,
    SectionKind::Strings,
    SectionKind::Strings,
];

/// Size of the table of contents of a growing file.
const TOC_BYTES: usize = GROWING_SECTIONS.len() * TocEntry::BYTES;

/// Delay between the announcement of a removal and the reuse of the entry, and between the
/// extension of a file and the first count that needs it. A reader that takes longer between
/// two of its own reads could take new content for old.
pub const REUSE_DELAY: Duration = Duration::from_millis(100);

/// The table of contents of a growing file, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrowingToc(Box<[u8]>);

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only readers make one"))]
impl GrowingToc {
    /// Offset in the file of the first byte after it.
    pub const END: usize = Header::BYTES + TOC_BYTES;

    /// Copies a table of contents; `None` if it is not that of a growing file.
    pub(crate) fn new(version: Version, toc: &[u8]) -> Option<Self> {
        let kinds = lines(toc).map(|line| line.kind);
        let expected = GROWING_SECTIONS.iter().map(|kind| kind.code());
        (version == Version::V3 && kinds.eq(expected)).then(|| Self(toc.into()))
    }

    /// Returns whether `later` has the same sections at the same offsets, with no fewer entries
    /// each. A section without offset may have got one.
    pub(crate) fn has_only_grown_to(&self, later: &[u8]) -> bool {
        let mut pairs = lines(&self.0).zip(lines(later));
        self.0.len() == later.len()
            && pairs.all(|(before, after)| {
                let is_new = (before.offset, before.count) == (0, 0);
                let stays = is_new || before.offset == after.offset;
                before.kind == after.kind && stays && before.count <= after.count
            })
    }

    /// Returns the flags in the first bytes of the file, read later than this table of contents;
    /// `None` if the file was changed otherwise than by appending.
    pub fn flags_of_grown(&self, head: &[u8]) -> Option<Flags> {
        let (header, toc) = Header::read_from_prefix(head).ok()?;
        self.has_only_grown_to(toc).then_some(Flags::from_raw(header.flags))
    }
}

/// Returns the entries of a table of contents.
fn lines(toc: &[u8]) -> impl Iterator<Item = TocEntry> {
    toc.chunks_exact(TocEntry::BYTES).filter_map(|line| TocEntry::read_from_bytes(line).ok())
}

/// Metric and instance of each cell of a growing file.
#[derive(Debug, Clone, Default)]
pub struct CellOwners(Box<[CellOwner]>);

/// Metric and instance of a cell, by the offsets of their entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellOwner {
    cell: u32,
    metric: u32,
    /// 0 for a singular metric.
    instance: u32,
    reuses: u32,
    id: i32,
}

/// Offset of the word with count of reuses and number in an instance entry.
const ID_WORD: u64 = 8;

impl CellOwner {
    /// Returns the owner of the cell at an offset, by the offset of the metric's entry, and offset,
    /// number and count of reuses of the instance; `None` if one of the offsets is beyond 4 GiB.
    pub fn new(cell: u64, metric: u64, instance: Option<(u64, InstanceId, u32)>) -> Option<Self> {
        Some(Self {
            cell: u32::try_from(cell).ok()?,
            metric: u32::try_from(metric).ok()?,
            instance: u32::try_from(instance.map_or(0, |(at, ..)| at)).ok()?,
            reuses: instance.map_or(0, |(.., reuses)| reuses),
            id: instance.map_or(0, |(_, id, _)| id.get()),
        })
    }

    /// Returns the word at [`ID_WORD`] in the entry of this instance.
    fn id_word(self) -> u64 {
        zerocopy::transmute!([self.reuses, self.id.cast_unsigned()])
    }
}

impl CellOwners {
    /// Collects the owners of all cells; `None` if one is missing.
    pub fn new(owners: impl Iterator<Item = Option<CellOwner>>) -> Option<Self> {
        owners.collect::<Option<_>>().map(Self)
    }

    /// Returns the offset of the instance's entry and its count of reuses for each value, in order;
    /// the offset is 0 for a singular metric.
    pub fn instances(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().map(|owner| (owner.instance, owner.reuses))
    }

    /// Returns the end of the compared part of an instance entry.
    pub const fn end_of_instance(instance_at: u64) -> u64 {
        instance_at.saturating_add(ID_WORD + 8)
    }

    /// Calls `other` with the index of each value whose cell, loaded before this call, may
    /// belong to another instance or to none. `load` returns the word at an offset of the file.
    ///
    /// The generations must not have changed since the first cell was loaded, so that no entry
    /// was removed and reused in between. When an entry is reused, it gets its new count and number,
    /// one word, before the cells are cleared. So the old word proves that the loaded cells were
    /// those of the old instance, and of no later one of the same name.
    pub fn compare(&self, load: impl Fn(u64) -> Option<u64>, mut other: impl FnMut(usize)) {
        // Cells are loaded before numbers.
        fence(Ordering::Acquire);
        for (index, owner) in self.0.iter().enumerate() {
            let cell = u64::from(owner.cell);
            let instance = u64::from(owner.instance);
            let is_its = load(cell + METRIC_OFFSET) == Some(owner.metric.into())
                && load(cell + INSTANCE_OFFSET) == Some(instance)
                && (instance == 0 || load(instance + ID_WORD) == Some(owner.id_word()));
            if !is_its {
                other(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    fn toc(change: impl Fn(usize, &mut TocEntry)) -> Vec<u8> {
        let lines = GROWING_SECTIONS.iter().enumerate().map(|(index, kind)| {
            let placed = u64::from(index != 3);
            let mut line = TocEntry {
                kind: kind.code(),
                count: 5 * placed as i32,
                offset: placed * 1000 * (index as u64 + 1),
            };
            change(index, &mut line);
            line.as_bytes().to_vec()
        });
        lines.flatten().collect()
    }

    #[test]
    fn a_file_that_grows_is_known_by_its_table_of_contents() {
        let toc = toc(|_, _| ());
        assert!(GrowingToc::new(Version::V3, &toc).is_some());
        assert!(GrowingToc::new(Version::V2, &toc).is_none());
        assert!(GrowingToc::new(Version::V3, &toc[16..]).is_none());
        let longer = [&toc[..], &toc[..16]].concat();
        assert!(GrowingToc::new(Version::V3, &longer).is_none());
        let mut other = toc.clone();
        other[..32].rotate_left(16);
        assert!(GrowingToc::new(Version::V3, &other).is_none());
    }

    #[test]
    fn table_of_contents_grew_if_no_section_moved() {
        let before = GrowingToc::new(Version::V3, &toc(|_, _| ())).unwrap();
        let grew = |change: &dyn Fn(usize, &mut TocEntry)| before.has_only_grown_to(&toc(change));
        assert!(grew(&|_, _| ()));
        assert!(grew(&|index, line| line.count += index as i32));
        assert!(
            grew(&|index, line| if index == 3 {
                line.offset = 77;
            }),
            "it got a place"
        );
        assert!(!grew(&|index, line| if index == 4 {
            line.offset += 8;
        }));
        assert!(!grew(&|index, line| if index == 4 {
            line.count -= 1;
        }));
        assert!(!grew(&|index, line| if index == 4 {
            line.kind = 2;
        }));
        assert!(!before.has_only_grown_to(&[]));
    }
}
