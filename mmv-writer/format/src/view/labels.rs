//! Labels of the file, its domains, metrics and instances.

use hashbrown::HashSet;
use pcp_types::InstanceId;

use super::indoms::Indoms;
use super::metrics::Metrics;
use super::section::CopiedEntry;
use super::sections::Sections;
use super::{HeaderFields, Label, LabelClass, Parser, Problem, Refusal, Source};
use crate::layout::{
    LABEL_CLUSTER, LABEL_INDOM, LABEL_INSTANCES, LABEL_ITEM, LABEL_OPTIONAL, LabelEntry,
    SectionKind, until_nul,
};
use pcp_types::json;

/// Returns the domain's serial and number of the instances that labels are attached to.
pub(super) fn labelled_instances(sections: &Sections) -> HashSet<(u32, i32)> {
    let labels = sections.get(SectionKind::Labels).entries::<LabelEntry>();
    let of_instances = labels.filter(|(_, raw)| raw.flags & !LABEL_OPTIONAL == LABEL_INSTANCES);
    of_instances.map(|(_, raw)| (raw.identity, raw.instance)).collect()
}

/// Parses the section. An entry without class and identity is unused: it was, or will be, that
/// of an instance's label. The label of an instance that was left out, or of an instance or
/// metric that was just removed, is not listed.
pub(super) fn parse<S: Source + ?Sized>(
    parser: &mut Parser<'_, S>,
    header: &HeaderFields,
    indoms: &Indoms,
    metrics: &Metrics,
) -> Result<Vec<Label>, Refusal> {
    let sections = parser.sections;
    let section = sections.get(SectionKind::Labels);
    let mut labels = Vec::new();
    for (CopiedEntry { index, offset, .. }, raw) in section.entries::<LabelEntry>() {
        if (raw.flags, raw.identity) == (0, 0) {
            continue;
        }
        match read_label(&raw, offset, header, indoms, metrics) {
            Ok(Some(label)) => parser.budget.push(&mut labels, label)?,
            Ok(None) => {}
            Err(problem) => parser.skip(SectionKind::Labels, index, offset, problem),
        }
    }
    Ok(labels)
}

fn read_label(
    raw: &LabelEntry,
    offset: u64,
    header: &HeaderFields,
    indoms: &Indoms,
    metrics: &Metrics,
) -> Result<Option<Label>, Problem> {
    let class = match raw.flags & !LABEL_OPTIONAL {
        LABEL_CLUSTER => LabelClass::Cluster,
        LABEL_INDOM => LabelClass::Indom,
        LABEL_ITEM => LabelClass::Item,
        LABEL_INSTANCES => LabelClass::Instances,
        _ => return Err(Problem::LabelFlags { found: raw.flags }),
    };
    let instance = match class {
        LabelClass::Instances => InstanceId::new(raw.instance).ok(),
        _ => None,
    };
    let identity = raw.identity;
    let attached = match class {
        LabelClass::Cluster => identity == header.cluster,
        LabelClass::Indom => indoms.find(identity).is_some(),
        LabelClass::Item => metrics.has_item(identity),
        LabelClass::Instances => instance.is_some_and(|id| indoms.has_labelled(identity, id)),
    };
    let was_removed = match class {
        LabelClass::Instances => indoms.left_out(raw.instance),
        LabelClass::Item => metrics.was_removed(identity),
        _ => false,
    };
    if !attached && was_removed {
        return Ok(None);
    }
    if !attached {
        return Err(Problem::LabelTarget { identity, instance: raw.instance });
    }
    let text = until_nul(&raw.json)
        .ok_or(Problem::TextWithoutEnd { found: offset + 12, len: raw.json.len() })?;
    let pair = std::str::from_utf8(text).ok().and_then(json::single_pair);
    let (name, value) = pair
        .ok_or_else(|| Problem::LabelJson { found: String::from_utf8_lossy(text).into_owned() })?;
    Ok(Some(Label {
        class,
        identity,
        instance,
        optional: raw.flags & LABEL_OPTIONAL != 0,
        name: name.to_owned(),
        json_value: value.to_owned(),
    }))
}
