//! The fixed instances of a domain.

use std::ops::Deref;
use std::sync::OnceLock;

use hashbrown::HashMap;
use pcp_types::InstanceId;
use smol_str::SmolStr;

/// Number of instances up to which names are compared one by one, as fast as a hash look-up.
const MAX_SCANNED: usize = 8;

/// Number and name of each instance, in order; each is there once.
#[derive(Debug)]
pub(crate) struct Members {
    list: Box<[(InstanceId, String)]>,
    /// Built by the first look-up, for all metrics on the domain.
    positions: OnceLock<Positions>,
}

#[derive(Debug)]
struct Positions {
    by_name: HashMap<SmolStr, usize>,
    by_id: HashMap<InstanceId, usize>,
}

impl Members {
    pub(crate) fn position_of(&self, name: &str) -> Option<usize> {
        if self.list.len() <= MAX_SCANNED {
            return self.list.iter().position(|(_, member)| member == name);
        }
        self.positions().by_name.get(name).copied()
    }

    pub(crate) fn position_of_id(&self, id: InstanceId) -> Option<usize> {
        if self.list.len() <= MAX_SCANNED {
            return self.list.iter().position(|(member, _)| *member == id);
        }
        self.positions().by_id.get(&id).copied()
    }

    fn positions(&self) -> &Positions {
        self.positions.get_or_init(|| {
            let members = self.list.iter().enumerate();
            let by_id = members.clone().map(|(position, (id, _))| (*id, position));
            let by_name = members.map(|(position, (_, name))| (name.as_str().into(), position));
            Positions { by_name: by_name.collect(), by_id: by_id.collect() }
        })
    }
}

impl FromIterator<(InstanceId, String)> for Members {
    fn from_iter<I: IntoIterator<Item = (InstanceId, String)>>(members: I) -> Self {
        Self { list: members.into_iter().collect(), positions: OnceLock::new() }
    }
}

impl Deref for Members {
    type Target = [(InstanceId, String)];

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_many_instances_is_found_by_name_and_number() {
        for count in [0, 1, MAX_SCANNED, MAX_SCANNED + 1, 1000] {
            let members = (0..count).map(|index| {
                let id = InstanceId::new(5000 - index as i32).unwrap();
                (id, format!("a long name of instance {index}"))
            });
            let members: Members = members.collect();
            for (position, (id, name)) in members.iter().enumerate() {
                assert_eq!(members.position_of(name), Some(position));
                assert_eq!(members.position_of_id(*id), Some(position));
            }
            assert_eq!(members.position_of("another"), None);
            assert_eq!(members.position_of_id(InstanceId::new(4500).unwrap()), {
                (count > 500).then_some(500)
            });
            assert_eq!(members.position_of_id(InstanceId::new(i32::MAX).unwrap()), None);
        }
    }
}
