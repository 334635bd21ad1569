//! A producer of another kind: a file of version 1 as in C, which numbers its instances by
//! their order, and is rewritten in place with another order while it is read.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::journal::Journal;
use super::plan::PERMANENT;
use super::registries::shuffle;
use super::target::{Metrics, Target};
use crate::harness::dice::Dice;

const COUNT: usize = PERMANENT as usize;
const HEADER: usize = 40;
const TOC_ENTRY: usize = 16;
const INDOM: usize = 32;
const INSTANCE: usize = 80;
const METRIC: usize = 104;
const VALUE: usize = 32;
const INDOM_AT: usize = HEADER + 4 * TOC_ENTRY;
const INSTANCES_AT: usize = INDOM_AT + INDOM;
const METRICS_AT: usize = INSTANCES_AT + COUNT * INSTANCE;
const VALUES_AT: usize = METRICS_AT + 2 * METRIC;
const LENGTH: usize = VALUES_AT + 2 * COUNT * VALUE;
const GENERATION_1: usize = 8;
const GENERATION_2: usize = 16;

pub(super) struct InPlace {
    metrics: Metrics,
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    generation: u64,
    order: Vec<u64>,
    counts: [u64; COUNT],
    levels: [u64; COUNT],
}

fn instance_name(instance: u64) -> String {
    format!("row {instance}")
}

impl InPlace {
    pub(super) fn new(
        directory: &Path,
        name: &str,
        dice: &mut Dice,
        journal: &mut Journal,
    ) -> Self {
        let metrics = Metrics {
            counters: vec![format!("mmv.{name}.count")],
            gauges: vec![format!("mmv.{name}.level")],
            ..Metrics::default()
        };
        for instance in 0..PERMANENT {
            journal.note_zero(&metrics.counters[0], &instance_name(instance));
            journal.note_zero_gauge(&metrics.gauges[0], &instance_name(instance));
        }
        let mut order: Vec<u64> = (0..PERMANENT).collect();
        shuffle(&mut order, dice);
        let generation = u64::from(std::process::id()) << 16;
        let (hidden, path) = (directory.join(format!(".{name}")), directory.join(name));
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&hidden);
        let mut state = State {
            file: file.expect("create the MMV file"),
            generation,
            order,
            counts: [0; COUNT],
            levels: [0; COUNT],
        };
        state.write();
        fs::rename(&hidden, &path).expect("rename the MMV file");
        Self { metrics, path, state: Mutex::new(state) }
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        fs::remove_file(&self.path).expect("remove the MMV file");
    }
}

impl State {
    fn write(&mut self) {
        self.put(GENERATION_2, &0_u64.to_ne_bytes());
        self.generation += 1;
        let image = self.image();
        self.put(0, &image[..GENERATION_2]);
        self.put(GENERATION_2 + 8, &image[GENERATION_2 + 8..]);
        self.put(GENERATION_2, &image[GENERATION_2..GENERATION_2 + 8]);
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, at as u64).expect("write the MMV file");
    }

    fn image(&self) -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, b"MMV\0");
        put(4, &1_u32.to_ne_bytes());
        put(GENERATION_1, &self.generation.to_ne_bytes());
        put(GENERATION_2, &self.generation.to_ne_bytes());
        put(24, &4_u32.to_ne_bytes());
        let process_flag = 2_u32;
        put(28, &process_flag.to_ne_bytes());
        put(32, &std::process::id().to_ne_bytes());
        let count = COUNT as u32;
        let sections = [
            (1_u32, 1, INDOM_AT),
            (2, count, INSTANCES_AT),
            (3, 2, METRICS_AT),
            (4, 2 * count, VALUES_AT),
        ];
        for (entry, (kind, count, at)) in sections.iter().enumerate() {
            let toc = HEADER + entry * TOC_ENTRY;
            put(toc, &kind.to_ne_bytes());
            put(toc + 4, &count.to_ne_bytes());
            put(toc + 8, &(*at as u64).to_ne_bytes());
        }
        let serial = 1_u32;
        put(INDOM_AT, &serial.to_ne_bytes());
        put(INDOM_AT + 4, &count.to_ne_bytes());
        put(INDOM_AT + 8, &(INSTANCES_AT as u64).to_ne_bytes());
        for (metric, (name, semantics)) in [("count", 1_u32), ("level", 3)].iter().enumerate() {
            let at = METRICS_AT + metric * METRIC;
            let (item, u64_type, count_units) = (metric as u32 + 1, 3_u32, 1_u32 << 20);
            put(at, name.as_bytes());
            for (field, number) in
                [item, u64_type, *semantics, count_units, serial].iter().enumerate()
            {
                put(at + 64 + 4 * field, &number.to_ne_bytes());
            }
        }
        for (number, instance) in self.order.iter().enumerate() {
            let at = INSTANCES_AT + number * INSTANCE;
            put(at, &(INDOM_AT as u64).to_ne_bytes());
            put(at + 12, &(number as u32).to_ne_bytes());
            put(at + 16, instance_name(*instance).as_bytes());
            let values = [self.counts, self.levels].map(|values| values[*instance as usize]);
            for (metric, value) in values.iter().enumerate() {
                let slot = value_at(metric, number);
                put(slot, &value.to_ne_bytes());
                put(slot + 16, &((METRICS_AT + metric * METRIC) as u64).to_ne_bytes());
                put(slot + 24, &(at as u64).to_ne_bytes());
            }
        }
        bytes
    }

    fn store(&self, metric: usize, instance: u64, value: u64) {
        let number = self.order.iter().position(|one| *one == instance).expect("an instance");
        self.put(value_at(metric, number), &value.to_ne_bytes());
    }
}

fn value_at(metric: usize, number: usize) -> usize {
    VALUES_AT + (metric * COUNT + number) * VALUE
}

impl Target for InPlace {
    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn name(&self, instance: u64) -> String {
        instance_name(instance)
    }

    fn add(&self, _: usize, instance: u64, delta: u64) {
        let mut state = self.state.lock().unwrap();
        state.counts[instance as usize] += delta;
        state.store(0, instance, state.counts[instance as usize]);
    }

    fn set(&self, _: usize, instance: u64, value: u64) {
        let mut state = self.state.lock().unwrap();
        state.levels[instance as usize] = value;
        state.store(1, instance, value);
    }

    fn reorder(&self, dice: &mut Dice) {
        let mut state = self.state.lock().unwrap();
        shuffle(&mut state.order, dice);
        state.write();
    }
}
