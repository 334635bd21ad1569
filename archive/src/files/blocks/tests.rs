use std::io::Write as _;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::*;
use crate::files::decompressed::DecompressedFile;

/// Bytes that differ everywhere and yet compress: a counter in words.
fn counting(len: usize) -> Vec<u8> {
    (0..len.div_ceil(4) as u32).flat_map(u32::to_be_bytes).take(len).collect()
}

fn xz(bytes: &[u8], block: usize) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    for part in bytes.chunks(block) {
        encoder.write_all(part).unwrap();
        // Ends the block.
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}

/// The same with blocks as the agent makes them: sizes in the headers, and sums of four bytes.
fn own_xz(bytes: &[u8], block: usize) -> Vec<u8> {
    let mut index = XzIndex::default();
    let mut out = XzIndex::header(CRC32).to_vec();
    let mut options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
    options.dict_size(1 << 16);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma2(&options);
    for part in bytes.chunks(block) {
        let mut stream = Stream::new_raw_encoder(&filters).unwrap();
        let mut packed = Vec::with_capacity(2 * block);
        let finish = liblzma::stream::Action::Finish;
        let done = stream.process_vec(part, &mut packed, finish).unwrap();
        assert_eq!(done, liblzma::stream::Status::StreamEnd);
        let header = block_header(packed.len() as u64, part.len() as u64, 1 << 16);
        index.push((header.len() + packed.len() + 4) as u64, part.len() as u64);
        out.extend(header);
        out.extend(&packed);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(crc32fast::hash(part).to_le_bytes());
    }
    out.extend(index.finish(CRC32));
    out
}

/// As frames of zstd with a seek table, whose entries end with a checksum if `sums`.
fn zstd_frames(bytes: &[u8], block: usize, sums: bool) -> Vec<u8> {
    let mut sizes = Vec::new();
    let mut out = Vec::new();
    for part in bytes.chunks(block) {
        let mut encoder = zstd::bulk::Compressor::new(1).unwrap();
        encoder.set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(true)).unwrap();
        let frame = encoder.compress(part).unwrap();
        sizes.push((frame.len() as u32, part.len() as u32));
        out.extend(frame);
    }
    let mut table = seek_table(&sizes);
    if sums {
        let size = u32::from_le_bytes(table[4..8].try_into().unwrap());
        table[4..8].copy_from_slice(&(size + 4 * sizes.len() as u32).to_le_bytes());
        for n in 0..sizes.len() {
            table.splice(16 + 12 * n..16 + 12 * n, *b"sum?");
        }
        let at = table.len() - 5;
        table[at] = 0x80;
    }
    out.extend(table);
    out
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn table(compression: Compression, bytes: &[u8]) -> Option<BlockTable> {
    BlockTable::read(&file(bytes), bytes.len() as u64, compression).unwrap()
}

/// A file with a cache of its own: other tests read too.
fn open(compression: Compression, bytes: &[u8]) -> BlockFile {
    let table = table(compression, bytes).expect("a table");
    BlockFile::with_cache(file(bytes), table, Arc::default()).unwrap()
}

fn read(file: &mut BlockFile, offset: usize, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_at(&mut bytes, offset as u64).map(|()| bytes)
}

fn all(bytes: &[u8]) -> [(Compression, Vec<u8>); 4] {
    [
        (Compression::Xz, xz(bytes, 100_000)),
        (Compression::Xz, own_xz(bytes, 100_000)),
        (Compression::Zstd, zstd_frames(bytes, 100_000, false)),
        (Compression::Zstd, zstd_frames(bytes, 100_000, true)),
    ]
}

#[test]
fn the_table_has_every_block() {
    let bytes = counting(450_001);
    for (compression, packed) in all(&bytes) {
        let table = table(compression, &packed).unwrap();
        let starts: Vec<_> = table.blocks.iter().map(|block| block.start).collect();
        assert_eq!(starts, [0, 100_000, 200_000, 300_000, 400_000], "{compression:?}");
        assert_eq!((table.len, table.largest), (450_001, 100_000));
        assert_eq!(
            [0, 99_999, 100_000, 450_000, 450_001].map(|at| table.find(at)),
            [0, 0, 1, 4, 5]
        );
    }
}

#[test]
fn several_streams_with_padding_are_one_file() {
    let bytes = counting(300_000);
    let [one, other] = [xz(&bytes[..150_000], 100_000), xz(&bytes[150_000..], 100_000)];
    let packed = [&one[..], &[0; 8], &other, &[0; 4]].concat();
    let mut file = open(Compression::Xz, &packed);
    assert_eq!(file.packed.table.blocks.len(), 4);
    assert!(read(&mut file, 0, 300_000).unwrap() == bytes);
}

