//! Names of metrics and labels in the syntax of Prometheus.

/// Returns the name of a metric: dots, and everything else that is not in `[a-zA-Z0-9_]`, become
/// `_`, which is also put in front of a leading digit.
pub fn metric_name(name: &str) -> String {
    cleaned(name)
}

/// Returns the part of a metric's name that stands for its application: `mmv.shop` of
/// `mmv.shop.orders`, `disk` of `disk.dev.read`.
pub(crate) fn application(metric: &str) -> &str {
    let ends = metric.match_indices('.').map(|(end, _)| end);
    let components = usize::from(metric.starts_with("mmv."));
    // The name `mmv.orders` of a program without a prefix contains no application.
    let end = ends.clone().nth(components).or_else(|| ends.clone().next());
    end.and_then(|end| metric.get(..end)).unwrap_or(metric)
}

/// Returns the name of a label, cleaned like that of a metric. Names that Prometheus and its formats
/// reserve get the prefix `exported_`, as in Prometheus itself.
pub(super) fn label_name(name: &str) -> String {
    let name = cleaned(name);
    match name.as_str() {
        "instance" | "job" | "le" | "quantile" => format!("exported_{name}"),
        reserved if reserved.starts_with("__") => format!("exported_{name}"),
        _ => name,
    }
}

/// Returns a suffix that makes a name unique: 8 hexadecimal digits that depend only on the name in
/// the archive, so that they are the same on each host and at any time.
pub(crate) fn suffix(name: &str) -> String {
    format!("_x{:08x}", fnv(name))
}

fn cleaned(name: &str) -> String {
    let mut clean = String::with_capacity(name.len() + 1);
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        clean.push('_');
    }
    clean.extend(name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
    clean
}

/// Computes the 32-bit FNV-1a hash.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_only_what_prometheus_permits() {
        for (name, expected) in [
            ("mmv.shop.orders", "mmv_shop_orders"),
            ("disk.dev.read_bytes", "disk_dev_read_bytes"),
            ("a:b", "a_b"),
            (r"caf\xe9.x", "caf_xe9_x"),
            ("\u{fc}ber", "_ber"),
            ("7up", "_7up"),
            ("", "_"),
        ] {
            assert_eq!(metric_name(name), expected, "{name}");
        }
    }

    #[test]
    fn labels_that_prometheus_owns_are_renamed() {
        for (name, expected) in [
            ("path", "path"),
            ("http.code", "http_code"),
            ("instance", "exported_instance"),
            ("job", "exported_job"),
            ("le", "exported_le"),
            ("quantile", "exported_quantile"),
            ("__name__", "exported___name__"),
            ("_x", "_x"),
        ] {
            assert_eq!(label_name(name), expected, "{name}");
        }
    }

    #[test]
    fn a_suffix_depends_on_the_name_alone() {
        assert_eq!(suffix(""), "_x811c9dc5");
        assert_eq!(suffix("a"), "_xe40c292c");
        assert_ne!(suffix("a.b.c"), suffix("a.b_c"));
    }
}
