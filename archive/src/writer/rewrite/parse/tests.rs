use super::*;
use crate::writer::rewrite::grammar::GlobalChange;

fn parsed(text: &str) -> Rules {
    let mut rules = Rules::default();
    rules.parse("f", text).unwrap();
    rules
}

fn refused(text: &str) -> String {
    Rules::default().parse("f", text).unwrap_err().to_string()
}

fn metric_clauses(text: &str) -> Vec<MetricClause> {
    let rules = parsed(&format!("metric a.b {{ {text} }}"));
    let [rule] = <[MetricRule; 1]>::try_from(rules.metrics).unwrap();
    rule.clauses.into_iter().map(|clause| clause.value).collect()
}

#[test]
fn rules_of_every_kind_are_read_from_one_text() {
    let rules = parsed(
        "# rules of a program\n\
         GLOBAL { HostName -> web-2.example tz->\"UTC\" zoneinfo -> \":Europe/Paris\" \
                  time -> -1:30 features -> 0 }\n\
         metric a.b { } metric 70.1.* { delete }\n\
         indom 70.1 { inst 1 -> 2 inst 3 -> delete iname \"a b\" -> \"c\" iname \"d\" -> DELETE \
                      iname replace /x/ -> \"y\" iname redact indom -> duplicate 71.* }\n\
         text metric a.b help oneline \"old\" { text -> \"new\" metric -> 1.2.3 }\n\
         text indom 70.* * { delete indom -> 71.* }\n\
         label context * \"v\" { new \"n\" -1.5e3 label -> \"m\" value -> null delete }\n\
         label domain 70 { domain -> 71 } label cluster 70.* { cluster -> 71.* }\n\
         label item 70.1.* { item -> 71.*.* } label indom 70.1 { indom -> 71.1 }\n\
         label instances 70.1 \"a\" \"n\" { instances -> 71.1 instance -> 5 }",
    );
    let GlobalChange { hostname, timezone, zoneinfo, shift } = rules.global;
    assert_eq!(hostname.unwrap().value, "web-2.example");
    assert_eq!(timezone.unwrap().value, "UTC");
    assert_eq!(zoneinfo.unwrap().value, ":Europe/Paris");
    assert_eq!(shift.unwrap().value, -90_000_000_000);
    assert_eq!(rules.metrics.len(), 2);
    assert_eq!(rules.indoms[0].clauses.len(), 7);
    assert_eq!(rules.texts.len(), 2);
    assert_eq!(rules.texts[0].kinds, [TextKind::Full, TextKind::OneLine]);
    assert_eq!(rules.texts[0].content.as_deref(), Some("old"));
    assert_eq!(rules.texts[1].kinds.len(), 2);
    assert_eq!(rules.labels.len(), 6);
    assert_eq!(rules.labels[0].value.as_deref(), Some("\"v\""));
    assert!(matches!(&rules.labels[0].clauses[0].value,
        LabelClause::New(name, value) if name == "n" && value == "-1.5e3"));
    assert!(matches!(&rules.labels[5].instance, Some(InstanceSelector::Name(name)) if name == "a"));
}

#[test]
fn times_have_hours_minutes_seconds_and_a_fraction() {
    for (text, expected) in [
        ("30", 30_000_000_000i128),
        ("+1:00", 60_000_000_000),
        ("-23:59:59.999", -86_399_999_000_000),
        ("0.0000000019", 1),
    ] {
        let rules = parsed(&format!("global {{ time -> {text} }}"));
        assert_eq!(rules.global.shift.unwrap().value, expected, "{text}");
    }
    for text in ["", "1:2:3:4", "1.5:3", "x"] {
        let found = refused(&format!("global {{ time -> {text} }}"));
        assert!(found.contains("expected a time such as"), "{text}: {found}");
    }
}

