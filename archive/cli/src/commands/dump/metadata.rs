//! Prints the sections of metadata: label, descriptors, labels, help text, instance
//! domains.

use pcp_archive::raw::{LabelClass, LabelSet, LabelTarget, TextKind, TextTarget};
use pcp_archive::{Timestamp, Version};

use super::Dump;
use crate::Failure;
use crate::text::descriptor::descriptor;

/// Bit of a label's flags: the name has several parts (`PM_LABEL_COMPOUND`).
const COMPOUND: u8 = 0x40;
/// Bit of a label's flags: the label is not part of the identity
/// (`PM_LABEL_OPTIONAL`).
const OPTIONAL: u8 = 0x80;

/// Prints the archive's label, with time zone and process if `long`.
pub(super) fn label(dump: &mut Dump<'_>, long: bool) {
    let archive = dump.archive;
    let label = archive.label();
    let version = if archive.version() == Version::V3 { 3 } else { 2 };
    dump.text(&format!("Log Label (Log Format Version {version})\n"));
    dump.text("Performance metrics from host ");
    dump.name(&label.hostname);
    dump.text("\n");
    for (title, timestamp) in [("commencing", label.start), ("ending    ", archive.end())] {
        dump.text(&format!("    {title} "));
        if !archive.has_records() && title != "commencing" {
            dump.text("UNKNOWN\n");
            continue;
        }
        dump.zone.push_day(&mut dump.out.text, timestamp);
        dump.text(" ");
        dump.push_time(timestamp);
        let year = dump.zone.year(timestamp);
        dump.text(&format!(" {year:>4}"));
        if dump.dates >= 3 {
            dump.text(&format!(" {}", timestamp.seconds()));
        }
        dump.text("\n");
    }
    if !long {
        return;
    }
    for (title, zone) in [("timezone", &label.timezone), ("zoneinfo", &label.zoneinfo)] {
        if !zone.is_empty() {
            dump.text(&format!("Archive {title}: "));
            dump.name(zone);
            dump.text("\n");
        }
    }
    dump.text(&format!("PID for pmlogger: {}\n", label.pid));
}

/// Prints the descriptors in the order of their metric identifiers.
pub(super) fn descriptors(dump: &mut Dump<'_>) -> Result<(), Failure> {
    dump.text("\nDescriptions for Metrics in the Log ...\n");
    let mut metrics: Vec<_> = dump.archive.metadata().metrics().iter().collect();
    metrics.sort_by_key(|metric| metric.desc.pmid);
    for metric in metrics {
        dump.text(&format!("PMID: {} (", metric.desc.pmid));
        dump.name(&metric.names.join(" or "));
        dump.text(")\n");
        dump.text(&descriptor(&metric.desc));
        dump.out.spill()?;
    }
    Ok(())
}

/// Prints all label records, ordered by time, class and identifier.
pub(super) fn labels(dump: &mut Dump<'_>) -> Result<(), Failure> {
    dump.text("\nMetric Labels in the Log ...\n");
    let archive = dump.archive;
    let mut records = Vec::new();
    for (target, history) in archive.metadata().labels() {
        // pmlogger repeats the labels of instances whenever the instances change;
        // PCP's readers drop repeated ones.
        let changes = history.states().chunk_by(|a, b| a.sets == b.sets);
        records.extend(changes.filter_map(<[_]>::first).map(|state| (target, state)));
    }
    records.sort_by_key(|(target, state)| (state.timestamp, sort_key(target)));
    let mut last: Option<Timestamp> = None;
    for (target, state) in records {
        if last != Some(state.timestamp) {
            dump.push_timestamp(state.timestamp);
            dump.text("\n");
            last = Some(state.timestamp);
        }
        for set in &state.sets {
            label_set(dump, &target, set);
        }
        dump.out.spill()?;
    }
    Ok(())
}

