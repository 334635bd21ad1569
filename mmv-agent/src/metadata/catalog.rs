//! The merged metadata of all sources.
//!
//! Input: the translated metadata and value plans of all sources. Output: one catalog and the
//! shape of all values. Sources that share a cluster are merged: a metric's values come from all
//! of them, an instance domain has all their instances, and what two of them claim goes to the
//! first source in byte order of the file names. Only files of one user can share a cluster:
//! names, clusters and instance domains have one owner. The catalog goes to the writer with each
//! record, as one shared immutable value, so that an archive can begin at any record.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_archive::internal::programs::OWNER_LABEL;
use pcp_archive::raw::{EncodeError, LabelSet, LabelTarget, TextKind, TextTarget};
use pcp_archive::{ByteText, Instance, MetricDesc};
use pcp_types::{InDom, InstanceId, NameSpace, Pmid};

use super::labels::Labels;
use super::name_owners::{Claimant, NameOwners, OwnerError, subtree};
use super::names::NameError;
use super::payers::Payers;
use super::translation::{LoggedIndom, LoggedLabel, LoggedMetric};
use super::{DOMAIN, OWN_CLUSTER, RecordShape, Translation, ValueLocation, ValueSetShape};
use crate::host::Host;
use crate::limits::ROOT;
use crate::source::ValuePlan;

/// Bytes of a metadata record without names and texts, and of an instance without its name.
const RECORD_BYTES: usize = 64;
const INSTANCE_BYTES: usize = 12;

/// Limit on the conflicts of one file that are reported.
pub(crate) const MAX_REPORTED: usize = 5;

/// For each instance that was removed and created again while it was not looked at: how often.
pub(crate) type Recreations = BTreeMap<(InDom, InstanceId), u32>;

/// The metadata that a reader of records needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    /// Unique among the catalogs of this process.
    pub id: u64,
    /// Descriptor and name, by PMID.
    pub metrics: Vec<(MetricDesc, Arc<str>)>,
    /// Instance domains, with the instances in order of their numbers.
    pub indoms: Vec<(InDom, Vec<Instance>)>,
    pub labels: Vec<(LabelTarget, Vec<LabelSet>)>,
    pub texts: Vec<(TextTarget, TextKind, String)>,
    /// Numbers of times that instances were created again while their files are harvested.
    pub recreations: Recreations,
    /// For instances that a domain got after its first catalog, or that were created again: the
    /// catalog that had them first.
    pub births: HashMap<(InDom, InstanceId), u64>,
    /// Users charged for the metadata.
    pub payers: Payers,
}

impl Catalog {
    /// Removes everything except metrics whose user does not satisfy `stays`.
    pub(crate) fn retain_users(&mut self, stays: impl Fn(u32) -> bool) {
        let Self { indoms, labels, texts, payers, .. } = self;
        indoms.retain(|(indom, _)| stays(payers.of_indom(*indom)));
        labels.retain(|(target, _)| stays(payers.of_labels(*target)));
        texts.retain(|(target, ..)| stays(payers.of_text(*target)));
        self.shrink();
    }

    /// Removes all other metrics, with their labels and help texts.
    pub(crate) fn retain(&mut self, stays: impl Fn(Pmid) -> bool) {
        self.metrics.retain(|(desc, _)| stays(desc.pmid));
        self.labels.retain(|(target, _)| match target {
            LabelTarget::Item(pmid) => stays(*pmid),
            _ => true,
        });
        self.texts.retain(|(target, ..)| match target {
            TextTarget::Metric(pmid) => stays(*pmid),
            TextTarget::InDom(_) => true,
        });
        self.shrink();
    }