#[test]
fn types_units_and_outputs_are_those_of_pcp() {
    let clauses = metric_clauses(
        "type if 32 -> U32 sem -> Counter units -> 1,-1,0,KBYTE,SEC,0 rescale \
         extraunits -> 0,0,0,0,0,ONE,TEMPERATURE,C indom -> NULL output iname \"x\" \
         name -> c.d dupok value replace \"/tmp/(.*)\" -> /\\1/",
    );
    let units: Units = "Kbyte / sec".parse().unwrap();
    let celsius = Units::extra(ExtraUnit::Celsius);
    assert!(matches!(
        clauses[0],
        MetricClause::Type { only_if: Some(ValueType::I32), new: ValueType::U32 }
    ));
    assert!(matches!(clauses[1], MetricClause::Semantics(Semantics::Counter)));
    assert!(matches!(clauses[2],
        MetricClause::Units { new, has_extra: false, rescale: true } if new == units));
    assert!(matches!(clauses[3],
        MetricClause::Units { new, has_extra: true, rescale: false } if new == celsius));
    assert!(matches!(&clauses[4],
        MetricClause::Indom { new: None, output: Some(Output::Named(name)) } if name == "x"));
    assert!(matches!(&clauses[5],
        MetricClause::Name { new, may_be_taken: true } if new == "c.d"));
    assert!(matches!(clauses[6], MetricClause::Value(_)));
}

/// What is wrong with a text, and where.
#[test]
fn errors_say_where_what_was_found_and_what_was_expected() {
    for (text, expected) in [
        (
            "metrics a { }",
            "f:1:1: found \"metrics\", expected global, metric, indom, text or label",
        ),
        ("metric { }", "f:1:8: found \"{\", expected the name of a metric, or a PMID such as"),
        ("metric 1.2 { }", "f:1:8: found \"1.2\", expected the name of a metric, or a PMID such"),
        ("metric 1.4096.0 {}", "f:1:8: found \"1.4096.0\", expected the name of a metric, or a"),
        ("metric a {\n  type -> U16 }", "f:2:11: found \"U16\", expected one of the types 32, U32"),
        ("metric a { sem -> level }", "f:1:19: found \"level\", expected one of COUNTER, INSTANT"),
        ("metric a { name b }", "f:1:17: found \"b\", expected \"->\""),
        ("metric a { foo }", "f:1:12: found \"foo\", expected delete, name, pmid, type, indom"),
        ("metric a { delete", "f:1:18: found the end of the file, expected delete, name, pmid"),
        ("metric a { units -> 9,0,0,0,0,0 }", "f:1:21: found \"9\", expected a power of space"),
        ("metric a { units -> 1,0,0,KB,0,0 }", "f:1:27: found \"KB\", expected 0 or a scale of"),
        ("metric a { indom -> 1.2 output x }", "f:1:32: found \"x\", expected first, last, min"),
        ("metric a { value /(/ -> \"\" }", "f:1:18: expected a regular expression between slashes"),
        ("indom 511.1 { }", "f:1:7: found \"511.1\", expected an instance domain such as 70.1"),
        ("indom 1.1 { inst -1 -> 2 }", "f:1:18: found \"-\", expected the number of an instance"),
        ("indom 1.1 { iname \"a\" -> b }", "f:1:26: found \"b\", expected the new name of the"),
        ("text a.b { }", "f:1:6: found \"a.b\", expected metric or indom"),
        (
            "text metric a { indom -> 1.2 }",
            "f:1:17: found \"indom\", expected delete, text, metric",
        ),
        ("label host { }", "f:1:7: found \"host\", expected context, domain, cluster, item, indom"),
        (
            "label context \"1a\" { }",
            "f:1:15: found \"\"\", expected the name of a label in double",
        ),
        ("label context { value -> x }", "f:1:26: found \"x\", expected the value of a label: a"),
        ("label context { domain -> 1 }", "f:1:17: found \"domain\", expected delete, new, label"),
        ("label domain 512 { }", "f:1:14: found \"512\", expected a domain, 0 to 511"),
        ("global { features -> 3 }", "f:1:22: found \"3\", expected 0: archives with other"),
        ("global { zone -> \"x\" }", "f:1:10: found \"zone\", expected hostname, timezone, tz"),
        (
            "global { tz -> \"A\"\n timezone -> \"B\" }",
            "f:2:2: f:1:10 sets this already: remove one of the two clauses",
        ),
    ] {
        let found = refused(text);
        assert!(found.starts_with(expected), "{text}:\nfound    {found}\nexpected {expected}");
    }
}

#[test]
fn a_text_with_an_error_adds_no_rule() {
    let mut rules = Rules::default();
    assert!(rules.parse("f", "metric a { delete } metric b { x }").is_err());
    assert!(rules.is_empty());
}
