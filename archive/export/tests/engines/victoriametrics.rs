//! VictoriaMetrics copies archives by remote read.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::archives::{START, shop};
use crate::engine::{Engine, encoded, program, suites};
use crate::server::{Server, get};

#[test]
fn vmctl_copies_an_archive_into_victoriametrics() {
    // That of bookworm has no remote read.
    for engine in suites("victoria-metrics").iter().filter(|name| !name.ends_with("bookworm")) {
        for stream in ["false", "true"] {
            let Some(program) = program(engine, "victoria-metrics") else { return };
            let place = tempfile::tempdir().unwrap();
            shop(&place.path().join("tree/web1/a"), 3);
            let server = Server::start(&place.path().join("tree"), &[]);
            let victoria = Engine::victoria_metrics(&program, &place.path().join("victoria"));
            let output = Command::new(program.with_file_name("vmctl"))
                .args(["remote-read", "-s", "--disable-progress-bar=true"])
                .arg(format!("--remote-read-src-addr=http://{}", server.address))
                .arg(format!("--remote-read-use-stream={stream}"))
                .args(["--remote-read-step-interval=hour"])
                .args(["--remote-read-filter-time-start=2023-11-14T22:00:00Z"])
                .args(["--remote-read-filter-time-end=2023-11-14T23:59:00Z"])
                .arg(format!("--vm-addr=http://{}", victoria.address))
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let said =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success(), "{said}");
            get(victoria.address, "/internal/force_flush", &[]);
            let selector = encoded("mmv_shop_orders_total");
            let path = format!("/api/v1/export?match[]={selector}&start={}", START - 10);
            let exported = get(victoria.address, &path, &[]);
            let series: Value = serde_json::from_str(exported.text().trim()).expect(&said);
            let list = |key: &str| series[key].as_array().unwrap().len();
            // All records and the 0 of the restart; marks are stale markers, which have no value.
            assert!(
                (352..=353).contains(&list("values")),
                "{}: {}",
                list("values"),
                exported.text()
            );
            assert_eq!(list("values"), list("timestamps"));
            assert_eq!(series["values"][0], 60);
            assert_eq!(series["timestamps"][0], START * 1_000);
        }
    }
}
