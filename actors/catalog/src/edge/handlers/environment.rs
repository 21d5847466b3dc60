//! The environment of a handler's program: a few variables of ours, those that the rule passes on, and those that it sets. Everything
//! else of ours may hold secrets and stays here.

use std::{collections::BTreeMap, ffi::OsString};

/// Variables that every program gets, if we have them; `LC_*` besides.
const ALLOWED: [&str; 10] =
    ["HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "TZDIR", "USER"];
/// Variables that are set for each row, and those of the service manager: a program that passes for us would be believed.
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

/// Most variables of a rule, and longest value; the system takes 128 KiB for one.
const VARIABLES_MAX: usize = 256;
const VALUE_MAX: usize = 64 * 1024;

/// Variables beside those that every program gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Names of variables of ours that are passed on.
    pub pass: Vec<String>,
    /// Variables that are set.
    pub set: BTreeMap<String, EnvValue>,
}

/// The value of a variable. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct EnvValue(String);

impl EnvValue {
    /// A value.
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
    /// Returns every mistake as key, name and text. No text shows a value.
    pub fn check(&self) -> Vec<(&'static str, String, String)> {
        let mut wrong = Vec::new();
        for (key, count) in [("env", self.set.len()), ("env_pass", self.pass.len())] {
            if count > VARIABLES_MAX {
                wrong.push((
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
                wrong.push((key, orchestrator_supervise::sanitize(name), text.to_owned()));
            } else if RESERVED.contains(&name.as_str()) {
                wrong.push((
                    key,
                    name.clone(),
                    "it is set for each row, or not for programs: leave it out".to_owned(),
                ));
            }
        }
        for (name, EnvValue(value)) in &self.set {
            if value.contains('\0') || value.len() > VALUE_MAX {
                let text = format!("its value has a NUL, or more than {VALUE_MAX} bytes");
                wrong.push(("env", name.clone(), text));
            }
        }
        wrong
    }

    /// All variables of a program, made of `ours`.
    pub(super) fn of(
        &self,
        ours: impl Iterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        let passed = |name: &str| {
            ALLOWED.contains(&name) || name.starts_with("LC_") || self.pass.iter().any(|pass| pass == name)
        };
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
    fn a_program_gets_what_is_allowed_passed_on_or_set() {
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
    fn what_cannot_be_a_variable_is_told_without_its_value() {
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
            let wrong = environment(&[], &[(name, value)]).check();
            assert_eq!(wrong.len(), 1, "{name}: {wrong:?}");
            assert!(!format!("{wrong:?}").contains("secret"), "{wrong:?}");
        }
        assert_eq!(environment(&["a-b", "WATCHDOG_USEC"], &[]).check().len(), 2);
        assert_eq!(environment(&["KRB5CCNAME"], &[("_x1", "")]).check(), []);
        let many: Vec<_> = (0..=VARIABLES_MAX).map(|number| format!("A{number}")).collect();
        assert_eq!(Environment { pass: many, ..Environment::default() }.check().len(), 1);
        assert!(!format!("{:?}", environment(&[], &[("A", "secret")])).contains("secret"));
    }
}
