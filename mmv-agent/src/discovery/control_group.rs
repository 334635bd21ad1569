//! Finds the systemd unit, container and pod of a process by the path of its control group.
//!
//! Input: `/proc/PID/cgroup` (`cgroups(7)`), a line `ID:CONTROLLERS:PATH` for each hierarchy.
//! Output: labels of the program's file. The path contains no names of containers and pods, but their
//! identifiers, which `crictl`, `docker` and `kubectl` print.
//!
//! | part of the path | from |
//! |---|---|
//! | `NAME.service` | systemd; the last one outside of a container |
//! | `RUNTIME-ID.scope` or `ID`, 64 hexadecimal digits | `docker-`, `libpod-`, `cri-containerd-`, `crio-`; the last one |
//! | `...podUID.slice` or `podUID` | kubelet with the cgroup driver `systemd` or `cgroupfs` |

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::Process;

/// Limit on the size of `/proc/PID/cgroup`. A dozen hierarchies with paths of 255 bytes stay below
/// it.
const MAX_BYTES: usize = 16 << 10;

/// Length of a container identifier in hexadecimal digits.
const CONTAINER_DIGITS: usize = 64;

/// Unit, container and pod of a process, as far as the path of its control group names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    unit: Option<String>,
    container: Option<String>,
    pod: Option<String>,
}

impl ControlGroup {
    /// Reads the control group of a process of `owner`. The result is empty if the process has ended,
    /// hides its control group, or runs as another user: a file can name any process.
    pub(crate) fn of_process(process: &Process, owner: u32) -> Self {
        let directory = format!("/proc/{}", process.pid);
        let belongs_to_owner = fs::metadata(&directory).is_ok_and(|found| found.uid() == owner);
        if !belongs_to_owner {
            return Self::default();
        }
        let Ok(lines) = fs::read_to_string(format!("{directory}/cgroup")) else {
            return Self::default();
        };
        // After its end another process may have got the PID.
        if !process.is_alive() || lines.len() > MAX_BYTES {
            return Self::default();
        }
        Self::parse(&lines)
    }

    fn parse(lines: &str) -> Self {
        let mut found = Self::default();
        for line in lines.lines() {
            let Some(path) = line.splitn(3, ':').nth(2) else { continue };
            let group = Self::parse_path(path);
            found.unit = found.unit.or(group.unit);
            found.container = found.container.or(group.container);
            found.pod = found.pod.or(group.pod);
        }
        found
    }

    fn parse_path(path: &str) -> Self {
        let mut group = Self::default();
        for component in path.split('/') {
            if let Some(container) = container(component) {
                group.container = Some(container.to_owned());
                // A service further up is the container runtime.
                group.unit = None;
            } else if component.ends_with(".service") {
                group.unit = Some(component.to_owned());
            }
            if let Some(pod) = pod(component) {
                group.pod = Some(pod);
                group.unit = None;
            }
        }
        group
    }

    /// Returns names and values of labels.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let labels = [("unit", &self.unit), ("container", &self.container), ("pod", &self.pod)];
        labels.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

/// Returns the identifier of the container that a component of a path names, if any.
fn container(component: &str) -> Option<&str> {
    // containerd without the systemd driver names groups SLICE:RUNTIME:ID.
    let name = component.rsplit(':').next()?;
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit('-').next()?;
    // A monitor runs outside of the container whose identifier it has.
    let is_monitor = name.contains("conmon-");
    (!is_monitor && id.len() == CONTAINER_DIGITS && is_hexadecimal(id)).then_some(id)
}

/// Returns the UID of the pod that a component of a path names, if any. Underscores, which systemd
/// needs, become dashes again; the UID of a static pod is a hash without dashes.
fn pod(component: &str) -> Option<String> {
    let slice = component.split(':').next()?;
    let name = slice.strip_suffix(".slice").unwrap_or(slice);
    let (before, uid) = name.rsplit_once("pod")?;
    if !before.is_empty() && !before.ends_with('-') {
        return None;
    }
    let digits = uid.bytes().filter(|byte| !matches!(byte, b'-' | b'_')).count();
    let is_uid = digits == 32 && uid.split(['-', '_']).all(is_hexadecimal);
    is_uid.then(|| uid.replace('_', "-"))
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use nix::unistd::geteuid;

    use super::*;

    const ID: &str = "5d0a7f6a8c3b4e1f9a2d3c4b5a69788796a5b4c3d2e1f00112233445566778ab";
    const UID: &str = "0f4b4a3c-5d6e-4f70-8192-a3b4c5d6e7f8";

    fn found(path: &str) -> Vec<(&'static str, String)> {
        let group = ControlGroup::parse(&format!("0::{path}\n"));
        group.labels().map(|(name, value)| (name, value.to_owned())).collect()
    }

    #[test]
    fn paths_of_systemd_and_runtimes_are_known() {
        let underscores = UID.replace('-', "_");
        let cases = [
            ("/".to_owned(), vec![]),
            ("/system.slice/shop.service".to_owned(), vec![("unit", "shop.service")]),
            ("/system.slice/shop.service/workers".to_owned(), vec![("unit", "shop.service")]),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/web.service".to_owned(),
                vec![("unit", "web.service")],
            ),
            ("/user.slice/user-1000.slice/session-3.scope".to_owned(), vec![]),
            (format!("/system.slice/docker-{ID}.scope"), vec![("container", ID)]),
            (format!("/docker/{ID}"), vec![("container", ID)]),
            (format!("/machine.slice/libpod-{ID}.scope/container"), vec![("container", ID)]),
            (format!("/machine.slice/libpod-conmon-{ID}.scope"), vec![]),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/\
                     kubepods-burstable-pod{underscores}.slice/cri-containerd-{ID}.scope"
                ),
                vec![("container", ID), ("pod", UID)],
            ),
            (format!("/kubepods/besteffort/pod{UID}/{ID}"), vec![("container", ID), ("pod", UID)]),
            (
                format!(
                    "/system.slice/containerd.service/\
                     kubepods-pod{underscores}.slice:cri-containerd:{ID}"
                ),
                vec![("container", ID), ("pod", UID)],
            ),
        ];
        for (path, labels) in cases {
            let labels: Vec<_> =
                labels.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
            assert_eq!(found(&path), labels, "{path}");
        }
    }

    #[test]
    fn names_that_only_resemble_those_of_runtimes_are_ignored() {
        let short = &ID[1..];
        for path in [
            format!("/docker/{short}"),
            format!("/docker/{}", ID.to_uppercase()),
            "/kubepods.slice/kubepods-podnothing.slice".to_owned(),
            format!("/tripod{UID}"),
            "/pod".to_owned(),
            "/pod----".to_owned(),
        ] {
            assert_eq!(found(&path), [], "{path}");
        }
    }

    #[test]
    fn hierarchies_of_version_1_are_read_as_well() {
        let group = ControlGroup::parse(&format!(
            "4:memory:/kubepods/pod{UID}/{ID}\n1:name=systemd:/kubepods/pod{UID}/{ID}\n0::/\nbad"
        ));
        assert_eq!(group.container.as_deref(), Some(ID));
        assert_eq!(group.pod.as_deref(), Some(UID));
    }

    #[test]
    fn process_of_another_user_has_no_labels() {
        let process = Process::find(std::process::id() as i32).unwrap();
        let owner = geteuid().as_raw();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        assert_eq!(ControlGroup::of_process(&process, owner), ControlGroup::parse(&own));
        assert_eq!(ControlGroup::of_process(&process, owner + 1), ControlGroup::default());
    }
}
