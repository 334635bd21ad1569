//! Users and groups of the system, by name or number.

use nix::unistd::{Group, User};

/// Returns the number of a user, as [`group_named`] does for a group.
pub(super) fn user_named(name: &str) -> Option<u32> {
    let number = name.parse().ok();
    number.or_else(|| Some(User::from_name(name).ok()??.uid.as_raw()))
}

/// Returns the number of a group; `None` if the system knows none of this name. A number needs no
/// entry in the system's list.
pub(crate) fn group_named(name: &str) -> Option<u32> {
    let number = name.parse().ok();
    number.or_else(|| Some(Group::from_name(name).ok()??.gid.as_raw()))
}

/// Returns the name of a group, or its number.
pub(crate) fn name_of_group(number: u32) -> String {
    let group = Group::from_gid(number.into()).ok().flatten();
    group.map_or_else(|| number.to_string(), |group| group.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_name_or_a_number() {
        assert_eq!(group_named("root"), Some(0));
        assert_eq!(group_named("4711"), Some(4711));
        assert_eq!(group_named("no_such_group"), None);
        assert_eq!((&*name_of_group(0), &*name_of_group(4711)), ("root", "4711"));
    }
}
