//! Names of tables, columns and folders.
//!
//! | rows of | table |
//! |---|---|
//! | metrics without instances of an application | the application: `shop`, `kernel` |
//! | metrics with the instances of a domain | what their names share: `shop_requests`, `disk_dev` |
//! | such metrics that only share the application | with the domain's serial: `shop_indom_7` |
//! | the buckets of a histogram | the histogram: `shop_latency` |
//! | any of them, if another table has the name | with the domain's number and a hash of the application: `disk_dev_indom_60_9_x98c1f3a2` |
//!
//! The application of `mmv.shop.orders` is `mmv.shop`, that of `disk.dev.read` is `disk`.
//!
//! | column of | name |
//! |---|---|
//! | a metric | without the application: `orders`; the whole name if another column has this name |
//! | a metric whose type has changed | with the type: `orders_f64` |
//! | a label | the label: `endpoint`; `label_endpoint` if another column has this name |

use std::fmt::Write as _;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_archive::InDom;
use pcp_archive::internal::programs::DOMAIN;

use super::batch::{CellType, Shape};
use crate::mapping::{application, metric_name, suffix};

/// The names of columns that engines derive from folders.
const FOLDERS: [&str; 2] = ["host", "date"];
/// Limit on the bytes of a folder's name; longer names are shortened and end in a hash. File systems
/// allow 255.
const MAX_NAME: usize = 200;
/// The bits of an instance domain's serial that a program chooses, in the agent's domain.
const PROGRAM_SERIAL: u32 = (1 << 11) - 1;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TableKey {
    pub(super) application: String,
    pub(super) indom: Option<InDom>,
    /// The histogram whose buckets are the rows.
    pub(super) histogram: Option<String>,
}

impl TableKey {
    /// Returns the key of the table of a metric that is not a counter of buckets.
    pub(super) fn new(metric: &str, indom: Option<InDom>) -> Self {
        let application = application(metric).to_owned();
        Self { application, indom, histogram: None }
    }
}

#[derive(Debug, Default)]
pub(super) struct TableNames {
    known: HashMap<TableKey, String>,
    taken: HashSet<String>,
}

impl TableNames {
    /// Returns the name of a table, which is chosen once. `metrics` are the names of all metrics
    /// with columns in it.
    pub(super) fn take<'m>(
        &mut self,
        key: &TableKey,
        metrics: impl Iterator<Item = &'m str>,
    ) -> String {
        if let Some(name) = self.known.get(key) {
            return name.clone();
        }
        let mut name = match (&key.histogram, key.indom) {
            (Some(histogram), _) => table_name(histogram),
            (None, None) => table_name(&key.application),
            (None, Some(indom)) => domain_name(&key.application, indom, metrics),
        };
        shorten(&mut name);
        let lower = name.to_ascii_lowercase();
        if !self.taken.insert(lower) {
            let indom = key.indom.map_or_else(String::new, |indom| {
                format!("_indom_{}_{}", indom.domain(), indom.serial())
            });
            name += &indom;
            name += &suffix(&key.application);
            self.taken.insert(name.to_ascii_lowercase());
        }
        self.known.insert(key.clone(), name.clone());
        name
    }
}

/// Returns the name of the table of a branch: programs without the part that all of them have.
fn table_name(branch: &str) -> String {
    metric_name(branch.strip_prefix("mmv.").unwrap_or(branch))
}

fn domain_name<'m>(
    application: &str,
    indom: InDom,
    metrics: impl Iterator<Item = &'m str>,
) -> String {
    let shared = metrics.map(|name| name.split('.').collect::<Vec<_>>()).reduce(|one, other| {
        let same = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
        one.into_iter().take(same).collect()
    });
    let shared = shared.unwrap_or_default().join(".");
    if shared.len() > application.len() {
        return table_name(&shared);
    }
    let is_ours = indom.domain() == DOMAIN;
    let serial = if is_ours { indom.serial() & PROGRAM_SERIAL } else { indom.serial() };
    format!("{}_indom_{serial}", table_name(application))
}

/// The names of the columns of a table, the same in the files of all hosts. Engines do not
/// distinguish upper from lower case.
#[derive(Debug)]
pub(super) struct ColumnNames {
    /// By the whole name of the column and its type.
    of_metrics: HashMap<(String, CellType), String>,
    of_labels: HashMap<Arc<str>, String>,
    taken: HashSet<String>,
}

impl ColumnNames {
    /// Creates the names of a table whose shape has some columns already.
    pub(super) fn new(shape: Shape) -> Self {
        let (before, after) = shape.columns();
        let fixed = before.iter().chain(after).chain(&FOLDERS);
        let taken = fixed.map(|name| (*name).to_owned()).collect();
        Self { of_metrics: HashMap::new(), of_labels: HashMap::new(), taken }
    }

