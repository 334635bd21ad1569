//! The tree of tables, and the engines that read it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::generated::Fleet;

struct Engine {
    name: &'static str,
    /// The package that `ci/columns` fetches.
    package: &'static str,
    /// Python that prints the rows, the hosts and the sum of a metric, of the table in `LAKE`.
    program: &'static str,
}

const ENGINES: [Engine; 2] = [
    Engine {
        name: "DataFusion",
        package: "datafusion",
        program: r#"
from datafusion import SessionContext
context = SessionContext()
context.sql("CREATE EXTERNAL TABLE http STORED AS PARQUET "
            "PARTITIONED BY (host, date) LOCATION 'LAKE/'")
rows = context.sql("SELECT count(*) AS rows, count(DISTINCT host) AS hosts, "
                   "sum(CAST(http_m0 AS DECIMAL(38, 0))) AS sum FROM http").to_pydict()
print(rows["rows"][0], rows["hosts"][0], int(rows["sum"][0]))
"#,
    },
    Engine {
        name: "Spark",
        package: "pyspark",
        program: r#"
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
spark.read.parquet("LAKE").createOrReplaceTempView("http")
row = spark.sql("SELECT count(*), count(DISTINCT host), "
                "sum(CAST(http_m0 AS DECIMAL(38, 0))) FROM http").first()
print(row[0], row[1], int(row[2]))
"#,
    },
];

/// Has each engine that there is count rows and hosts, and add up one metric, over the tables
/// of all hosts; compares the answers with what was generated.
pub(crate) fn query(tree: &Path, fleet: &Fleet) {
    let table = fs::read_dir(tree).expect("the tree").next().expect("a table").expect("an entry");
    let lake = table.path();
    let lake = lake.to_str().expect("a path in UTF-8");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for Engine { name, package, program } in ENGINES {
        if !root.join(format!("target/columns/{package}.complete")).exists() {
            println!("skipped: no {name}; ci/columns {package} fetches it");
            continue;
        }
        let start = Instant::now();
        let output = Command::new(root.join("target/columns/bin/python"))
            .args(["-c", &program.replace("LAKE", lake)])
            .output()
            .expect("run Python");
        let seconds = start.elapsed().as_secs_f64();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}\n{error}");
        let expected = format!("{} {} {}", fleet.rows(), fleet.hosts(), fleet.sum());
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{name}");
        println!("{:<44} {seconds:>10.2} s", format!("{name}: count and sum over all hosts"));
    }
}
