//! The part of the status about users.

use std::io::{self, Write};

use nix::unistd::{Uid, User};
use serde::{Deserialize, Serialize};

/// The used amount of a limited resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnerUsage {
    pub used: u64,
    pub limit: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct OwnerStatus {
    /// Uid. The agent's own file, and those of the user who runs the agent, count as root's.
    pub user: u32,
    /// Files under harvest.
    pub files: OwnerUsage,
    pub values: OwnerUsage,
    /// Bytes of metadata.
    pub metadata: OwnerUsage,
    /// Bytes of address space.
    pub mapped: OwnerUsage,
    /// Bytes of records logged today, as the limit counts them.
    pub disk: OwnerUsage,
    /// True if the user has exceeded the daily limit and is not logged today.
    pub cut: bool,
    /// Number of clusters, including those of files that are gone.
    pub clusters: u64,
    /// Number of files that wait.
    pub waiting: u64,
    /// The first few reasons for waiting.
    pub reasons: Vec<String>,
}

/// Limit on listed reasons.
const REASONS: usize = 5;

impl OwnerStatus {
    pub(crate) fn wait(&mut self, reason: &str) {
        self.waiting += 1;
        if self.reasons.len() < REASONS && !self.reasons.iter().any(|known| known == reason) {
            self.reasons.push(reason.to_owned());
        }
    }
}

/// Prints a line for each user if there are several.
pub(super) fn print(owners: &[OwnerStatus], out: &mut impl Write) -> io::Result<()> {
    if owners.len() < 2 {
        return Ok(());
    }
    for owner in owners {
        let OwnerStatus { user, files, values, metadata, mapped, clusters, waiting, .. } = owner;
        write!(out, "user {user}")?;
        if let Ok(Some(known)) = User::from_uid(Uid::from_raw(*user)) {
            write!(out, " ({})", known.name.escape_debug())?;
        }
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        write!(
            out,
            ": {} of {} files, {} of {} values, {:.1} of {:.0} MB of metadata, \
             {:.1} of {:.0} MB mapped, {clusters} clusters, {:.1} MB logged today",
            files.used,
            files.limit,
            values.used,
            values.limit,
            megabytes(metadata.used),
            megabytes(metadata.limit),
            megabytes(mapped.used),
            megabytes(mapped.limit),
            megabytes(owner.disk.used),
        )?;
        if owner.cut {
            write!(out, "; cut until midnight UTC at {:.1} MB", megabytes(owner.disk.limit))?;
        }
        if *waiting > 0 {
            let reasons: Vec<String> =
                owner.reasons.iter().map(|reason| reason.escape_debug().to_string()).collect();
            write!(out, "; {waiting} files wait: {}", reasons.join("; "))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_line_with_what_is_used_and_why_files_wait() {
        let mut owner = OwnerStatus {
            user: 4_294_000_000,
            files: OwnerUsage { used: 15, limit: 15 },
            metadata: OwnerUsage { used: 1_500_000, limit: 120_000_000 },
            clusters: 3,
            disk: OwnerUsage { used: 2_000_000, limit: 1_000_000 },
            cut: true,
            ..OwnerStatus::default()
        };
        for _ in 0..7 {
            owner.wait("too\nmany");
        }
        (0..9).for_each(|number| owner.wait(&number.to_string()));
        let printed = |owners: &[OwnerStatus]| {
            let mut out = Vec::new();
            print(owners, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(&[owner.clone()]), "");
        let text = printed(&[owner, OwnerStatus::default()]);
        let expected = "user 4294000000: 15 of 15 files, 0 of 0 values, 1.5 of 120 MB of metadata, \
                        0.0 of 0 MB mapped, 3 clusters, 2.0 MB logged today; \
                        cut until midnight UTC at 1.0 MB; 16 files wait: too\\nmany; 0; 1; 2; 3\n";
        assert_eq!(text.split_inclusive('\n').next(), Some(expected));
        assert_eq!(text.lines().count(), 2);
    }
}
