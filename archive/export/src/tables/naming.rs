//! Names of tables, columns and folders.
//!
//! | rows of | table |
//! |---|---|
//! | metrics without instances of an application | the application: `mmv_shop`, `kernel` |
//! | metrics with the instances of a domain | what their names share: `mmv_shop_latency`, `disk_dev` |
//! | such metrics that only share the application | with the domain's serial: `mmv_shop_indom_7` |
//! | such metrics, if another table has the name | with the domain's number and a hash of the application: `disk_dev_indom_60_9_x98c1f3a2` |
//!
//! The application of `mmv.shop.orders` is `mmv.shop`, that of `disk.dev.read` is `disk`.

use std::fmt::Write as _;

use hashbrown::{HashMap, HashSet};
use pcp_archive::internal::programs::DOMAIN;
use pcp_archive::{InDom, Pmid};

use crate::mapping::{metric_name, suffix};

/// The names of fixed columns, and of those that engines derive from folders.
const RESERVED: [&str; 11] = [
    "timestamp",
    "timestamp_ns",
    "begins",
    "hostname",
    "name",
    "instid",
    "instname",
    "labels",
    "value",
    "host",
    "date",
];
/// Limit on the bytes of a folder's name, after which a hash is appended. File systems allow 255.
const MAX_NAME: usize = 200;
/// The bits of an instance domain's serial that a program chooses, in the agent's domain.
const PROGRAM_SERIAL: u32 = (1 << 11) - 1;

/// The identity of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TableKey {
    pub(super) application: String,
    pub(super) indom: Option<InDom>,
}

impl TableKey {
    /// Returns the key of the table of a metric.
    pub(super) fn new(metric: &str, indom: Option<InDom>) -> Self {
        let ends = metric.match_indices('.').map(|(end, _)| end);
        let components = usize::from(metric.starts_with("mmv."));
        // The name `mmv.orders` of a program without a prefix contains no application.
        let end = ends.clone().nth(components).or_else(|| ends.clone().next());
        let application = end.and_then(|end| metric.get(..end)).unwrap_or(metric).to_owned();
        Self { application, indom }
    }
}

/// The names of a host's tables.
#[derive(Debug, Default)]
pub(super) struct TableNames {
    known: HashMap<TableKey, String>,
    taken: HashSet<String>,
}

impl TableNames {
    /// Returns the name of a table, which is chosen once. `metrics` are the names of all metrics with
    /// columns in it.
    pub(super) fn take<'m>(
        &mut self,
        key: &TableKey,
        metrics: impl Iterator<Item = &'m str>,
    ) -> String {
        if let Some(name) = self.known.get(key) {
            return name.clone();
        }
        let mut name = match key.indom {
            None => metric_name(&key.application),
            Some(indom) => domain_name(&key.application, indom, metrics),
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
        return metric_name(&shared);
    }
    let is_ours = indom.domain() == DOMAIN;
    let serial = if is_ours { indom.serial() & PROGRAM_SERIAL } else { indom.serial() };
    format!("{}_indom_{serial}", metric_name(application))
}

/// The names of the columns of a table. Engines do not distinguish upper from lower case.
#[derive(Debug, Default)]
pub(super) struct ColumnNames {
    taken: HashMap<String, Pmid>,
}

impl ColumnNames {
    /// Returns the name of a metric's column: `wanted`, unless it is reserved or used by another
    /// metric.
    pub(super) fn take(&mut self, wanted: &str, metric: &str, pmid: Pmid) -> String {
        let lower = wanted.to_ascii_lowercase();
        let is_reserved = RESERVED.contains(&lower.as_str());
        if !is_reserved && *self.taken.entry(lower).or_insert(pmid) == pmid {
            return wanted.to_owned();
        }
        let name = format!("{wanted}{}", suffix(metric));
        self.taken.insert(name.to_ascii_lowercase(), pmid);
        name
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
        assert_eq!(name("mmv.shop.orders", None, &[]), "mmv_shop");
        assert_eq!(name(shop[0], Some((70, 2049)), &shop), "mmv_shop_latency");
        let direct = ["mmv.shop.errors", "mmv.shop.requests"];
        assert_eq!(name(direct[0], Some((70, 2050)), &direct), "mmv_shop_indom_2");
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
    fn columns_have_no_name_that_a_table_has_already() {
        let mut names = ColumnNames::default();
        let [one, other] = [1, 2].map(|item| Pmid::new(70, 1, item).unwrap());
        assert_eq!(names.take("a_b", "a.b", one), "a_b");
        assert_eq!(names.take("a_b", "a.b", one), "a_b");
        assert_eq!(names.take("A_b", "A.b", other), format!("A_b{}", suffix("A.b")));
        assert_eq!(names.take("timestamp", "timestamp", other).len(), 19);
    }

    #[test]
    fn folders_have_nothing_that_engines_or_shells_take_apart() {
        assert_eq!(folder("web-1.example_org"), "web-1.example_org");
        assert_eq!(folder("a=b/*\u{e9}"), "a%3Db%2F%2A%C3%A9");
        assert_eq!(folder(&"x".repeat(300)).len(), MAX_NAME + 10);
    }
}
