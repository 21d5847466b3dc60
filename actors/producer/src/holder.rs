//! Names of lease holders. Whether a holder has ended is known only on its own host, boot and PID namespace.

use std::fs;

use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};
use uuid::Uuid;

/// State of the holder of a lease, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HolderState {
    /// Process that has certainly ended.
    Ended,
    /// Earlier incarnation of this process.
    Former,
    /// Process that runs on this host.
    Running,
    /// Producer with this host's name that ran before a restart of the host, in another container, or with an
    /// older version.
    Unknown,
    /// Producer on another host.
    Elsewhere,
}

/// Scope of process numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Scope {
    host: String,
    /// Random number of the kernel's boot; empty if it is unknown.
    boot: String,
    /// Number of the PID namespace; empty if it is unknown.
    namespace: String,
}

impl Scope {
    fn own() -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let digits = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        Self {
            host: read("hostname").trim().to_owned(),
            boot: read("random/boot_id").trim().to_owned(),
            namespace: digits,
        }
    }

    /// `own_pid` is this process, and `is_running` tells whether a process of this scope exists.
    fn state(&self, holder: &str, own_pid: i32, is_running: impl Fn(i32) -> bool) -> HolderState {
        let fields: Vec<&str> = holder.split(':').collect();
        if fields.first() != Some(&self.host.as_str()) {
            return HolderState::Elsewhere;
        }
        let [_, pid, _, _, boot, namespace] = fields[..] else { return HolderState::Unknown };
        let Some(pid) = pid.parse().ok().filter(|pid| *pid > 0) else { return HolderState::Unknown };
        let is_same = !boot.is_empty() && !namespace.is_empty();
        if !is_same || (boot, namespace) != (&self.boot, &self.namespace) {
            return HolderState::Unknown;
        }
        if pid == own_pid {
            HolderState::Former
        } else if is_running(pid) {
            HolderState::Running
        } else {
            HolderState::Ended
        }
    }
}

/// No other incarnation has this name, not even one of the same process:
/// `HOST:PID:INCARNATION:RANDOM:BOOT:NAMESPACE`.
pub(crate) fn name(incarnation: u64) -> String {
    let (Scope { host, boot, namespace }, pid) = (Scope::own(), std::process::id());
    format!("{host}:{pid}:{incarnation}:{}:{boot}:{namespace}", Uuid::new_v4().simple())
}

pub(crate) fn state(holder: &str) -> HolderState {
    let own_pid = i32::try_from(std::process::id()).unwrap_or_default();
    // A process of another user exists, too: the error is another one.
    let is_running = |pid| Pid::from_raw(pid).is_none_or(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    Scope::own().state(holder, own_pid, is_running)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_an_ended_process_of_the_same_host_boot_and_namespace_is_known_to_have_ended() {
        let scope = Scope { host: "h".to_owned(), boot: "b-1".to_owned(), namespace: "7".to_owned() };
        for (holder, state) in [
            ("h:10:1:x:b-1:7", HolderState::Ended),
            ("h:11:1:x:b-1:7", HolderState::Running),
            ("h:12:1:x:b-1:7", HolderState::Former),
            ("h:10:1:x:b-2:7", HolderState::Unknown),
            ("h:10:1:x:b-1:8", HolderState::Unknown),
            ("h:10:1:x:b-1:7:", HolderState::Unknown),
            ("h:10:1:x", HolderState::Unknown),
            ("h:-10:1:x:b-1:7", HolderState::Unknown),
            ("h:0:1:x:b-1:7", HolderState::Unknown),
            ("g:10:1:x:b-1:7", HolderState::Elsewhere),
            ("", HolderState::Elsewhere),
        ] {
            assert_eq!(scope.state(holder, 12, |pid| pid == 11), state, "{holder}");
        }
        let unknown = Scope { boot: String::new(), namespace: String::new(), ..scope };
        assert_eq!(unknown.state("h:10:1:x::", 12, |_| false), HolderState::Unknown);
    }

    #[test]
    fn the_end_of_a_process_is_noticed() {
        let own = name(3);
        assert_eq!(state(&own), HolderState::Former);
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat runs");
        let pid = |pid: u32| own.replacen(&format!(":{}:", std::process::id()), &format!(":{pid}:"), 1);
        assert_eq!(state(&pid(child.id())), HolderState::Running);
        assert_eq!(state(&pid(1)), HolderState::Running, "a process of another user");
        child.kill().expect("it is ours");
        child.wait().expect("its end");
        assert_eq!(state(&pid(child.id())), HolderState::Ended);
    }
}
