//! The header, the table of contents and the sections' bytes.

use zerocopy::FromBytes;

use super::section::Section;
use super::{
    Budget, Defect, EntryArray, Flags, HEADER_BYTES, HeaderFields, Problem, ReadError, Refusal,
    Source,
};
use crate::growth::GrowingToc;
use crate::layout::{
    Header, MAGIC, MAX_CLUSTER, MAX_INDOMS, MAX_LABELS, MAX_METRICS, STRING_BYTES, SectionKind,
    TocEntry, Version, until_nul,
};

/// Limit on the entries of a table of contents. PCP knows six kinds; growing files have nine
/// sections.
const MAX_SECTIONS: i32 = 64;

/// Reads the first 40 bytes, unchecked.
pub(super) fn read_header<S: Source + ?Sized>(
    budget: &mut Budget<'_, S>,
) -> Result<Header, Refusal> {
    let found = budget.file_len;
    if found < HEADER_BYTES as u64 {
        return Err(Refusal::TooShort { found });
    }
    let bytes = budget.copy(0, HEADER_BYTES as u64)?;
    Header::read_from_bytes(&bytes).map_err(|_| Refusal::TooShort { found })
}

/// Checks all fields of the header that do not depend on the sections.
///
/// The order of the checks matters: no field is used before the version, and a file
/// that is not ready may hold anything.
pub(super) fn check_header(
    bytes: &Header,
    file_len: u64,
) -> Result<(Version, HeaderFields), Refusal> {
    if bytes.magic != MAGIC {
        return Err(Refusal::Magic { found: bytes.magic });
    }
    let found = bytes.version;
    let Some(version) = Version::from_code(found) else {
        return Err(match Version::from_code(found.swap_bytes()) {
            Some(_) => Refusal::ForeignByteOrder { found },
            None => Refusal::Version { found },
        });
    };
    let generation1 = bytes.generation1;
    let generation2 = bytes.generation2;
    if generation1 == 0 || generation1 != generation2 {
        return Err(Refusal::NotReady { generation1, generation2 });
    }
    let cluster = u32::try_from(bytes.cluster).ok().filter(|cluster| *cluster <= MAX_CLUSTER);
    let header = HeaderFields {
        version: version.code().cast_unsigned(),
        generation: generation1,
        flags: Flags::from_raw(bytes.flags),
        pid: bytes.pid,
        cluster: cluster.ok_or(Refusal::Cluster { found: bytes.cluster })?,
        file_len,
    };
    Ok((version, header))
}

/// All sections of a file; absent ones are empty.
#[derive(Debug)]
pub(super) struct Sections {
    pub(super) version: Version,
    /// The bytes of the table of contents.
    pub(super) toc: Vec<u8>,
    pub(super) growing: Option<GrowingToc>,
    /// True if these are the complete sections of a growing file, even if something was appended
    /// while they were read.
    pub(super) are_settled: bool,
    parts: [Section; 6],
}

/// A checked entry of the table of contents.
#[derive(Clone, Copy)]
struct Extent {
    kind: SectionKind,
    offset: u64,
    count: u32,
    bytes: u64,
}

impl Sections {
    /// Reads the table of contents and then the sections, in its order: in a growing file, sections
    /// that refer to others come first.
    pub(super) fn read<S: Source + ?Sized>(
        budget: &mut Budget<'_, S>,
        header: &Header,
        version: Version,
        skipped: &mut Vec<Defect>,
    ) -> Result<Self, Refusal> {
        let toc = read_toc(budget, header)?;
        let growing = GrowingToc::new(version, &toc);
        let entries = toc.chunks_exact(TocEntry::BYTES);
        let mut entries: Vec<TocEntry> =
            entries.filter_map(|bytes| TocEntry::read_from_bytes(bytes).ok()).collect();
        if growing.is_some() && budget.writer_has_ended {
            add_unannounced(&mut entries, budget.file_len, version);
        }
        let mut extents: Vec<Extent> = Vec::new();
        let start = (HEADER_BYTES + toc.len()) as u64;
        for (index, entry) in entries.into_iter().enumerate() {
            let offset = (HEADER_BYTES + index * TocEntry::BYTES) as u64;
            let Some(kind) = SectionKind::from_code(entry.kind) else {
                let problem = Problem::UnknownSection { found: entry.kind };
                skipped.push(Defect { section: EntryArray::Toc, index, offset, problem });
                continue;
            };
            if !may_be_several(kind) && extents.iter().any(|extent| extent.kind == kind) {
                return Err(Refusal::SectionTwice { section: kind, offset: entry.offset });
            }
            extents.push(check_extent(budget, kind, &entry, version, start)?);
        }
        check_set(&extents)?;
        let mut parts: [Section; 6] = Default::default();
        for extent in extents {
            let Extent { kind, offset, count, .. } = extent;
            if let Some(problem) = unusable(&extent, version) {
                skipped.push(Defect {
                    section: EntryArray::Section(kind),
                    index: 0,
                    offset,
                    problem,
                });
                continue;
            }
            let size = kind.entry_bytes(version);
            if let Some(part) = parts.get_mut(kind as usize) {
                part.put_first(size, offset, count, budget.copy_entries(offset, size, count)?);
            }
        }
        Ok(Self { version, toc, growing, are_settled: false, parts })
    }

    pub(super) fn get(&self, kind: SectionKind) -> &Section {
        #[expect(clippy::indexing_slicing, reason = "one part for each kind")]
        &self.parts[kind as usize]
    }