    /// Notes which instances are not those of the catalog before it.
    pub(crate) fn note_births(&mut self, before: &Self) {
        for (indom, instances) in &self.indoms {
            let found = before.indoms.binary_search_by_key(indom, |(known, _)| *known);
            let Some((_, known)) = found.ok().and_then(|at| before.indoms.get(at)) else {
                continue;
            };
            for Instance { id, .. } in instances {
                let key = (*indom, *id);
                let goes_on = known.binary_search_by_key(id, |instance| instance.id).is_ok()
                    && self.recreations.get(&key) <= before.recreations.get(&key);
                let birth = if goes_on { before.births.get(&key).copied() } else { Some(self.id) };
                self.births.extend(birth.map(|birth| (key, birth)));
            }
        }
    }

    /// Returns an upper bound of the bytes that it takes in an archive.
    pub(crate) fn size(&self) -> u64 {
        let mut bytes = 0;
        for (_, name) in &self.metrics {
            bytes += RECORD_BYTES + name.len();
        }
        for (_, instances) in &self.indoms {
            bytes += RECORD_BYTES;
            for instance in instances {
                bytes += INSTANCE_BYTES + instance.name.to_bytes().len();
            }
        }
        for set in self.labels.iter().flat_map(|(_, sets)| sets) {
            bytes += RECORD_BYTES + 4 * set.json.len();
        }
        for (_, _, text) in &self.texts {
            bytes += RECORD_BYTES + text.len();
        }
        bytes as u64
    }

    /// Frees reserved capacity: a catalog is kept as long as any record of it.
    fn shrink(&mut self) {
        self.metrics.shrink_to_fit();
        self.indoms.shrink_to_fit();
        self.labels.shrink_to_fit();
        self.texts.shrink_to_fit();
    }
}

/// The part of a source that goes into the catalog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CatalogSource<'a> {
    pub file: &'a OsStr,
    pub owner: u32,
    /// User charged for the metadata.
    pub payer: u32,
    pub translation: &'a Translation,
    pub plan: &'a ValuePlan,
    pub recreations: &'a Recreations,
}

impl<'a> CatalogSource<'a> {
    fn claimant(&self) -> Claimant<'a> {
        // No other file gets the agent's cluster.
        let own = self.translation.cluster == OWN_CLUSTER;
        Claimant { file: self.file, owner: self.owner, own }
    }

    fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.translation.metrics.iter().flatten().map(|metric| &*metric.name)
    }
}

/// Something of a source that is left out because another source has it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Conflict {
    #[error(transparent)]
    Name(#[from] NameError),
    /// The name belongs to another user.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The PMID belongs to another metric.
    #[error("the PMID {pmid} of \"{name}\" is already used by another metric of an earlier file")]
    Metric {
        pmid: Pmid,
        /// Its name in this file.
        name: String,
    },
    /// The number of the instance domain, made of a large serial, belongs to another cluster.
    #[error("indom {indom} of cluster {cluster} has the same number as one of cluster {owner}")]
    Indom {
        indom: InDom,
        /// Cluster of this file.
        cluster: u32,
        /// Cluster that has the instance domain.
        owner: u32,
    },
    /// The instance number has another name.
    #[error(
        "instance {id} of indom {indom} is \"{found}\" here and \"{expected}\" in an earlier file"
    )]
    Instance {
        indom: InDom,
        id: InstanceId,
        /// Its name in this file.
        found: String,
        /// Its name in the earlier file.
        expected: ByteText,
    },
    /// A label that no archive can hold.
    #[error("label \"{name}\" of {target:?} cannot be logged: {source}")]
    Label { target: LabelTarget, name: String, source: EncodeError },
    /// Labels that are too many, or too long, together.
    #[error("the labels of {target:?} cannot be logged: {source}")]
    Labels { target: LabelTarget, source: EncodeError },
}

/// The catalog, the shape of its values, and the conflicts with the files that they concern.
#[derive(Debug, Default)]
pub(crate) struct MergedCatalog {
    pub catalog: Catalog,
    pub shape: RecordShape,
    /// Names of metrics, and names that no file may have.
    pub names: NameSpace,
    /// The conflicts, at most [`MAX_REPORTED`] for each file.
    pub conflicts: Vec<(String, Conflict)>,
    /// Number of further conflicts.
    pub unlisted: usize,
}

