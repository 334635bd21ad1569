//! The tree of tables, and `DataFusion`'s look at it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::generated::Fleet;

/// The size of all files below a directory, in bytes.
pub(crate) fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).expect("a directory");
    let sizes = entries.map(|entry| {
        let entry = entry.expect("an entry");
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.len(),
            // An engine has removed it meanwhile.
            Err(_) => 0,
        }
    });
    sizes.sum()
}

/// Counts, and adds up one metric, over the tables of all hosts; compares both with what was
/// generated.
pub(crate) fn query(tree: &Path, fleet: &Fleet) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join("target/columns/datafusion.complete").exists() {
        println!("skipped: no DataFusion; ci/columns datafusion fetches it");
        return;
    }
    let table = fs::read_dir(tree).expect("the tree").next().expect("a table").expect("an entry");
    let program = format!(
        "from datafusion import SessionContext\n\
         context = SessionContext()\n\
         context.sql(\"CREATE EXTERNAL TABLE http STORED AS PARQUET \
         PARTITIONED BY (host, date) LOCATION '{}/'\")\n\
         rows = context.sql(\"SELECT count(*) AS rows, count(DISTINCT host) AS hosts, \
         sum(CAST(mmv_shop_http_m0 AS DECIMAL(38, 0))) AS sum FROM http\").to_pydict()\n\
         print(rows['rows'][0], rows['hosts'][0], int(rows['sum'][0]))\n",
        table.path().display()
    );
    let start = Instant::now();
    let python = root.join("target/columns/bin/python");
    let output = Command::new(python).args(["-c", &program]).output().expect("run Python");
    let seconds = start.elapsed().as_secs_f64();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}\n{error}");
    let expected = format!("{} {} {}", fleet.rows(), fleet.hosts(), fleet.sum());
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected);
    println!("{:<44} {seconds:>10.2} s", "DataFusion: count and sum over all hosts");
}
