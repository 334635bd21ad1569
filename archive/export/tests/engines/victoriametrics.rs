//! VictoriaMetrics copies archives by remote read.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::engine::{Engine, block, encoded, program, suites};
use crate::archives::{START, shop};
use crate::server::{Server, get};

#[test]
#[ignore = "needs the engines that ci/engines fetches"]
fn vmctl_copies_an_archive_into_victoriametrics() {
    // That of bookworm has no remote read.
    for engine in suites("victoria-metrics").iter().filter(|name| !name.ends_with("bookworm")) {
        for stream in ["false", "true"] {
            let Some(program) = program(engine, "victoria-metrics") else { return };
            let place = tempfile::tempdir().unwrap();
            shop(&place.path().join("tree/web1/a"), 3);
            let server = Server::start(&place.path().join("tree"), &[]);
            let victoria = Engine::victoria_metrics(&program, &place.path().join("victoria"));
            let page = block("victoriametrics.md", "sh", 0).replace("\\\n", " ");
            let line = page.lines().find_map(|line| line.strip_prefix("vmctl ")).unwrap();
            let line = line
                .replace("127.0.0.1:9465", &server.address.to_string())
                .replace("127.0.0.1:8428", &victoria.address.to_string())
                .replace("stream=true", &format!("stream={stream}"))
                .replace("2026-11-01T00:00:00Z", "2023-11-14T22:00:00Z")
                .replace("2026-11-24T00:00:00Z", "2023-11-14T23:59:00Z");
            let output = Command::new(program.with_file_name("vmctl"))
                .args(line.split_whitespace())
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
