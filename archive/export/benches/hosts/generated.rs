//! The archives of a fleet, made by the project's own writer.

use std::path::{Path, PathBuf};

use pcp_archive::raw::{FetchResult, ValueSet};
use pcp_archive::{
    ArchiveWriter, InDom, Instance, InstanceId, MetricDesc, OwnedValue, Pmid, Semantics, Units,
    ValueType, WriterOptions,
};
use test_archives::{at, label};

use crate::Options;
use crate::archives::START;
use crate::disk_usage::directory_bytes;

/// Seconds between records.
pub(crate) const INTERVAL: i64 = 10;
const INSTANCES: u32 = 100;

pub(crate) struct Fleet {
    hosts: Vec<Host>,
    descs: Vec<MetricDesc>,
    random: u64,
    records: u32,
    sum: u128,
}

struct Host {
    directory: PathBuf,
    writer: ArchiveWriter,
    /// The value of each series is the last one and up to 1000 more.
    values: Vec<u64>,
}

impl Fleet {
    pub(crate) fn new(directory: &Path, options: &Options) -> Self {
        assert!(options.series.is_multiple_of(INSTANCES), "{INSTANCES} instances of each metric");
        let indom = InDom::new(70, 1).expect("a domain");
        let desc = |item: u32| MetricDesc {
            pmid: Pmid::new(70, 1, item).expect("a PMID"),
            value_type: ValueType::U64,
            indom: Some(indom),
            semantics: Semantics::Counter,
            units: Units::count(),
        };
        let descs: Vec<MetricDesc> = (0..options.series / INSTANCES).map(desc).collect();
        let instance = |id: u32| Instance {
            id: InstanceId::new(id as i32).expect("an instance"),
            name: format!("/path/{id}").as_str().into(),
        };
        let instances: Vec<_> = (0..INSTANCES).map(instance).collect();
        let host = |number: u32| {
            let name = format!("host{number:05}");
            let directory = directory.join(&name);
            std::fs::create_dir_all(&directory).expect("make a directory");
            let base = directory.join("20231114");
            let mut writer =
                ArchiveWriter::create_with(&base, label(&name), WriterOptions::default())
                    .expect("begin an archive");
            writer.declare_indom(indom, &instances).expect("declare");
            for (number, desc) in descs.iter().enumerate() {
                let name = format!("mmv.shop.http.m{number}");
                writer.declare_metric(desc, &[name.as_str()]).expect("declare");
            }
            Host { directory, writer, values: vec![0; options.series as usize] }
        };
        let hosts = (0..options.hosts).map(host).collect();
        Self { hosts, descs, random: 88_172_645_463_325_252, records: 0, sum: 0 }
    }

    pub(crate) fn log(&mut self) {
        for Host { writer, values, .. } in &mut self.hosts {
            for value in &mut *values {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                *value += self.random % 1_000;
            }
            let first = values.iter().take(INSTANCES as usize);
            self.sum += first.map(|value| u128::from(*value)).sum::<u128>();
            let sets = self.descs.iter().zip(values.chunks(INSTANCES as usize));
            let sets = sets.map(|(desc, values)| {
                let ids = (0..).map(|id| InstanceId::new(id).ok());
                let values = ids.zip(values.iter().map(|value| OwnedValue::U64(*value)));
                ValueSet { pmid: desc.pmid, values: Ok(values.collect()) }
            });
            let timestamp = at(i64::from(self.records) * INTERVAL);
            let result = FetchResult { timestamp, value_sets: sets.collect() };
            writer.write_result(&result).expect("write a record");
        }
        self.records += 1;
    }

    pub(crate) fn parts(&self, parts: usize) -> Vec<Vec<PathBuf>> {
        let size = self.hosts.len().div_ceil(parts);
        let directories: Vec<PathBuf> =
            self.hosts.iter().map(|host| host.directory.clone()).collect();
        directories.chunks(size).map(<[PathBuf]>::to_vec).collect()
    }

    pub(crate) fn last_of_first_metric(&self) -> impl Iterator<Item = (&str, u64)> {
        self.hosts.iter().filter_map(|Host { directory, values, .. }| {
            let name = directory.file_name()?.to_str()?;
            Some((name, values.iter().take(INSTANCES as usize).sum()))
        })
    }

    pub(crate) fn series(&self) -> u64 {
        self.descs.len() as u64 * u64::from(INSTANCES)
    }

    pub(crate) fn samples_of_a_host(&self) -> u64 {
        self.series() * u64::from(self.records)
    }

    pub(crate) fn samples(&self) -> u64 {
        self.hosts.len() as u64 * self.samples_of_a_host()
    }

    pub(crate) fn hosts(&self) -> f64 {
        self.hosts.len() as f64
    }

    pub(crate) fn rows(&self) -> u64 {
        self.hosts.len() as u64 * u64::from(INSTANCES * self.records)
    }

    pub(crate) fn sum(&self) -> u128 {
        self.sum
    }

    /// The time of the last record, seconds since 1970.
    pub(crate) fn end(&self) -> i64 {
        START + i64::from(self.records) * INTERVAL
    }

    pub(crate) fn bytes_of_a_host(&self) -> f64 {
        self.hosts.first().map_or(0, |host| directory_bytes(&host.directory)) as f64
    }
}
