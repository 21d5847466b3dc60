//! Configuration of a receiver, whose keys belong to different sections.

use std::{path::Path, time::Duration};

use crate::http::Target;

/// Keys of a receiver in a section of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct ReceiverSettings<'a> {
    /// Name of the section.
    pub section: &'a str,
    /// Program and arguments.
    pub argv: &'a [String],
    /// Address of a webhook.
    pub url: Option<&'a str>,
    /// File with additional secret headers, read for each request.
    pub headers_file: Option<&'a Path>,
    /// PEM file with certificate authorities that replace the public ones.
    pub ca_file: Option<&'a Path>,
    /// Maximum time of one attempt.
    pub timeout: Duration,
}

impl ReceiverSettings<'_> {
    /// True with a program or a webhook.
    pub fn is_set(&self) -> bool {
        !self.argv.is_empty() || self.url.is_some()
    }

    /// Errors that a schema cannot express, as `section.key = ..: text`. They repeat no value.
    pub fn check(&self) -> Vec<String> {
        let mut errors = Vec::new();
        let mut say = |key: &str, text: &str| errors.push(format!("{}.{key} = ..: {text}", self.section));
        if let Some(program) = self.argv.first() {
            if program.is_empty() {
                say("argv", "name a program, e.g. [\"/usr/local/bin/notify\"]");
            } else if program.contains('/') && !program.starts_with('/') {
                say("argv", "write the whole path of the program, or a name that is in PATH");
            }
            if self.argv.iter().any(|argument| argument.contains('\0')) {
                say("argv", "an argument cannot have a NUL: leave it out");
            }
            if self.url.is_some() {
                say("url", "there is a program, too: leave out url or argv");
            }
        }
        // The file with the authorities is read at the start.
        if let Some(Err(error)) = self.url.map(|url| Target::new(url, None)) {
            say("url", &error.to_string());
        }
        for (key, is_set) in
            [("headers_file", self.headers_file.is_some()), ("ca_file", self.ca_file.is_some())]
        {
            if is_set && self.url.is_none() {
                say(key, "it is for url, which is missing: set url, or leave it out");
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_key_and_repeat_no_value() {
        let none = ReceiverSettings {
            section: "hook",
            argv: &[],
            url: None,
            headers_file: None,
            ca_file: None,
            timeout: Duration::from_secs(1),
        };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (program, url) = (words(&["/bin/secret"]), Some("http://secret"));
        let (empty, relative, nul) = (words(&[""]), words(&["secret/x"]), words(&["x", "\0"]));
        for (settings, said) in [
            (ReceiverSettings { argv: &empty, ..none }, "argv = ..: name a program"),
            (ReceiverSettings { argv: &relative, ..none }, "argv = ..: write the whole"),
            (ReceiverSettings { argv: &nul, ..none }, "argv = ..: an arg"),
            (ReceiverSettings { argv: &program, url, ..none }, "url = ..: there is a program"),
            (ReceiverSettings { url: Some("ftp://secret"), ..none }, "url = ..: its scheme"),
            (ReceiverSettings { ca_file: Some(Path::new("/secret")), ..none }, "ca_file = ..: it is for url"),
            (
                ReceiverSettings { headers_file: Some(Path::new("/s")), ..none },
                "headers_file = ..: it is for",
            ),
        ] {
            let errors = settings.check();
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(errors[0].starts_with(&format!("hook.{said}")), "{errors:?}");
            assert!(!errors[0].contains("secret"), "{errors:?}");
        }
        assert!(!none.is_set() && none.check().is_empty());
        for settings in [ReceiverSettings { argv: &program, ..none }, ReceiverSettings { url, ..none }] {
            assert!(settings.is_set() && settings.check().is_empty());
        }
    }
}