impl MergedCatalog {
    /// Removes the metrics of sources that do not satisfy `stays`.
    pub(crate) fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        let mut out: HashSet<Pmid> = HashSet::new();
        for set in self.shape.iter() {
            if set.owners.iter().any(|source| !stays(*source)) {
                out.insert(set.pmid);
            }
        }
        if !out.is_empty() {
            self.shape.retain(|set| !out.contains(&set.pmid));
            self.catalog.retain(|pmid| !out.contains(&pmid));
        }
    }
}

/// Merges sources in byte order of their file names into the catalog number `id`. No metric of a
/// file gets a `reserved` name, nor one that belongs to another user by `owners`.
pub(crate) fn merge(
    id: u64,
    members: &[CatalogSource<'_>],
    host: &Host,
    reserved: impl Iterator<Item = (&'static str, Pmid)>,
    owners: &mut NameOwners,
) -> MergedCatalog {
    owners.sweep(members.iter().map(|member| (member.claimant(), member.names())));
    let mut merger = Merger { owners: indom_owners(members), ..Merger::default() };
    merger.names.reserve(members.iter().map(|member| member.translation.metrics.len()).sum());
    for (name, pmid) in reserved {
        // The reserved names differ and come first, so all are free.
        let _ = merger.names.take(name, pmid);
    }
    for (source, member) in members.iter().enumerate() {
        merger.add(source, member, owners);
    }
    merger.finish(id, host)
}

/// Returns the instance domains whose numbers belong to one cluster only, with that cluster.
/// Numbers made of larger parts belong to no cluster: as with pmdammv, files that get the same one
/// share it.
fn indom_owners(members: &[CatalogSource<'_>]) -> HashMap<InDom, u32> {
    let translations = members.iter().map(|member| member.translation);
    translations
        .flat_map(|translation| {
            let own = translation.indoms.iter().filter(|indom| indom.own);
            own.map(|indom| (indom.indom, translation.cluster))
        })
        .collect()
}

/// Instances of a file whose numbers have other names in an earlier one.
type MisnamedInstances = HashSet<(InDom, InstanceId)>;

#[derive(Debug)]
struct MergedMetric {
    metric: LoggedMetric,
    owners: Vec<usize>,
    /// Locations of the values, source by source.
    places: Vec<ValueLocation>,
}

#[derive(Debug, Default)]
struct MergedIndom {
    instances: BTreeMap<InstanceId, ByteText>,
    short_help: Option<String>,
    long_help: Option<String>,
}

#[derive(Debug, Default)]
struct Merger {
    owners: HashMap<InDom, u32>,
    names: NameSpace,
    metrics: BTreeMap<Pmid, MergedMetric>,
    indoms: BTreeMap<InDom, MergedIndom>,
    labels: BTreeMap<LabelTarget, Labels>,
    recreations: Recreations,
    conflicts: Vec<(String, Conflict)>,
    unlisted: usize,
    payers: Payers,
}

impl Merger {
    fn add(&mut self, source: usize, member: &CatalogSource<'_>, owners: &NameOwners) {
        let cluster = member.translation.cluster;
        self.payers.add_cluster(cluster, member.payer);
        // Added before the labels of the file, since the first label of a name stays.
        if member.payer != ROOT {
            self.add_label(member.file, &owner_label(cluster, member.payer));
        }
        let mut misnamed = HashSet::new();
        for indom in &member.translation.indoms {
            match self.foreign_owner(indom.indom, cluster) {
                None => {
                    self.payers.add_indom(indom.indom, member.payer);
                    self.add_indom(member, indom, &mut misnamed);
                }
                Some(owner) => {
                    let indom = indom.indom;
                    self.conflict(member.file, Conflict::Indom { indom, cluster, owner });
                }
            }
        }
        let mut taken = vec![false; member.translation.metrics.len()];
        let is_own = self.names_of(member, owners);
        let metrics = member.translation.metrics.iter().zip(is_own);
        for ((metric, is_own), taken) in metrics.zip(&mut taken) {
            let Some(metric) = metric.as_ref().filter(|_| is_own) else { continue };
            let indom = metric.desc.indom;
            *taken = indom.is_none_or(|indom| self.foreign_owner(indom, cluster).is_none())
                && self.add_metric(source, member.file, metric);
        }
        for (value, key) in member.plan.keys.iter().enumerate() {
            if taken.get(key.metric) != Some(&true) {
                continue;
            }
            let Some(Some(metric)) = member.translation.metrics.get(key.metric) else { continue };
            let owner = metric.desc.indom.zip(key.instance);
            if owner.is_some_and(|owner| misnamed.contains(&owner)) {
                continue;
            }
            if let Some(merged) = self.metrics.get_mut(&metric.desc.pmid) {
                merged.places.push(ValueLocation { instance: key.instance, source, value });
            }
        }
        self.add_labels(member, &taken, &misnamed);
    }

    /// Returns which names of a file belong to its user, by the index of the metric.
    fn names_of(&mut self, member: &CatalogSource<'_>, owners: &NameOwners) -> Vec<bool> {
        let claimant = member.claimant();
        // Names with one prefix follow each other: this is the last subtree owned by the user as a
        // whole.
        let mut last = "";
        let mut is_own = Vec::with_capacity(member.translation.metrics.len());
        for metric in &member.translation.metrics {
            let name = metric.as_ref().map_or("", |metric| &*metric.name);
            if !last.is_empty() && subtree(name) == last {
                is_own.push(true);
                continue;
            }
            let checked = if name.is_empty() { Ok(()) } else { owners.check(claimant, name) };
            last = if checked.is_ok() && !owners.has_pins() { subtree(name) } else { "" };
            is_own.push(checked.is_ok());
            if let Err(error) = checked {
                self.conflict(member.file, error);
            }
        }
        is_own
    }

    /// Adds the labels of a file; `taken` tells by index which metrics belong to the file.
    fn add_labels(
        &mut self,
        member: &CatalogSource<'_>,
        taken: &[bool],
        misnamed: &MisnamedInstances,
    ) {
        let Translation { cluster, metrics, labels, .. } = member.translation;
        if labels.is_empty() {
            return;
        }
        let metrics = metrics.iter().zip(taken);
        let taken = metrics.filter_map(|(metric, taken)| metric.as_ref().filter(|_| *taken));
        let taken: HashSet<Pmid> = taken.map(|metric| metric.desc.pmid).collect();
        for label in labels {
            // An entry that was left out may belong to another file, so its labels are left out
            // too.
            let attached = match (label.target, label.instance) {
                (LabelTarget::Item(pmid), _) => taken.contains(&pmid),
                (LabelTarget::InDom(indom) | LabelTarget::Instances(indom), _)
                    if self.foreign_owner(indom, *cluster).is_some() =>
                {
                    false
                }
                (LabelTarget::Instances(indom), Some(id)) => !misnamed.contains(&(indom, id)),
                _ => true,
            };
            if attached {
                self.add_label(member.file, label);
            }
        }
    }

    /// Notes a conflict. A file may have any number of them; the first few are enough.
    fn conflict(&mut self, file: &OsStr, conflict: impl Into<Conflict>) {
        let file = file.display().to_string();
        let noted = self.conflicts.iter().rev().take_while(|(of, _)| *of == file).count();
        if noted < MAX_REPORTED {
            self.conflicts.push((file, conflict.into()));
        } else {
            self.unlisted += 1;
        }
    }

    /// Returns the cluster that an instance domain belongs to, unless that is `cluster`.
    fn foreign_owner(&self, indom: InDom, cluster: u32) -> Option<u32> {
        self.owners.get(&indom).copied().filter(|owner| *owner != cluster)
    }

    /// Adds new instances. An instance whose number has another name already goes into `misnamed`:
    /// its values would be logged under the wrong name.
    fn add_indom(
        &mut self,
        member: &CatalogSource<'_>,
        found: &LoggedIndom,
        misnamed: &mut MisnamedInstances,
    ) {
        let indom = found.indom;
        let merged = self.indoms.entry(indom).or_default();
        let mut conflicts = Vec::new();
        for instance in &found.instances {
            match merged.instances.entry(instance.id) {
                Entry::Vacant(entry) => {
                    entry.insert(instance.name.clone());
                    let key = (indom, instance.id);
                    let count = member.recreations.get(&key);
                    self.recreations.extend(count.map(|count| (key, *count)));
                }
                Entry::Occupied(entry) if *entry.get() != instance.name => {
                    misnamed.insert((indom, instance.id));
                    conflicts.push(Conflict::Instance {
                        indom,
                        id: instance.id,
                        found: instance.name.to_string(),
                        expected: entry.get().clone(),
                    });
                }
                // The instance of the earlier file goes on.
                Entry::Occupied(_) => {
                    self.recreations.remove(&(indom, instance.id));
                }
            }
        }
        if merged.short_help.is_none() {
            merged.short_help.clone_from(&found.short_help);
        }
        if merged.long_help.is_none() {
            merged.long_help.clone_from(&found.long_help);
        }
        for conflict in conflicts {
            self.conflict(member.file, conflict);
        }
    }

    /// Adds a metric. Returns true if its values may be logged.
    fn add_metric(&mut self, source: usize, file: &OsStr, metric: &LoggedMetric) -> bool {
        let pmid = metric.desc.pmid;
        if let Some(known) = self.metrics.get_mut(&pmid) {
            if known.metric.desc == metric.desc && known.metric.name == metric.name {
                known.owners.push(source);
                return true;
            }
            self.conflict(file, Conflict::Metric { pmid, name: metric.name.to_string() });
            return false;
        }
        if let Err(conflict) = self.names.take(&metric.name, pmid) {
            self.conflict(file, NameError::conflicting(&metric.name, conflict));
            return false;
        }
        let metric = metric.clone();
        let places = Vec::new();
        let merged = MergedMetric { metric, owners: vec![source], places };
        self.metrics.insert(pmid, merged);
        true
    }

    fn add_label(&mut self, file: &OsStr, label: &LoggedLabel) {
        let target = label.target;
        if let Err(source) = self.labels.entry(target).or_default().add(label) {
            self.conflict(file, Conflict::Label { target, name: label.name.clone(), source });
        }
    }

    /// Returns the label sets of a target. The instances of a domain have one each, with or
    /// without labels: PCP's readers assume that the labels of a missing instance are unknown.
    fn label_sets(
        &self,
        target: LabelTarget,
        labels: &Labels,
    ) -> Result<Vec<LabelSet>, EncodeError> {
        let LabelTarget::Instances(indom) = target else {
            return Ok(vec![labels.set(target, None)?]);
        };
        let instances =
            self.indoms.get(&indom).into_iter().flat_map(|found| found.instances.keys());
        instances.map(|id| labels.set(target, Some(*id))).collect()
    }

    fn finish(mut self, id: u64, host: &Host) -> MergedCatalog {
        let mut merged = MergedCatalog {
            catalog: Catalog { id, payers: self.payers.clone(), ..Catalog::default() },
            ..MergedCatalog::default()
        };
        for label in host_labels(host) {
            self.add_label(OsStr::new(""), &label);
        }
        for (target, labels) in &self.labels {
            match self.label_sets(*target, labels) {
                Ok(sets) => merged.catalog.labels.push((*target, sets)),
                Err(source) => {
                    let conflict = Conflict::Labels { target: *target, source };
                    self.conflicts.push((String::new(), conflict));
                }
            }
        }
        for (indom, found) in self.indoms {
            let texts = &mut merged.catalog.texts;
            push_texts(texts, TextTarget::InDom(indom), found.short_help, found.long_help);
            let instances = found.instances.into_iter();
            let instances = instances.map(|(id, name)| Instance { id, name }).collect();
            merged.catalog.indoms.push((indom, instances));
        }
        merged.catalog.metrics.reserve_exact(self.metrics.len());
        for (pmid, MergedMetric { metric, owners, mut places }) in self.metrics {
            let LoggedMetric { desc, name, short_help, long_help } = metric;
            push_texts(&mut merged.catalog.texts, TextTarget::Metric(pmid), short_help, long_help);
            // The first source with an instance keeps it. Values stay in the order of their cells,
            // not of instance numbers, so that a tick reads memory from start to end.
            if owners.len() > 1 {
                let mut taken = HashSet::with_capacity(places.len());
                places.retain(|place| taken.insert(place.instance));
            }
            let value_type = desc.value_type;
            let owners = &*owners;
            let places = &*places;
            merged.shape.push(ValueSetShape { pmid, value_type, owners, places });
            merged.catalog.metrics.push((desc, name));
        }
        merged.catalog.recreations = self.recreations;
        merged.catalog.shrink();
        merged.names = self.names;
        merged.conflicts = self.conflicts;
        merged.unlisted = self.unlisted;
        merged
    }
}

/// Returns the label from which the owner of names is recovered when the state is lost.
fn owner_label(cluster: u32, owner: u32) -> LoggedLabel {
    LoggedLabel {
        target: LabelTarget::Cluster { domain: DOMAIN, cluster },
        instance: None,
        name: OWNER_LABEL.to_owned(),
        json_value: owner.to_string(),
        optional: true,
    }
}

/// Returns the labels that pmcd gives the host and the MMV agent.
fn host_labels(host: &Host) -> Vec<LoggedLabel> {
    let context = host.context_labels().into_iter();
    let context = context.map(|(name, json_value)| (LabelTarget::Context, name, json_value));
    let agent = (LabelTarget::Domain(DOMAIN), "agent", "\"mmv\"".to_owned());
    let labels = context.chain([agent]).map(|(target, name, json_value)| LoggedLabel {
        target,
        instance: None,
        name: name.to_owned(),
        json_value,
        optional: false,
    });
    labels.collect()
}

fn push_texts(
    texts: &mut Vec<(TextTarget, TextKind, String)>,
    target: TextTarget,
    short: Option<String>,
    long: Option<String>,
) {
    texts.extend(short.map(|text| (target, TextKind::OneLine, text)));
    texts.extend(long.map(|text| (target, TextKind::Full, text)));
}

#[cfg(test)]
mod tests {
    use pcp_types::{Semantics, Units, ValueType};

    use super::*;

    fn metric(item: u32, name: &str, value_type: ValueType) -> LoggedMetric {
        LoggedMetric {
            desc: MetricDesc {
                pmid: Pmid::new(DOMAIN, 1, item).unwrap(),
                value_type,
                indom: None,
                semantics: Semantics::Instant,
                units: Units::NONE,
            },
            name: name.into(),
            short_help: Some(format!("help of {item}")),
            long_help: None,
        }
    }

    fn indom(instances: &[(i32, &str)], help: &str) -> LoggedIndom {
        let instances = instances
            .iter()
            .map(|&(id, name)| Instance { id: InstanceId::new(id).unwrap(), name: name.into() });
        LoggedIndom {
            indom: InDom::new(DOMAIN, 2049).unwrap(),
            own: true,
            instances: instances.collect(),
            short_help: Some(help.to_owned()),
            long_help: None,
        }
    }

    fn label(target: LabelTarget, name: &str, json_value: &str) -> LoggedLabel {
        LoggedLabel {
            target,
            instance: None,
            name: name.to_owned(),
            json_value: json_value.to_owned(),
            optional: false,
        }
    }

    fn with_indom(indom: LoggedIndom) -> Translation {
        Translation { indoms: vec![indom], ..Translation::default() }
    }

    fn merged(translations: &[Translation]) -> MergedCatalog {
        let plan = ValuePlan::default();
        let recreations = Recreations::new();
        let files = ["a", "b", "c"];
        let members: Vec<CatalogSource<'_>> = translations
            .iter()
            .zip(files)
            .map(|(translation, file)| CatalogSource {
                file: OsStr::new(file),
                owner: 1000,
                payer: 1000,
                translation,
                plan: &plan,
                recreations: &recreations,
            })
            .collect();
        let reserved = crate::telemetry::events::names();
        merge(7, &members, &Host::local(), reserved, &mut NameOwners::default())
    }

    #[test]
    fn the_first_file_wins_a_name_and_a_pmid() {
        let metrics = [
            vec![metric(1, "mmv.x", ValueType::U32)],
            vec![metric(1, "mmv.x", ValueType::U32), metric(2, "mmv.x", ValueType::U32)],
            vec![metric(1, "mmv.x", ValueType::Double), metric(3, "mmv.x.y", ValueType::U32)],
        ];
        let result = merged(&metrics.map(|metrics| Translation {
            metrics: metrics.into_iter().map(Some).collect(),
            ..Translation::default()
        }));
        assert_eq!(result.catalog.id, 7);
        assert_eq!(result.catalog.metrics.len(), 1);
        assert_eq!(result.catalog.metrics[0].0.value_type, ValueType::U32);
        assert!(matches!(
            &result.conflicts[..],
            [
                (b, Conflict::Name(NameError::Taken { .. })),
                (c, Conflict::Metric { .. }),
                (_, Conflict::Name(NameError::LeafAndBranch { .. })),
            ] if b == "b" && c == "c"
        ));
    }

    #[test]
    fn instances_are_merged_and_a_second_name_refused() {
        let result = merged(&[
            with_indom(indom(&[(3, "three"), (1, "one")], "first")),
            with_indom(indom(&[(2, "two"), (1, "uno"), (3, "three")], "second")),
        ]);
        let names: Vec<&str> =
            result.catalog.indoms[0].1.iter().map(|instance| &*instance.name).collect();
        assert_eq!(names, ["one", "two", "three"]);
        assert_eq!(result.conflicts.len(), 1);
        let texts: Vec<&str> = result.catalog.texts.iter().map(|(.., text)| &**text).collect();
        assert_eq!(texts, ["first"]);
    }

    #[test]
    fn large_serial_leaves_indom_of_another_cluster_alone() {
        let own = indom(&[(1, "disk")], "own");
        let target = LabelTarget::InDom(own.indom);
        let alias = LoggedIndom { own: false, ..indom(&[(1, "bogus"), (2, "more")], "alias") };
        let mut of_alias = metric(9, "mmv.alias", ValueType::U32);
        of_alias.desc.indom = Some(alias.indom);
        let plain = metric(8, "mmv.plain", ValueType::U32);
        // The file of the alias comes first, and still has to stand back.
        let result = merged(&[
            Translation {
                cluster: 5,
                metrics: vec![Some(of_alias), Some(plain)],
                indoms: vec![alias.clone()],
                labels: vec![label(target, "of", "\"alias\"")],
            },
            Translation { cluster: 1, indoms: vec![own], ..Translation::default() },
        ]);
        let (_, instances) = &result.catalog.indoms[0];
        assert_eq!(instances.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["disk"]);
        let names: Vec<&str> = result.catalog.metrics.iter().map(|(_, name)| &**name).collect();
        assert_eq!(names, ["mmv.plain"]);
        assert!(result.catalog.labels.iter().all(|(labelled, _)| *labelled != target));
        let conflict = Conflict::Indom { indom: alias.indom, cluster: 5, owner: 1 };
        assert_eq!(result.conflicts, [("a".to_owned(), conflict)]);

        let alone =
            merged(&[Translation { cluster: 5, indoms: vec![alias], ..Translation::default() }]);
        assert_eq!(alone.catalog.indoms.len(), 1, "no other cluster's number: no conflict");
    }

    #[test]
    fn if_one_instance_has_labels_all_are_listed() {
        let known = indom(&[(1, "one"), (2, "two")], "");
        let target = LabelTarget::Instances(known.indom);
        let of_two = LoggedLabel {
            instance: Some(InstanceId::new(2).unwrap()),
            ..label(target, "zone", "\"b\"")
        };
        let result = merged(&[Translation {
            indoms: vec![known],
            labels: vec![of_two],
            ..Translation::default()
        }]);
        let (_, sets) = result.catalog.labels.iter().find(|(t, _)| *t == target).unwrap();
        let listed: Vec<_> =
            sets.iter().map(|set| (set.instance.unwrap().get(), set.json.as_str())).collect();
        assert_eq!(listed, [(1, ""), (2, "{\"zone\":\"b\"}")]);
    }

    #[test]
    fn first_conflicts_are_reported_and_all_counted() {
        let result = merged(&["x", "y", "z"].map(|name| {
            let instances: Vec<(i32, &str)> = (0..100).map(|id| (id, name)).collect();
            with_indom(indom(&instances, ""))
        }));
        assert_eq!(result.conflicts.len(), 2 * MAX_REPORTED);
        assert_eq!(result.unlisted, 2 * (100 - MAX_REPORTED));
    }

    #[test]
    fn the_first_file_wins_a_label_and_bad_ones_alone_are_left_out() {
        let cluster = LabelTarget::Cluster { domain: DOMAIN, cluster: 1 };
        let first = vec![label(cluster, "x", "1")];
        let second = vec![
            label(cluster, "x", "2"),
            label(cluster, "b", "nonsense"),
            label(cluster, "a", "3"),
        ];
        let result =
            merged(&[first, second].map(|labels| Translation { labels, ..Translation::default() }));
        let sets = result.catalog.labels.iter().find(|(target, _)| *target == cluster).unwrap();
        assert_eq!(sets.1[0].json, "{\"a\":3,\"x\":1}");
        assert!(matches!(
            &result.conflicts[..],
            [(file, Conflict::Label { name, .. })] if file == "b" && name == "b"
        ));
    }

    #[test]
    fn a_file_cannot_change_the_label_with_its_owner() {
        let cluster = LabelTarget::Cluster { domain: DOMAIN, cluster: 1 };
        let labels = vec![label(cluster, OWNER_LABEL, "7"), label(cluster, "x", "1")];
        let result = merged(&[Translation { cluster: 1, labels, ..Translation::default() }]);
        let sets = result.catalog.labels.iter().find(|(target, _)| *target == cluster).unwrap();
        assert_eq!(sets.1[0].json, "{\"mmv_owner\":1000,\"x\":1}");
    }

    #[test]
    fn labels_of_what_was_left_out_are_left_out_with_it() {
        let target = LabelTarget::Instances(indom(&[], "").indom);
        let item = LabelTarget::Item(Pmid::new(DOMAIN, 1, 1).unwrap());
        let files = [("one", ValueType::U32, "first"), ("uno", ValueType::Double, "second")];
        let result = merged(&files.map(|(instance, value_type, key)| Translation {
            cluster: 0,
            metrics: vec![Some(metric(1, "mmv.x", value_type))],
            indoms: vec![indom(&[(1, instance)], "")],
            labels: vec![
                label(item, key, "1"),
                LoggedLabel { instance: InstanceId::new(1).ok(), ..label(target, key, "1") },
            ],
        }));
        for target in [target, item] {
            let (_, sets) = result.catalog.labels.iter().find(|(t, _)| *t == target).unwrap();
            assert_eq!(sets[0].json, "{\"first\":1}", "{target:?}");
        }
    }
}
