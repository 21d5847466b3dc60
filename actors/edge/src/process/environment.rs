//! Environment of a program: harmless variables of this process, and those that the configuration
//! passes on or sets. All others may hold secrets.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use tokio::process::Command;

/// Variables that every program inherits; `LC_*`, too.
const INHERITED: [&str; 10] =
    ["HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "TZDIR", "USER"];

/// Variables that are set for each row, and those of systemd's protocols, which a program must not
/// use in our name.
const RESERVED: [&str; 9] = [
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "ORCHESTRATOR_ATTEMPT",
    "ORCHESTRATOR_RULE",
    "ORCHESTRATOR_TOKEN",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Name in [`Environment::pass`] for all variables but our own.
pub const PASS_ALL: &str = "*";

/// Maximum number of configured variables, and maximum size of a value. Linux limits a variable to
/// 128 KiB.
const VARIABLES_MAX: usize = 256;
const VALUE_MAX: usize = 64 * 1024;

/// Configured variables of a program. `Debug` does not show their values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Names of inherited variables, or [`PASS_ALL`].
    pub pass: Vec<String>,
    /// Variables with their values.
    pub set: BTreeMap<String, String>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("pass", &self.pass).field("set", &self.set.keys()).finish()
    }
}

impl Environment {
    /// Every problem as key, name and text. No text shows a value.
    pub fn check(&self) -> Vec<(&'static str, String, String)> {
        let mut problems = Vec::new();
        for (key, count) in [("env", self.set.len()), ("env_pass", self.pass.len())] {
            if count > VARIABLES_MAX {
                problems.push((
                    key,
                    "..".to_owned(),
                    format!("it has {count} variables: {VARIABLES_MAX} at the most"),
                ));
            }
        }
        for (key, name) in
            self.set.keys().map(|name| ("env", name)).chain(self.pass.iter().map(|name| ("env_pass", name)))
        {
            if key == "env_pass" && name == PASS_ALL {
                continue;
            }
            if !is_name(name) {
                let text = "no name of a variable: write letters, digits and _, not a digit first, 128 bytes at the most";
                problems.push((key, orchestrator_text::sanitize(name), text.to_owned()));
            } else if RESERVED.contains(&name.as_str()) {
                problems.push((
                    key,
                    name.clone(),
                    "it is set by orchestrator, or not for programs: leave it out".to_owned(),
                ));
            }
        }
        for (name, value) in &self.set {
            if value.contains('\0') || value.len() > VALUE_MAX {
                let text = format!("its value has a NUL, or more than {VALUE_MAX} bytes");
                problems.push(("env", name.clone(), text));
            }
        }
        problems
    }

    /// Replaces the environment of `command`.
    pub fn apply(&self, command: &mut Command) {
        command.env_clear().envs(self.of(std::env::vars_os()));
    }

    /// `ours` are the variables of this process.
    fn of(&self, ours: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
        let mut variables: BTreeMap<_, _> = ours.filter(|(name, _)| self.passes(name)).collect();
        variables.extend(self.set.iter().map(|(name, value)| (name.into(), value.into())));
        variables
    }

    fn passes(&self, name: &OsStr) -> bool {
        let is_listed = |list: &[String], name: &str| list.iter().any(|listed| listed == name);
        match name.to_str() {
            Some(name) if is_inherited(name) || is_listed(&self.pass, name) => true,
            _ => is_listed(&self.pass, PASS_ALL) && !is_own(name),
        }
    }
}

/// True for a variable that programs inherit from this process.
fn is_inherited(variable: &str) -> bool {
    INHERITED.contains(&variable) || variable.starts_with("LC_")
}

/// True if the variable is meant for this process only: its configuration and secrets, and the protocols of
/// systemd.
fn is_own(variable: &OsStr) -> bool {
    let bytes = variable.as_encoded_bytes();
    let is_reserved = RESERVED.iter().any(|reserved| reserved.as_bytes() == bytes);
    is_reserved || bytes == b"CREDENTIALS_DIRECTORY" || bytes.starts_with(b"ORCHESTRATOR_")
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&name.len()) && name.bytes().all(is_part) && !name.as_bytes()[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pass: &[&str], set: &[(&str, &str)]) -> Environment {
        let pass = pass.iter().map(|name| (*name).to_owned()).collect();
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Environment { pass, set }
    }

    #[test]
    fn a_program_gets_allowed_inherited_and_set_variables() {
        let ours = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("ORCHESTRATOR_PASSWORD", "secret"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("NOTIFY_SOCKET", "/run/systemd/notify"),
            ("KRB5CCNAME", "/tmp/cc"),
            ("HOME", "/root"),
        ];
        let ours = ours.map(|(name, value)| (name.into(), value.into()));
        let made = environment(&["KRB5CCNAME", "MISSING"], &[("HOME", "/srv"), ("MODE", "fast")])
            .of(ours.into_iter());
        let made: Vec<_> =
            made.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
        assert_eq!(made, ["HOME=/srv", "KRB5CCNAME=/tmp/cc", "LC_ALL=C", "MODE=fast", "PATH=/bin"]);
    }

    #[test]
    fn a_program_that_gets_all_gets_none_of_our_own() {
        let ours = ["DETECTOR", "ORCHESTRATOR__A__URL", "ORCHESTRATOR_URL", "NOTIFY_SOCKET", "WATCHDOG_USEC"];
        let ours = ours.into_iter().chain(["LISTEN_FDS", "CREDENTIALS_DIRECTORY", "PYTHONPATH", "a-b%%"]);
        let ours = ours.map(|name| (name.into(), "x".into()));
        let all = environment(&[PASS_ALL], &[]);
        assert_eq!(all.check(), []);
        let names: Vec<_> = all.of(ours).into_keys().collect();
        assert_eq!(names, ["DETECTOR", "PYTHONPATH", "a-b%%"]);
        assert_eq!(environment(&[], &[(PASS_ALL, "x")]).check().len(), 1);
    }

    #[test]
    fn invalid_variables_are_reported_without_their_values() {
        let long = "x".repeat(VALUE_MAX + 1);
        for (name, value) in [
            ("", "secret"),
            ("A=B", "secret"),
            ("1A", "secret"),
            ("A B", "secret"),
            ("A\u{202e}", "secret"),
            ("NUL", "secret\0"),
            ("LONG", &long),
            ("ORCHESTRATOR_TOKEN", "secret"),
        ] {
            let problems = environment(&[], &[(name, value)]).check();
            assert_eq!(problems.len(), 1, "{name}: {problems:?}");
            assert!(!format!("{problems:?}").contains("secret"), "{problems:?}");
        }
        assert_eq!(environment(&["a-b", "WATCHDOG_USEC"], &[]).check().len(), 2);
        assert_eq!(environment(&["KRB5CCNAME"], &[("_x1", "")]).check(), []);
        let many: Vec<_> = (0..=VARIABLES_MAX).map(|number| format!("A{number}")).collect();
        assert_eq!(Environment { pass: many, ..Environment::default() }.check().len(), 1);
        assert!(!format!("{:?}", environment(&[], &[("A", "secret")])).contains("secret"));
    }
}
