use syn::parse_str;

use super::*;

fn errors(fields: &str) -> Vec<String> {
    errors_of(&format!("struct Shop {{ {fields} }}"))
}

fn errors_of(item: &str) -> Vec<String> {
    let input = parse_str(item).unwrap();
    let written: syn::Result<syn::File> = syn::parse2(expand(&input));
    written.expect("what is written is Rust");
    match register(&input) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.into_iter().map(|error| error.to_string()).collect(),
    }
}

#[track_caller]
fn refused(fields: &str, part: &str) {
    let errors = errors(fields);
    assert!(errors.len() == 1 && errors[0].contains(part), "{fields}: {errors:?}");
}

#[test]
fn every_attribute_is_accepted_where_it_may_be() {
    let fields = r#"
        /// Orders.
        ///
        /// All of them.
        #[metric(name = "orders.count", units = Units::count(), semantics = instant)]
        #[metric(item = 7, isolated, label(owner = "sales", level = 3))]
        orders: Counter<u64>,
        #[metric(help = "took", buckets = Buckets::new(3, 10))]
        latency: Histogram,
        #[metric(unit = "us", max_series = 5)]
        answers: Family<Endpoint, Histogram>,
        #[metric(flatten)]
        others: Others,
        #[metric(name = "cpu.0._x")]
        more: Others,
        #[metric(skip)]
        config: Config,
        r#type: Gauge<f64>,
    "#;
    assert_eq!(errors(fields), [""; 0]);
}

#[test]
fn a_unit_is_one_of_those_with_a_name() {
    refused(r#"#[metric(unit = "hours")] a: Counter"#, "unknown unit \"hours\"; there are");
    for unit in ["count", "bytes", "ns", "us", "ms", "s", "seconds", "milliseconds"] {
        assert_eq!(errors(&format!("#[metric(unit = {unit:?})] a: Counter")), [""; 0]);
    }
    refused(r#"#[metric(unit = "s", units = Units::seconds())] a: Counter"#, "there already");
}

#[test]
fn what_is_no_struct_of_named_fields_is_refused() {
    for item in ["enum Shop { A }", "struct Shop(Counter<u64>);", "union Shop { a: u8 }"] {
        let errors = errors_of(item);
        assert!(errors.len() == 1 && errors[0].contains("named fields"), "{item}: {errors:?}");
    }
    let errors = errors_of("struct Shop<T> { a: Counter<T> }");
    assert_eq!(errors, ["a struct of metrics has no generic parameters"]);
}

#[test]
fn unknown_attribute_is_refused_with_the_known_ones() {
    refused("#[metric(scale = 1)] a: A", "unknown attribute `scale`; there are `name`");
    refused("#[metric(a::b = 1)] a: A", "unknown attribute; there are `name`");
    refused("#[metric(semantics = gauge)] a: A", "`counter`, `instant` and `discrete`");
    refused("#[metric(item = 1, item = 2)] a: A", "there already");
    refused("#[metric(isolated, isolated)] a: A", "there already");
    refused("#[metric(label(a::b = 1))] a: A", "`label(name = value)`");
}

#[test]
fn a_name_that_is_no_metric_name_is_refused() {
    for name in ["", ".a", "a.", "a..b", "1a", "_a", "a b", "a-b", "\u{e9}", &"a".repeat(256)] {
        refused(&format!("#[metric(name = {name:?})] a: A"), "is not a metric name: letters");
    }
    refused("_a: A", "`_a` is not a metric name: add `#[metric(name = ");
    refused("a: A, #[metric(name = \"a\")] b: B", "another field is the metric `a` already");
}

#[test]
fn a_help_text_that_is_too_long_is_refused_with_its_length() {
    let long = "x".repeat(256);
    refused(&format!("/// {long}\na: A"), "256 bytes, and at most 255 are allowed");
    refused(&format!("#[metric(help = {long:?})] a: A"), "256 bytes");
    refused("#[metric(help = \"a\\0\")] a: A", "no NUL");
    // Its first paragraph is short; or the text is given.
    assert_eq!(errors(&format!("/// short\n///\n/// {long}\na: A")), [""; 0]);
    assert_eq!(errors(&format!("/// {long}\n#[metric(help = \"short\")] a: A")), [""; 0]);
}

#[test]
fn attributes_that_exclude_each_other_are_refused() {
    refused("#[metric(flatten, name = \"a\")] a: A", "`flatten` is for a struct");
    refused("#[metric(skip, units = u)] a: A", "`skip` is for a field that is not a metric");
    refused("#[metric(skip, flatten)] a: A", "`skip` is for a field");
}

#[test]
fn all_fields_with_errors_are_reported_at_once() {
    assert_eq!(errors("#[metric(unit = 1)] a: A, b: B, _c: C").len(), 2);
}

#[test]
fn errors_come_with_implementations_that_do_nothing() {
    let written = |item: &str| expand(&parse_str(item).unwrap()).to_string();
    for item in ["struct Shop { #[metric(unit = 1)] a: A }", "enum Shop { A }"] {
        let code = written(item);
        assert!(code.contains("compile_error"), "{code}");
        assert!(code.contains("impl :: mmv_writer :: Metrics for Shop"), "{code}");
    }
    let code = written("struct Shop<T> { a: Counter<T> }");
    assert!(code.contains("compile_error") && !code.contains("impl"), "{code}");
    let code = expand_labels(&parse_str("enum Outcome { Done }").unwrap()).to_string();
    assert!(code.contains("whose value implements `Display`"), "{code}");
    assert!(code.contains("impl :: mmv_writer :: Labels for Outcome"), "{code}");
}