#[test]
fn each_block_is_decompressed_once_in_any_order() {
    let bytes = counting(450_001);
    for (compression, packed) in all(&bytes) {
        let mut file = open(compression, &packed);
        assert_eq!(file.available(0, u64::MAX, u64::MAX).unwrap(), 450_001);
        assert_eq!(file.available(450_000, 1, 99).unwrap(), 1);
        assert_eq!(file.available(450_001, 0, 99).unwrap(), 0);
        assert!(file.current.is_none() || file.current.as_ref().unwrap().0 == 4, "only the last");
        for at in [449_990, 250_000, 99_995, 0, 199_999] {
            assert_eq!(
                read(&mut file, at, 11).unwrap(),
                bytes[at..at + 11],
                "{compression:?} {at}"
            );
        }
        assert!(read(&mut file, 450_000, 2).is_err());
        // Another reader finds what this one has decompressed.
        let same = file.packed.file.try_clone().unwrap();
        let (table, cache) = (file.packed.table.clone(), Arc::clone(&file.cache));
        let mut other = BlockFile::with_cache(same, table, cache).unwrap();
        for number in [0, 1, 2, 4] {
            let block = file.load(number).unwrap();
            assert!(Arc::ptr_eq(&block, &other.load(number).unwrap()), "{number}");
        }
    }
}

#[test]
fn the_next_blocks_are_decompressed_ahead_in_both_directions() {
    if crate::files::parallel::threads() < 2 {
        return;
    }
    let bytes = counting(1_000_000);
    let packed = zstd_frames(&bytes, 100_000, false);
    let mut file = open(Compression::Zstd, &packed);
    let known = |file: &BlockFile| {
        let has = |number: &usize| file.cache.has(file.packed.id, *number);
        (0..10).filter(has).collect::<Vec<_>>()
    };
    // As many threads as there may be are free at each step.
    let load = |file: &mut BlockFile, number| {
        file.cache.settle();
        file.load(number).unwrap();
        known(file)
    };
    // One beside the first that is sought, and then none until that was of use.
    assert_eq!(load(&mut file, 2), [2, 3]);
    assert_eq!(load(&mut file, 5), [2, 3, 5]);
    assert!(load(&mut file, 6).contains(&7));
    assert!(load(&mut file, 0).contains(&1));
    // The last one is first for a search for the end: what is near it is next, as much as
    // the threads that are free can do.
    let mut back = open(Compression::Zstd, &packed);
    let near = (9 - crate::files::parallel::threads()..10).collect::<Vec<_>>();
    assert_eq!(load(&mut back, 9), near);
    assert_eq!(load(&mut back, 8), near);
    (near[0]..8).rev().for_each(|number| assert!(load(&mut back, number).contains(&number)));
    assert!(known(&back).contains(&(near[0] - 1)));
    // Another reader of the file waits for the block that is being decompressed.
    let mut one = open(Compression::Zstd, &packed);
    one.load(3).unwrap();
    let (table, cache) = (one.packed.table.clone(), Arc::clone(&one.cache));
    let same = one.packed.file.try_clone().unwrap();
    let mut other = BlockFile::with_cache(same, table, cache).unwrap();
    let block = other.load(4).unwrap();
    assert!(Arc::ptr_eq(&block, &one.load(4).unwrap()));
    assert!(read(&mut file, 0, 1_000_000).unwrap() == bytes);
}

#[test]
fn a_damaged_block_is_lost_alone() {
    let bytes = counting(450_001);
    for (compression, mut packed) in all(&bytes) {
        let block = table(compression, &packed).unwrap().blocks[2];
        packed[block.at as usize + block.size as usize / 2] ^= 1;
        let mut file = open(compression, &packed);
        assert_eq!(file.available(150_000, 0, 60_000).unwrap(), 50_000, "{compression:?}");
        assert_eq!(file.available(150_000, 50_000, 60_000).unwrap(), 50_000);
        assert!(file.available(150_000, 50_001, 60_000).is_err());
        assert!(read(&mut file, 200_000, 1).is_err());
        assert_eq!(file.damaged_until(250_000), Some(300_000));
        assert_eq!(file.damaged_until(199_999), None);
        assert!(read(&mut file, 0, 200_000).unwrap() == bytes[..200_000]);
        assert!(read(&mut file, 300_000, 150_001).unwrap() == bytes[300_000..]);
    }
}

#[test]
fn a_block_with_another_sum_is_damaged() {
    let bytes = counting(450_001);
    let mut packed = own_xz(&bytes, 100_000);
    let block = table(Compression::Xz, &packed).unwrap().blocks[2];
    // The sum is after the padding.
    let end = block.at as usize + xz::padded(u64::from(block.size)) as usize;
    for at in end - 4..end {
        packed[at] ^= 1;
        let mut file = open(Compression::Xz, &packed);
        let error = read(&mut file, 200_000, 1).unwrap_err();
        assert!(error.to_string().contains("CRC32"), "{error}");
        assert!(read(&mut file, 300_000, 150_001).unwrap() == bytes[300_000..]);
        packed[at] ^= 1;
    }
    assert!(read(&mut open(Compression::Xz, &packed), 0, 450_001).unwrap() == bytes);
}

