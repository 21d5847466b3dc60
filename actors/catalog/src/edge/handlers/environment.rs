//! Environment of a handler's program: harmless variables of this process, and those that the rule
//! passes on or sets. All others may hold secrets.

use std::{collections::BTreeMap, ffi::OsString};

use orchestrator_edge::process::is_inherited;

/// Variables set for each row, and those of systemd's protocols, which the program must not use in
/// our name.
const RESERVED: [&str; 8] = [
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "ORCHESTRATOR_ATTEMPT",
    "ORCHESTRATOR_RULE",
    "ORCHESTRATOR_TOKEN",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Maximum number of variables of a rule, and maximum size of a value. Linux limits a variable to
/// 128 KiB.
const VARIABLES_MAX: usize = 256;
const VALUE_MAX: usize = 64 * 1024;

/// Additional variables of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Names of inherited variables.
    pub pass: Vec<String>,
    /// Variables with their values.
    pub set: BTreeMap<String, EnvValue>,
}

/// Value of a variable. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct EnvValue(String);

impl EnvValue {
    /// Wraps a value.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Debug for EnvValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Environment {
    /// Returns every problem as key, name and text. No text shows a value.
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
            if !is_name(name) {
                let text = "no name of a variable: write letters, digits and _, not a digit first, 128 bytes at the most";
                problems.push((key, orchestrator_supervise::sanitize(name), text.to_owned()));
            } else if RESERVED.contains(&name.as_str()) {
                problems.push((
                    key,
                    name.clone(),
                    "it is set for each row, or not for programs: leave it out".to_owned(),
                ));
            }
        }
        for (name, EnvValue(value)) in &self.set {
            if value.contains('\0') || value.len() > VALUE_MAX {
                let text = format!("its value has a NUL, or more than {VALUE_MAX} bytes");
                problems.push(("env", name.clone(), text));
            }
        }
        problems
    }

    /// Returns the program's variables, given those of this process.
    pub(super) fn of(
        &self,
        ours: impl Iterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        let passed = |name: &str| is_inherited(name) || self.pass.iter().any(|pass| pass == name);
        let mut variables: BTreeMap<_, _> =
            ours.filter(|(name, _)| name.to_str().is_some_and(passed)).collect();
        variables.extend(self.set.iter().map(|(name, EnvValue(value))| (name.into(), value.into())));
        variables
    }
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
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), EnvValue::new(*value))).collect();
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
