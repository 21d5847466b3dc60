//! Shell scripts that start a replaced program: their commands, as far as their words are known without
//! running them.

use std::{
    collections::BTreeMap, ffi::OsString, io::ErrorKind, iter::Peekable, mem::take, path::Path, str::Chars,
};

use anyhow::{Context, Result};
use orchestrator_edge::read_text;

/// A word, or the reason why its value is not known.
pub(super) type Word = Result<String, String>;

const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];

/// Maximum number of scripts that run each other.
const DEPTH_MAX: u32 = 4;

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// True if `words` run a shell with a command as an argument.
pub(super) fn is_shell_command(words: &[Word]) -> bool {
    inline(words).is_some()
}

/// Command that has a word for which `is_start` is true, in the shell's command or the shell script that
/// `words` run; None if there is none. In a script the last such command counts, since others prepare it.
///
/// # Errors
/// The script cannot be read.
pub(super) fn follow(
    words: &[Word],
    is_start: &impl Fn(&str) -> bool,
    variables: &BTreeMap<OsString, OsString>,
) -> Result<Option<Vec<Word>>> {
    follow_to(DEPTH_MAX, words, is_start, variables)
}

fn follow_to(
    depth: u32,
    words: &[Word],
    is_start: &impl Fn(&str) -> bool,
    variables: &BTreeMap<OsString, OsString>,
) -> Result<Option<Vec<Word>>> {
    let text = match inline(words) {
        Some(text) => text.clone().map_err(anyhow::Error::msg)?,
        None => match script(words)? {
            Some(text) => text,
            None => return Ok(None),
        },
    };
    for command in commands(&text, variables).into_iter().rev() {
        if !is_shell_command(&command) && command.iter().flatten().any(|word| is_start(word)) {
            return Ok(Some(command));
        }
        // A command that cannot be read may be one that prepares the program.
        if depth > 1
            && let Ok(Some(found)) = follow_to(depth - 1, &command, is_start, variables)
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Words from the program on, without the shell's own words before it.
fn program(words: &[Word]) -> &[Word] {
    let is_own = |word: &Word| {
        word.as_ref()
            .is_ok_and(|word| matches!(word.as_str(), "exec" | "then" | "do" | "else" | "{" | "if" | "!"))
    };
    &words[words.iter().position(|word| !is_own(word)).unwrap_or(words.len())..]
}

fn is_shell(word: &str) -> bool {
    SHELLS.contains(&file_name(word))
}

/// Command of `sh -c`.
fn inline(words: &[Word]) -> Option<&Word> {
    let [Ok(shell), rest @ ..] = program(words) else { return None };
    let is_option = |word: &Word| word.as_ref().is_ok_and(|word| word.starts_with('-'));
    let options = rest.iter().take_while(|word| is_option(word)).count();
    let has_command =
        rest[..options].iter().flatten().any(|word| !word.starts_with("--") && word.contains('c'));
    rest.get(options).filter(|_| is_shell(shell) && has_command)
}

/// Text of the shell script that `words` run.
fn script(words: &[Word]) -> Result<Option<String>> {
    let mut words = program(words).iter().flatten().map(String::as_str);
    let Some(program) = words.next() else { return Ok(None) };
    let path = if is_shell(program) { words.find(|word| !word.starts_with('-')) } else { Some(program) };
    let Some(path) = path.map(Path::new).filter(|path| path.is_absolute()) else { return Ok(None) };
    let text = match read_text(path) {
        Ok(text) => text,
        // A program that is no text is no script.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::FileTooLarge) => {
            return Ok(None);
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let first = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default();
    let is_script = is_shell(program) || first.split_whitespace().any(is_shell);
    Ok(is_script.then_some(text))
}

/// Splits a text into commands. Assignments between them count, the insides of substitutions do not.
fn commands(text: &str, variables: &BTreeMap<OsString, OsString>) -> Vec<Vec<Word>> {
    let variables = variables
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
    let mut lexer = Lexer {
        chars: text.chars().peekable(),
        variables: variables.collect(),
        word: None,
        command: Vec::new(),
        commands: Vec::new(),
        is_redirected: false,
    };
    lexer.run();
    lexer.commands
}

struct Lexer<'a> {
    chars: Peekable<Chars<'a>>,
    variables: BTreeMap<String, String>,
    word: Option<Word>,
    command: Vec<Word>,
    commands: Vec<Vec<Word>>,
    /// True if the next word is the file of a redirection.
    is_redirected: bool,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while let Some(c) = self.chars.next() {
            match c {
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(escaped) => self.push(escaped),
                },
                '\'' => {
                    self.word.get_or_insert_with(|| Ok(String::new()));
                    while let Some(c) = self.chars.next().filter(|c| *c != '\'') {
                        self.push(c);
                    }
                }
                '"' => self.quoted(),
                '$' => self.variable(false),
                '`' => self.fail("a command substitution"),
                '~' if self.word.is_none() => self.fail("a home directory"),
                '#' if self.word.is_none() => while self.chars.next_if(|c| *c != '\n').is_some() {},
                '\n' | ';' | '&' | '|' | '(' | ')' => self.end_command(),
                '<' | '>' => {
                    // The number before a redirection belongs to it.
                    let is_number = |word: &String| word.bytes().all(|byte| byte.is_ascii_digit());
                    if self.word.as_ref().is_some_and(|word| word.as_ref().is_ok_and(is_number)) {
                        self.word = None;
                    }
                    self.end_word();
                    self.is_redirected = true;
                }
                c if c.is_whitespace() => self.end_word(),
                c => self.push(c),
            }
        }
        self.end_command();
    }

    fn quoted(&mut self) {
        self.word.get_or_insert_with(|| Ok(String::new()));
        while let Some(c) = self.chars.next().filter(|c| *c != '"') {
            match c {
                '\\' => match self.chars.next() {
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => self.push(escaped),
                    Some('\n') | None => {}
                    Some(other) => {
                        self.push('\\');
                        self.push(other);
                    }
                },
                '$' => self.variable(true),
                '`' => self.fail("a command substitution"),
                c => self.push(c),
            }
        }
    }

    /// Replaces `$NAME` or `${NAME}`, behind the `$`.
    fn variable(&mut self, is_quoted: bool) {
        let mut name = String::new();
        let is_braced = self.chars.next_if_eq(&'{').is_some();
        while let Some(c) = self.chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
        }
        if name.is_empty() || (is_braced && self.chars.next_if_eq(&'}').is_none()) {
            return self.fail("an expansion of the shell");
        }
        let Some(value) = self.variables.get(&name).cloned() else {
            return self.fail(&format!("${name}, which the unit file does not set"));
        };
        for c in value.chars() {
            if !is_quoted && c.is_whitespace() { self.end_word() } else { self.push(c) }
        }
    }

    fn push(&mut self, c: char) {
        if let Ok(word) = self.word.get_or_insert_with(|| Ok(String::new())) {
            word.push(c);
        }
    }

    fn fail(&mut self, reason: &str) {
        self.word = Some(Err(format!("a word has {reason}")));
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !take(&mut self.is_redirected)
        {
            self.command.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_redirected = false;
        let command = take(&mut self.command);
        let assigned = command.iter().flatten().filter(|word| *word != "export");
        let pairs: Option<Vec<_>> = assigned.map(|word| word.split_once('=')).collect();
        let pairs = pairs.filter(|_| command.iter().all(Result::is_ok)).unwrap_or_default();
        self.variables.extend(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        if !command.is_empty() {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

    use super::*;

    fn last(text: &str) -> Vec<Word> {
        let variables = [("D", "/var/log/x"), ("TWO", "a b")];
        let variables = variables.map(|(name, value)| (name.into(), value.into())).into_iter().collect();
        commands(text, &variables).pop().unwrap_or_default()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for (text, wanted) in [
            (
                "x \"$D/~s/a.db\" '$D' \"a'b\" \\$D a\\ b ''",
                &["x", "/var/log/x/~s/a.db", "$D", "a'b", "$D", "a b", ""][..],
            ),
            ("x ${D}y \"\\\"$TWO\\x\" $TWO", &["x", "/var/log/xy", "\"a b\\x", "a", "b"]),
            ("mkdir a; y=1 && x a \\\n b # c", &["x", "a", "b"]),
            ("x a b >/dev/null 2> \"$D\"", &["x", "a", "b"]),
            ("export A=\"$D/1\" B=2\nx $A $B", &["x", "/var/log/x/1", "2"]),
        ] {
            let words: Vec<_> = last(text).into_iter().map(Result::unwrap).collect();
            assert_eq!(words, wanted, "{text}");
        }
        for unknown in ["x ~/a", "x \"$(pwd)\"", "x `pwd`", "x $UNSET", "x ${D:-y}", "x $1"] {
            let words: Vec<_> = commands(unknown, &BTreeMap::new()).into_iter().flatten().collect();
            assert!(words.iter().any(Result::is_err), "{unknown}: {words:?}");
        }
    }

    #[test]
    fn scripts_are_followed_to_the_program() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(
            path("start"),
            "#!/usr/bin/env bash\nset -e\nmkdir -p /run/program\npython3 /x/program \"$D/a\"\necho done\n",
        )
        .unwrap();
        std::fs::write(path("binary"), [0x7f, 0xff, 0xfe]).unwrap();
        std::fs::write(path("python"), "#!/usr/bin/python3\nprogram\n").unwrap();
        let variables = [("D".into(), "/d".into())].into_iter().collect();
        let found = |words: &[&str]| {
            let words: Vec<Word> = words.iter().map(|word| Ok((*word).to_owned())).collect();
            follow(&words, &|word| file_name(word) == "program", &variables).map(|found| {
                found.map(|words| words.into_iter().map(Result::unwrap).collect::<Vec<_>>().join(" "))
            })
        };
        let started = Some("python3 /x/program /d/a".to_owned());
        assert_eq!(found(&[&path("start")]).unwrap(), started);
        assert_eq!(found(&["/bin/sh", "-e", &path("start"), "x"]).unwrap(), started);
        assert_eq!(found(&["bash", "-ec", &format!("exec {}", path("start"))]).unwrap(), started);
        assert_eq!(found(&["sh", "-c", "exec program a >log"]).unwrap().as_deref(), Some("exec program a"));
        for other in [&path("binary"), &path("python"), "relative", "/"] {
            assert_eq!(found(&[other]).unwrap_or_default(), None, "{other}");
        }
        let error = format!("{:#}", found(&["/nowhere/start"]).unwrap_err());
        assert!(error.starts_with("cannot read /nowhere/start: No such file"), "{error}");
    }
}
