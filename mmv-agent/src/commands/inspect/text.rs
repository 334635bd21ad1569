//! Prints a report as text.

use std::io::{self, Write};

use mmv_format::view::{Indom, Label};
use pcp_types::printable::{self, line};

use super::report::{Header, MetricValues, MmvReport, Section};

pub(super) fn print(report: &MmvReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}: {} bytes", line(&report.file), report.size)?;
    if let Some(header) = &report.header {
        print_header(header, out)?;
    }
    if !report.toc.is_empty() {
        writeln!(out, "\ntable of contents")?;
        for section in &report.toc {
            print_section(section, out)?;
        }
    }
    for indom in &report.indoms {
        print_indom(indom, out)?;
    }
    for metric in &report.metrics {
        print_metric(metric, report, out)?;
    }
    if !report.labels.is_empty() {
        writeln!(out, "\nlabels")?;
        for label in &report.labels {
            print_label(label, out)?;
        }
    }
    print_verdict(report, out)
}

fn print_header(header: &Header, out: &mut impl Write) -> io::Result<()> {
    let [generation1, generation2] = header.generations;
    writeln!(out, "version      {}", header.version)?;
    writeln!(out, "generations  {generation1} {generation2}")?;
    write!(out, "flags        {:#x}", header.flags)?;
    header.flag_names.iter().try_for_each(|name| write!(out, " {name}"))?;
    writeln!(out)?;
    writeln!(out, "process      {}", header.pid)?;
    writeln!(out, "cluster      {}", header.cluster)
}

fn print_section(section: &Section, out: &mut impl Write) -> io::Result<()> {
    let name = section.name.as_deref().unwrap_or("unknown");
    writeln!(
        out,
        "  {} {name:<10} {:>8} entries at {:#x}",
        section.kind, section.count, section.offset
    )
}

fn print_indom(indom: &Indom, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nindom {}: {} instances", indom.serial, indom.instances.len())?;
    print_help(indom.short_help.as_deref(), indom.long_help.as_deref(), out)?;
    for instance in &indom.instances {
        writeln!(out, "  {} \"{}\"", instance.id, line(&instance.name))?;
    }
    Ok(())
}

fn print_metric(of: &MetricValues, report: &MmvReport, out: &mut impl Write) -> io::Result<()> {
    let MetricValues { metric, complete_name, values } = of;
    let name = line(complete_name.as_deref().unwrap_or(&metric.name));
    write!(out, "\nmetric {} {name}: {} {}", metric.item, metric.kind, metric.semantics)?;
    let units = metric.units.to_string();
    if !units.is_empty() {
        write!(out, ", {units}")?;
    }
    match metric.indom {
        Some(serial) => writeln!(out, ", indom {serial}")?,
        None => writeln!(out)?,
    }
    print_help(metric.short_help.as_deref(), metric.long_help.as_deref(), out)?;
    let indom = report.indoms.iter().find(|indom| Some(indom.serial) == metric.indom);
    for value in values {
        write!(out, "  {:#010x}", value.offset)?;
        if let Some(id) = value.instance {
            let instances = indom.map_or(&[][..], |indom| &indom.instances[..]);
            let named = instances.iter().find(|one| one.id.get() == id);
            write!(out, " [{id} \"{}\"]", line(named.map_or("?", |one| &one.name)))?;
        }
        match &value.content {
            serde_json::Value::Null => writeln!(out, " no value")?,
            present => writeln!(out, " {}", printable::json(&present.to_string()))?,
        }
    }
    Ok(())
}

fn print_help(short: Option<&str>, long: Option<&str>, out: &mut impl Write) -> io::Result<()> {
    for text in [short, long].into_iter().flatten().flat_map(str::lines) {
        writeln!(out, "  | {}", line(&text.replace('\t', " ")))?;
    }
    Ok(())
}

fn print_label(label: &Label, out: &mut impl Write) -> io::Result<()> {
    write!(out, "  {} {}", label.class, label.identity)?;
    if let Some(instance) = label.instance {
        write!(out, " [{instance}]")?;
    }
    let optional = if label.optional { " (optional)" } else { "" };
    writeln!(out, " {}: {}{optional}", line(&label.name), line(&label.json_value))
}

fn print_verdict(report: &MmvReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out)?;
    for flaw in &report.skipped {
        let at = format!("{} entry {} at {:#x}", flaw.section, flaw.index, flaw.offset);
        writeln!(out, "left out: {at}: {}", line(&flaw.problem.to_string()))?;
    }
    if report.unlisted > 0 {
        writeln!(out, "left out: {} more entries", report.unlisted)?;
    }
    for misnamed in &report.misnamed {
        writeln!(out, "left out: {}", line(misnamed))?;
    }
    match (&report.refusal, report.skipped.len() + report.unlisted + report.misnamed.len()) {
        (Some(refusal), _) => writeln!(out, "refused: {}", line(refusal)),
        (None, 0) => writeln!(out, "sound"),
        (None, left_out) => writeln!(out, "usable, {left_out} entries left out"),
    }
}
