//! A ring of chunks of samples.
//!
//! A chunk begins with a complete sample, so the oldest chunks can be dropped. It is never
//! changed, so a capture shares it without delaying the sampler.

use std::collections::VecDeque;
use std::sync::Arc;

use pcp_types::Timestamp;

use super::Shape;

/// How many of the newest shapes are compared with a new one.
const COMPARED: usize = 8;

/// About how many bytes a chunk takes in addition to its samples.
const CHUNK: usize = 200;

/// Samples of one shape.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// What the values are.
    pub shape: Arc<Shape>,
    /// Which of the shape's sources are there.
    pub there: Vec<bool>,
    /// Samples are missing between those before and these.
    pub after_gap: bool,
    /// The time of the first sample.
    pub first: Timestamp,
    /// That of the last one.
    pub last: Timestamp,
    /// How many there are.
    pub samples: u64,
    /// For each: nanoseconds since the one before as a varint, and what
    /// [`delta`](super::delta) makes of it; the first follows upon zeros.
    pub bytes: Vec<u8>,
}

impl Chunk {
    fn size(&self) -> usize {
        CHUNK + self.there.len() + self.bytes.capacity()
    }
}

/// The chunks, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    chunks: VecDeque<Arc<Chunk>>,
    /// Their shapes, with how many of them have each; the newest last.
    shapes: VecDeque<(Arc<Shape>, usize)>,
    size: usize,
}

impl Ring {
    /// About how many bytes of memory it takes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// How many samples there are.
    pub(crate) fn samples(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.samples).sum()
    }

    /// The time of the oldest sample.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.chunks.front().map(|chunk| chunk.first)
    }

    /// A shape like this one that is here already, else this one.
    pub(crate) fn shared(&self, shape: Shape) -> Arc<Shape> {
        let mut newest = self.shapes.iter().rev().take(COMPARED);
        let like = newest.find(|(known, _)| known.is_like(&shape));
        like.map_or_else(|| Arc::new(shape), |(known, _)| Arc::clone(known))
    }

    /// What a shape would add to the size.
    pub(crate) fn cost(&self, shape: &Arc<Shape>) -> usize {
        let known = self.shapes.iter().any(|(known, _)| Arc::ptr_eq(known, shape));
        if known { 0 } else { shape.size }
    }

    /// Adds a chunk that is newer than all others.
    pub(crate) fn push(&mut self, chunk: Chunk) {
        let mut shapes = self.shapes.iter_mut().rev();
        if let Some((_, chunks)) = shapes.find(|(known, _)| Arc::ptr_eq(known, &chunk.shape)) {
            *chunks += 1;
        } else {
            self.size += chunk.shape.size;
            self.shapes.push_back((Arc::clone(&chunk.shape), 1));
        }
        self.size += chunk.size();
        self.chunks.push_back(Arc::new(chunk));
    }

    /// Drops chunks whose samples are all older than `oldest`, and as many more as needed
    /// to be no larger than `most`.
    pub(crate) fn shrink(&mut self, oldest: Timestamp, most: usize) {
        while let Some(chunk) = self.chunks.front()
            && (chunk.last < oldest || self.size > most)
        {
            self.size -= chunk.size();
            let at = self.shapes.iter().position(|(known, _)| Arc::ptr_eq(known, &chunk.shape));
            if let Some((shape, chunks)) = at.and_then(|at| self.shapes.get_mut(at)) {
                *chunks -= 1;
                if *chunks == 0 {
                    self.size -= shape.size;
                }
            }
            self.shapes.retain(|(_, chunks)| *chunks > 0);
            self.chunks.pop_front();
        }
    }

    /// The chunks with samples from `since` on.
    pub(crate) fn since(&self, since: Timestamp) -> impl Iterator<Item = &Arc<Chunk>> {
        self.chunks.iter().filter(move |chunk| chunk.last >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::Set;
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::new(1_700_000_000 + second, 0).unwrap()
    }

    /// A shape that is known by its PMID.
    fn shape(pmid: u32) -> Shape {
        let set = Set { pmid, owners: vec![0], instances: vec![-1], sources: Vec::new() };
        Shape::of(Arc::default(), vec![set])
    }

    fn chunk(shape: &Arc<Shape>, first: i64) -> Chunk {
        Chunk {
            shape: Arc::clone(shape),
            there: vec![true],
            after_gap: false,
            first: at(first),
            last: at(first + 9),
            samples: 10,
            bytes: vec![0; 1000],
        }
    }

    #[test]
    fn the_oldest_chunks_are_dropped_by_time_and_by_size() {
        let (mut ring, shape) = (Ring::default(), Arc::new(shape(1)));
        for first in [0, 10, 20, 30] {
            ring.push(chunk(&shape, first));
        }
        assert_eq!((ring.samples(), ring.first()), (40, Some(at(0))));
        ring.shrink(at(9), usize::MAX);
        assert_eq!(ring.first(), Some(at(0)), "its last sample is not too old");
        ring.shrink(at(10), usize::MAX);
        assert_eq!(ring.first(), Some(at(10)));
        let most = 2 * chunk(&shape, 0).size() + shape.size;
        ring.shrink(at(10), most);
        assert_eq!((ring.first(), ring.size()), (Some(at(20)), most));
        ring.shrink(at(10), most - 1);
        assert_eq!(ring.first(), Some(at(30)));
        assert_eq!(ring.since(at(39)).count(), 1);
        assert_eq!(ring.since(at(40)).count(), 0);
        ring.shrink(at(99), 0);
        assert_eq!((ring.samples(), ring.first(), ring.size()), (0, None, 0));
    }

    #[test]
    fn a_shape_is_kept_once_and_as_long_as_it_is_needed() {
        let mut ring = Ring::default();
        let (one, two) = (Arc::new(shape(1)), Arc::new(shape(2)));
        for (shape, first) in [(&one, 0), (&two, 10), (&one, 20)] {
            ring.push(chunk(shape, first));
        }
        let chunks = 3 * chunk(&one, 0).size();
        assert_eq!(ring.size(), chunks + one.size + two.size);
        assert!(Arc::ptr_eq(&ring.shared(shape(1)), &one));
        assert!(ring.cost(&one) == 0 && ring.cost(&Arc::new(shape(3))) > 0);
        ring.shrink(at(25), usize::MAX);
        assert_eq!(ring.size(), chunks / 3 + one.size);
        assert!(!Arc::ptr_eq(&ring.shared(shape(2)), &two));
    }
}