    /// Reads the text of the string entry at `offset`, charged to the budget.
    pub(super) fn text<S: Source + ?Sized>(
        &self,
        budget: &mut Budget<'_, S>,
        offset: u64,
    ) -> Result<Vec<u8>, ReadError> {
        let mut bytes = [0; STRING_BYTES];
        if !self.get(SectionKind::Strings).read(offset, &mut bytes) {
            let file_len = budget.file_len;
            if !budget.holds(offset, STRING_BYTES as u64) {
                return Err(Problem::TextOutside { found: offset, file_len }.into());
            }
            budget.fill(&mut bytes, offset)?;
        }
        let Some(text) = until_nul(&bytes) else {
            return Err(Problem::TextWithoutEnd { found: offset, len: STRING_BYTES }.into());
        };
        budget.spend(text.len() as u64)?;
        Ok(text.to_vec())
    }
}

fn read_toc<S: Source + ?Sized>(
    budget: &mut Budget<'_, S>,
    header: &Header,
) -> Result<Vec<u8>, Refusal> {
    let min = 2;
    let max = MAX_SECTIONS;
    let found = header.toc_count;
    if !(min..=max).contains(&found) {
        return Err(Refusal::TocCount { found, min, max });
    }
    let bytes = u64::from(found.cast_unsigned()) * TocEntry::BYTES as u64;
    let offset = HEADER_BYTES as u64;
    if !budget.holds(offset, bytes) {
        return Err(Refusal::TocOutside { end: offset + bytes, file_len: budget.file_len });
    }
    budget.copy(offset, bytes)
}

/// Raises the counts of a growing file to the room that each section has before the next one or
/// the end of the file. Behind the entries that were announced are those that were not, then zeros.
/// Of several sections at one offset the last one has the room.
fn add_unannounced(entries: &mut [TocEntry], file_len: u64, version: Version) {
    let mut end_of_room = file_len;
    let mut by_offset: Vec<usize> = (0..entries.len()).collect();
    by_offset.sort_by_key(|index| entries.get(*index).map(|entry| entry.offset));
    for index in by_offset.into_iter().rev() {
        let Some(entry) = entries.get_mut(index).filter(|entry| entry.offset > 0) else { continue };
        let Some(kind) = SectionKind::from_code(entry.kind) else { continue };
        // Up to a page before the next section is unused.
        let max = match kind {
            SectionKind::Metrics => MAX_METRICS,
            SectionKind::Labels => MAX_LABELS,
            SectionKind::Indoms => MAX_INDOMS,
            _ => i32::MAX.cast_unsigned(),
        };
        let room = end_of_room.saturating_sub(entry.offset) / kind.entry_bytes(version) as u64;
        let count = room.min(max.into()) as i32;
        entry.count = entry.count.max(count);
        end_of_room = end_of_room.min(entry.offset);
    }
}

/// Returns whether a file may have several sections of a kind: PCP's reader reads the indoms of
/// all, and finds instances and strings wherever they are.
const fn may_be_several(kind: SectionKind) -> bool {
    matches!(kind, SectionKind::Indoms | SectionKind::Instances | SectionKind::Strings)
}

fn check_extent<S: Source + ?Sized>(
    budget: &Budget<'_, S>,
    kind: SectionKind,
    entry: &TocEntry,
    version: Version,
    start: u64,
) -> Result<Extent, Refusal> {
    let count = u32::try_from(entry.count)
        .map_err(|_| Refusal::SectionCount { section: kind, found: entry.count })?;
    let entry_bytes = kind.entry_bytes(version);
    let bytes = u64::from(count) * entry_bytes as u64;
    let offset = entry.offset;
    if count > 0 && (offset < start || !budget.holds(offset, bytes)) {
        let file_len = budget.file_len;
        return Err(Refusal::SectionOutside {
            section: kind,
            offset,
            count,
            entry_bytes,
            start,
            file_len,
        });
    }
    let max = match kind {
        SectionKind::Metrics => MAX_METRICS,
        SectionKind::Indoms => MAX_INDOMS,
        _ => u32::MAX,
    };
    if count > max {
        return Err(Refusal::SectionTooLong { section: kind, found: count, max });
    }
    if kind == SectionKind::Values && count > 0 && !offset.is_multiple_of(8) {
        return Err(Refusal::ValuesMisaligned { offset });
    }
    Ok(Extent { kind, offset, count, bytes })
}

fn check_set(extents: &[Extent]) -> Result<(), Refusal> {
    for section in [SectionKind::Metrics, SectionKind::Values] {
        if !extents.iter().any(|extent| extent.kind == section) {
            return Err(Refusal::SectionMissing { section });
        }
    }
    let mut filled: Vec<Extent> = extents.iter().copied().filter(|one| one.bytes > 0).collect();
    filled.sort_by_key(|extent| extent.offset);
    for (one, next) in filled.iter().zip(filled.iter().skip(1)) {
        let end = one.offset + one.bytes;
        if end > next.offset {
            return Err(Refusal::SectionsOverlap {
                first: one.kind,
                second: next.kind,
                end,
                offset: next.offset,
            });
        }
    }
    Ok(())
}

/// Returns the problem for which a whole section is ignored, if any.
fn unusable(extent: &Extent, version: Version) -> Option<Problem> {
    if extent.kind != SectionKind::Labels || extent.bytes == 0 {
        return None;
    }
    let found = (extent.bytes / SectionKind::Labels.entry_bytes(version) as u64) as u32;
    if version != Version::V3 {
        return Some(Problem::LabelsInVersion { found: version.code() });
    }
    (found > MAX_LABELS).then_some(Problem::TooManyLabels { found })
}