    /// Returns the name of a metric's column: the short name if it is free, else the whole one, with
    /// the type if the metric has a column of another one.
    pub(super) fn metric_column(
        &mut self,
        short: &str,
        whole: &str,
        cell_type: CellType,
    ) -> String {
        let key = (whole.to_owned(), cell_type);
        if let Some(known) = self.of_metrics.get(&key) {
            return known.clone();
        }
        let is_other = self.of_metrics.keys().any(|(name, _)| name == whole);
        let ending = if is_other { format!("_{}", cell_type.as_str()) } else { String::new() };
        let name = self.free_name([short, whole], &ending);
        self.of_metrics.insert(key, name.clone());
        name
    }

    /// Returns the name of a label's column.
    pub(super) fn label_column(&mut self, label: &Arc<str>) -> String {
        if let Some(known) = self.of_labels.get(label) {
            return known.clone();
        }
        let name = self.free_name([label, &format!("label_{label}")], "");
        self.of_labels.insert(Arc::clone(label), name.clone());
        name
    }

    /// Takes the first name that no column has, or the last one with a hash.
    fn free_name(&mut self, wanted: [&str; 2], ending: &str) -> String {
        let [short, whole] = wanted.map(|name| format!("{name}{ending}"));
        let hashed = format!("{whole}{}", suffix(&whole));
        for name in [short, whole] {
            if self.taken.insert(name.to_ascii_lowercase()) {
                return name;
            }
        }
        self.taken.insert(hashed.to_ascii_lowercase());
        hashed
    }
}

/// Escapes a name for a path that engines parse: characters other than `[a-zA-Z0-9._-]` become
/// `%HH`, as in Hive.
pub(super) fn folder(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    shorten(&mut escaped);
    escaped
}

/// Shortens a name to [`MAX_NAME`] bytes and a hash.
fn shorten(name: &mut String) {
    if name.len() > MAX_NAME {
        let suffix = suffix(name);
        let mut end = MAX_NAME;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        name.push_str(&suffix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_for_what_their_metrics_share() {
        let mut names = TableNames::default();
        let mut name = |metric: &str, indom: Option<(u32, u32)>, metrics: &[&str]| {
            let indom = indom.map(|(domain, serial)| InDom::new(domain, serial).unwrap());
            names.take(&TableKey::new(metric, indom), metrics.iter().copied())
        };
        let shop = ["mmv.shop.latency.bucket", "mmv.shop.latency.sum"];
        assert_eq!(name("mmv.shop.orders", None, &[]), "shop");
        assert_eq!(name(shop[0], Some((70, 2049)), &shop), "shop_latency");
        let direct = ["mmv.shop.errors", "mmv.shop.requests"];
        assert_eq!(name(direct[0], Some((70, 2050)), &direct), "shop_indom_2");
        let disks = ["disk.dev.read", "disk.dev.write"];
        assert_eq!(name(disks[0], Some((60, 1)), &disks), "disk_dev");
        assert_eq!(name("kernel.all.load", None, &[]), "kernel");
        assert_eq!(name("mmv.orders", None, &[]), "mmv");
        assert_eq!(name("uptime", None, &[]), "uptime");
        let other = ["disk.dev.total"];
        let taken = name(other[0], Some((60, 9)), &["disk.dev.a", "disk.dev.b"]);
        assert_eq!(taken, format!("disk_dev_indom_60_9{}", suffix("disk")));
        // It keeps the name that it has, whatever metrics come.
        assert_eq!(name(other[0], Some((60, 1)), &other), "disk_dev");
    }

    #[test]
    fn a_column_has_a_longer_name_if_another_one_has_its_own() {
        let mut names = ColumnNames::new(Shape { has_bounds: true, ..Shape::default() });
        assert_eq!(names.metric_column("a_b", "mmv_a_b", CellType::U64), "a_b");
        assert_eq!(names.metric_column("a_b", "mmv_a_b", CellType::U64), "a_b");
        assert_eq!(names.metric_column("a_b", "mmv_a_b", CellType::F64), "a_b_f64");
        assert_eq!(names.metric_column("A_b", "mmv_c_A_b", CellType::U64), "mmv_c_A_b");
        assert_eq!(names.metric_column("lower", "mmv_shop_lower", CellType::U64), "mmv_shop_lower");
        assert_eq!(
            names.metric_column("host", "host", CellType::U64),
            format!("host{}", suffix("host"))
        );
        assert_eq!(names.label_column(&"path".into()), "path");
        assert_eq!(names.label_column(&"upper".into()), "label_upper");
        assert_eq!(names.label_column(&"a_b".into()), "label_a_b");
        assert_eq!(names.metric_column("path", "mmv_shop_path", CellType::U64), "mmv_shop_path");
    }

    #[test]
    fn folders_have_nothing_that_engines_or_shells_take_apart() {
        assert_eq!(folder("web-1.example_org"), "web-1.example_org");
        assert_eq!(folder("a=b/*\u{e9}"), "a%3Db%2F%2A%C3%A9");
        assert_eq!(folder(&"x".repeat(300)).len(), MAX_NAME + 10);
    }
}
