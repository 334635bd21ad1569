//! The `VictoriaMetrics` that all hosts are pushed into.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::disk_usage::directory_bytes;
use crate::engine::Engine;
use crate::generated::Fleet;
use crate::server::{get, memory, processor_seconds};

/// Hosts of which all samples are counted.
const LOOKED_AT: usize = 20;

pub(crate) struct Receiver {
    engine: Engine,
    place: PathBuf,
    /// Processor time up to the last call, in seconds.
    counted: Cell<f64>,
}

#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) cpu: f64,
    pub(crate) memory: u64,
}

impl Receiver {
    pub(crate) fn start(program: &Path, place: &Path) -> Self {
        let engine = Engine::victoria_metrics(program, place);
        Self { engine, place: place.join("data"), counted: Cell::default() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.engine.address
    }

    /// What it used until it had received this number of samples and written them.
    pub(crate) fn usage_until(&self, samples: u64) -> Received {
        self.wait_until(samples);
        get(self.address(), "/internal/force_flush", &[]);
        let id = self.engine.id();
        let all = processor_seconds(id);
        let cpu = all - self.counted.replace(all);
        Received { cpu, memory: memory(id, "VmRSS:").expect("its memory") }
    }

    pub(crate) fn wait_until(&self, samples: u64) {
        let until = Instant::now() + Duration::from_secs(3_600);
        while self.received() < samples {
            assert!(Instant::now() < until, "{} of {samples} samples", self.received());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub(crate) fn stop(self) -> u64 {
        self.engine.stop();
        directory_bytes(&self.place)
    }

    fn received(&self) -> u64 {
        let answer = get(self.address(), "/metrics", &[]);
        let name = "vm_rows_inserted_total{type=\"promremotewrite\"}";
        let line = answer.text().lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse::<f64>().ok()).unwrap_or(0.0) as u64
    }

    pub(crate) fn assert_has(&self, fleet: &Fleet) {
        let hosts: Vec<(&str, u64)> = fleet.last_of_first_metric().collect();
        for (name, last) in hosts.iter().step_by(hosts.len().div_ceil(LOOKED_AT)) {
            let count = format!("sum(count_over_time({{hostname=\"{name}\"}}[1d]))");
            let samples = self.engine.value(&count, fleet.end());
            assert_eq!(samples as u64, fleet.samples_of_a_host(), "{name}");
            let selector = format!("mmv_shop_http_m0_total{{hostname=\"{name}\"}}");
            let sum = format!("sum(last_over_time({selector}[1d]))");
            assert_eq!(self.engine.value(&sum, fleet.end()) as u64, *last, "{name}");
        }
        println!("{LOOKED_AT} hosts: all samples are there");
    }
}