/// Returns the key that orders classes within one time, and identifiers within a class.
fn sort_key(target: &LabelTarget) -> (u8, u32) {
    match *target {
        LabelTarget::Context => (0, 0),
        LabelTarget::Domain(domain) => (1, domain),
        LabelTarget::Cluster { domain, cluster } => (2, domain << 22 | cluster << 10),
        LabelTarget::Item(pmid) => (3, pmid.raw()),
        LabelTarget::InDom(indom) => (4, indom.raw()),
        LabelTarget::Instances(indom) => (5, indom.raw()),
    }
}

fn label_set(dump: &mut Dump<'_>, target: &LabelTarget, set: &LabelSet) {
    let owner = match target {
        LabelTarget::Context => "Context".to_owned(),
        LabelTarget::Domain(domain) => format!("Domain {domain}"),
        LabelTarget::Cluster { domain, cluster } => format!("Cluster {domain}.{cluster}"),
        LabelTarget::Item(pmid) => format!("PMID {pmid}"),
        LabelTarget::InDom(indom) => format!("InDom {indom}"),
        LabelTarget::Instances(indom) => {
            let id = set.instance.map_or(u32::MAX, |id| id.get() as u32);
            format!("InDom {indom}[{id}]")
        }
    };
    dump.text(&format!("    {owner} labels ({} bytes): ", set.json.len()));
    dump.name(&set.json);
    dump.text("\n");
    for (index, label) in set.labels.iter().enumerate() {
        let class = class_name(target);
        let compound = if label.flags & COMPOUND != 0 { ",compound" } else { "" };
        let optional = if label.flags & OPTIONAL != 0 { ",optional" } else { "" };
        dump.text(&format!(
            "        [{index}] name({},{}) : value({},{}) [{class}{compound}{optional}]\n",
            label.name.start,
            label.name.len(),
            label.value.start,
            label.value.len(),
        ));
    }
}

fn class_name(target: &LabelTarget) -> &'static str {
    match target.class() {
        LabelClass::Context => "context",
        LabelClass::Domain => "domain",
        LabelClass::InDom => "indom",
        LabelClass::Cluster => "cluster",
        LabelClass::Item => "pmid",
        LabelClass::Instances => "instances",
    }
}

/// Prints all help text: of metrics by identifier, then of instance domains.
pub(super) fn help_text(dump: &mut Dump<'_>) -> Result<(), Failure> {
    dump.text("\nMetric Help Text in the Log ...\n");
    let archive = dump.archive;
    let mut texts: Vec<_> = archive.metadata().texts().collect();
    texts.sort_by_key(|(target, kind, _)| {
        let target = match target {
            TextTarget::Metric(pmid) => (0, pmid.raw()),
            TextTarget::InDom(indom) => (1, indom.raw()),
        };
        (target, *kind == TextKind::Full)
    });
    for (target, kind, text) in texts {
        let owner = match target {
            TextTarget::Metric(pmid) => format!("PMID: {pmid}"),
            TextTarget::InDom(indom) => format!("InDom: {indom}"),
        };
        dump.text(&owner);
        match kind {
            TextKind::OneLine => {
                dump.text(" [");
                dump.name(text);
                dump.text("]\n");
            }
            TextKind::Full => {
                dump.text("\n");
                dump.several_lines(text);
                dump.text("\n");
            }
        }
        dump.out.spill()?;
    }
    Ok(())
}

/// Prints the instance domains, complete after each change.
pub(super) fn instances(dump: &mut Dump<'_>) -> Result<(), Failure> {
    dump.text("\nInstance Domains in the Log ...\n");
    let archive = dump.archive;
    for (indom, history) in archive.metadata().indoms() {
        dump.text(&format!("InDom: {indom}\n"));
        let mut last = None;
        for state in history.states() {
            // Old archives repeat a record of one time; it is printed once.
            if last.as_ref() == Some(&state) {
                continue;
            }
            dump.push_timestamp(state.timestamp);
            dump.text(&format!(" {} instances\n", state.instances.len()));
            for instance in &state.instances {
                dump.text(&format!("   {} or \"", instance.id.get()));
                dump.name(&instance.name);
                dump.text("\"\n");
            }
            dump.out.spill()?;
            last = Some(state);
        }
    }
    Ok(())
}