#[test]
fn a_block_whose_header_is_damaged_is_lost_alone() {
    let bytes = counting(450_001);
    for (compression, packed) in all(&bytes) {
        let block = table(compression, &packed).unwrap().blocks[2];
        for at in 0..16 {
            let mut packed = packed.clone();
            packed[block.at as usize + at] ^= 0x10;
            let Some(table) = table(compression, &packed) else { panic!("{compression:?} {at}") };
            let mut file = BlockFile::new(super::tests::file(&packed), table).unwrap();
            assert!(read(&mut file, 0, 200_000).unwrap() == bytes[..200_000]);
            assert!(read(&mut file, 300_000, 150_001).unwrap() == bytes[300_000..]);
            let lost = read(&mut file, 200_000, 100_000);
            assert!(lost.is_err() || lost.unwrap() == bytes[200_000..300_000]);
        }
    }
}

#[test]
fn a_list_that_contradicts_the_file_is_not_used() {
    let bytes = counting(450_001);
    for (compression, packed) in all(&bytes) {
        let end = table(compression, &packed).unwrap().blocks[4];
        let list = end.at as usize + xz::padded(u64::from(end.size)) as usize + 4;
        for at in list.min(packed.len() - 20)..packed.len() {
            for bit in [1, 0x80] {
                let mut wrong = packed.clone();
                wrong[at] ^= bit;
                // What is in no field that matters may differ.
                let found = table(compression, &wrong);
                let same = found == table(compression, &packed);
                assert!(found.is_none() || same, "{compression:?} {at}");
            }
        }
        for cut in [1, 4, 9, 60] {
            assert_eq!(table(compression, &packed[..packed.len() - cut]), None);
        }
        assert_eq!(table(compression, &[&packed[..], b"more"].concat()), None);
        assert_eq!(table(compression, b""), None);
    }
}

#[test]
fn a_list_of_more_than_a_file_can_have_is_not_used() {
    // 20 000 blocks of 16 MiB in a file of some hundred kilobytes.
    let mut index = XzIndex::default();
    (0..20_000).for_each(|_| index.push(8, 16 << 20));
    let body = vec![1; 8 * 20_000];
    let packed = [&XzIndex::header(1)[..], &body, &index.finish(1)].concat();
    assert_eq!(table(Compression::Xz, &packed), None);
    let frames = vec![(8, 16 << 20); 20_000];
    let packed = [body, seek_table(&frames)].concat();
    assert_eq!(table(Compression::Zstd, &packed), None);
    let mut large = XzIndex::default();
    large.push(1 << 20, MAX_BLOCK + 1);
    let packed = [&XzIndex::header(1)[..], &vec![1; 1 << 20], &large.finish(1)].concat();
    assert_eq!(table(Compression::Xz, &packed), None);
}

#[test]
fn a_block_that_is_a_bomb_has_no_more_bytes_than_listed() {
    let zeros = vec![0; 20 << 20];
    let frame = zstd::bulk::compress(&zeros, 1).unwrap();
    let table = BlockTable {
        compression: Compression::Zstd,
        blocks: vec![CompressedBlock {
            at: 0,
            size: frame.len() as u32,
            check: 0,
            len: 1000,
            start: 0,
        }],
        len: 1000,
        largest: 1000,
    };
    let mut blocks = BlockFile::new(file(&frame), table).unwrap();
    assert!(read(&mut blocks, 0, 1000).is_err());
    let packed = xz(&zeros, zeros.len());
    let block = super::xz::read_blocks(&file(&packed), packed.len() as u64).unwrap().unwrap()[0];
    let block = CompressedBlock {
        at: block.at,
        size: block.size as u32,
        check: block.check,
        len: 1000,
        start: 0,
    };
    let (room, mut decoder) = (Buffer::new(1000).unwrap(), BlockDecoder::default());
    assert!(block.decompress(&file(&packed), Compression::Xz, &mut decoder, room).is_err());
}

#[test]
fn other_decoders_read_the_whole_file() {
    let bytes = counting(450_001);
    for (compression, packed) in all(&bytes) {
        let mut stream =
            DecompressedFile::new(file(&packed), packed.len() as u64, compression, false);
        assert_eq!(stream.available(0, u64::MAX, u64::MAX).unwrap(), 450_001);
        let mut found = vec![0; 450_001];
        stream.read_at(&mut found, 0).unwrap();
        assert!(found == bytes);
    }
    let own = own_xz(&bytes, 100_000);
    let mut decoder = XzDecoder::new(&own[..]);
    let mut found = Vec::new();
    decoder.read_to_end(&mut found).unwrap();
    assert!(found == bytes);
}

static MEGABYTE: LazyLock<Vec<u8>> = LazyLock::new(|| counting(1_000_000));
static PACKED_MEGABYTE: LazyLock<[(Compression, Vec<u8>); 4]> = LazyLock::new(|| all(&MEGABYTE));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn reads_in_any_order_give_the_bytes(places in prop::collection::vec((0usize..900_000, 0usize..100_000), 1..8)) {
        for (compression, packed) in &*PACKED_MEGABYTE {
            let mut file = open(*compression, packed);
            for &(offset, len) in &places {
                let found = read(&mut file, offset, len).unwrap();
                prop_assert!(found == MEGABYTE[offset..offset + len]);
            }
        }
    }
}
