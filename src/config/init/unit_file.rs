//! systemd unit file of a replaced program: its command line and its environment.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use orchestrator_edge::read_text;
use orchestrator_subsystem::{Original, OriginalContext};
use orchestrator_text::sanitize_to;

use super::{
    directories,
    shell::{self, Word, file_name},
};

/// The parts of section `[Service]` that matter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnitFile {
    command: Vec<String>,
    directory: String,
    /// Variables of the unit's directories.
    directories: BTreeMap<&'static str, String>,
    environment: Vec<(String, String)>,
    environment_files: Vec<String>,
}

impl UnitFile {
    /// Recognises a unit file by its name or by its section.
    pub(super) fn is_one(path: &Path, text: &str) -> bool {
        path.extension().is_some_and(|extension| extension == "service")
            || text.lines().any(|line| line.trim() == "[Service]")
    }

    /// Parses a unit file.
    ///
    /// # Errors
    /// A quote is not closed, or there is no `ExecStart`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (mut unit, mut in_service) = (Self::default(), false);
        for line in joined(text) {
            let line = line.trim();
            if line.starts_with('[') {
                in_service = line == "[Service]";
                continue;
            }
            let Some((key, value)) =
                line.split_once('=').filter(|_| in_service && !line.starts_with(['#', ';']))
            else {
                continue;
            };
            let value = value.trim();
            match key.trim() {
                // An empty value removes the earlier ones.
                "ExecStart" => {
                    let words = words(value).context("ExecStart")?;
                    unit.command = words.iter().map(|word| directories::expand(word)).collect();
                }
                "WorkingDirectory" => unit.directory = value.trim_start_matches('-').to_owned(),
                "Environment" if value.is_empty() => unit.environment.clear(),
                "Environment" => {
                    let pairs = words(value).context("Environment")?;
                    let split = |pair: &String| {
                        let (name, value) = pair.split_once('=')?;
                        Some((name.to_owned(), directories::expand(value).replace("%%", "%")))
                    };
                    unit.environment.extend(pairs.iter().filter_map(split));
                }
                "EnvironmentFile" if value.is_empty() => unit.environment_files.clear(),
                "EnvironmentFile" => {
                    unit.environment_files.push(directories::expand(value).replace("%%", "%"));
                }
                key => unit.add_directories(key, value),
            }
        }
        if unit.command.is_empty() {
            bail!("it has no ExecStart in [Service]");
        }
        Ok(unit)
    }

    /// Adds the directories of a key such as `StateDirectory`. An empty value removes the earlier ones.
    fn add_directories(&mut self, key: &str, value: &str) {
        let Some((variable, paths)) = directories::variable(key, &directories::expand(value)) else { return };
        if paths.is_empty() {
            self.directories.remove(variable);
            return;
        }
        let all = self.directories.entry(variable).or_default();
        *all = if all.is_empty() { paths } else { format!("{all}:{paths}") };
    }

    /// Replaces the command by one of a shell.
    pub(super) fn set_command(&mut self, command: &str) {
        let text = command.replace('%', "%%").replace('$', "$$");
        self.command = vec!["sh".to_owned(), "-c".to_owned(), text];
    }

    /// Replaces a command that runs a shell or a shell script by the command in it that starts the program.
    ///
    /// # Errors
    /// The script cannot be read, or an argument of the program is not known without running it.
    pub(super) fn follow(
        &mut self,
        original: &Original,
        variables: &BTreeMap<OsString, OsString>,
    ) -> Result<()> {
        const REMEDY: &str = "give the program's own command line with --command '..'";
        let words: Vec<Word> = self.command.iter().map(|word| value_of(word, variables)).collect();
        let is_direct = self.command.iter().any(|word| is_start(word, original));
        if original.starts.is_empty() || (is_direct && !shell::is_shell_command(&words)) {
            return Ok(());
        }
        let words = words.into_iter().enumerate().map(|(at, word)| match word {
            // Prefixes of systemd, such as the one that ignores a failure.
            Ok(word) if at == 0 => Ok(word.trim_start_matches(['@', '-', ':', '+', '!']).to_owned()),
            word => word,
        });
        let words: Vec<_> = words.collect();
        let found = shell::follow(&words, &|word| is_start(word, original), variables);
        let Some(command) = found.with_context(|| format!("ExecStart: {REMEDY}"))? else { return Ok(()) };
        let command: Result<Vec<_>, _> = command.into_iter().collect();
        let command = command.map_err(|reason| anyhow::anyhow!("ExecStart: {reason}: {REMEDY}"))?;
        self.command = command.iter().map(|word| word.replace('%', "%%").replace('$', "$$")).collect();
        Ok(())
    }

    /// Variables of the unit's directories, of `Environment` and of the files, which win.
    ///
    /// # Errors
    /// A file cannot be read and is not optional.
    pub(super) fn environment(&self, context: &mut OriginalContext) -> Result<BTreeMap<OsString, OsString>> {
        let mut variables: BTreeMap<OsString, OsString> =
            self.directories.iter().map(|(name, value)| (name.into(), value.into())).collect();
        variables.extend(self.environment.iter().map(|(name, value)| (name.into(), value.into())));
        for file in &self.environment_files {
            let (is_optional, path) =
                file.strip_prefix('-').map_or((false, file.as_str()), |path| (true, path));
            let shown = sanitize_to(path, 512);
            let text = match read_text(Path::new(path)) {
                Ok(text) => text,
                Err(_) if is_optional => {
                    context.warn(format!(
                        "EnvironmentFile={file}: it is missing, so its variables are not taken over"
                    ));
                    continue;
                }
                Err(error) => return Err(error).with_context(|| format!("EnvironmentFile={shown}")),
            };
            for line in
                joined(&text).iter().map(|line| line.trim()).filter(|line| !line.starts_with(['#', ';']))
            {
                let Some((name, value)) = line.split_once('=') else { continue };
                let value = words(value).with_context(|| format!("EnvironmentFile={shown}"))?.join(" ");
                variables.insert(name.trim().into(), value.into());
            }
        }
        Ok(variables)
    }

    /// Arguments of the program itself, with variables replaced.
    ///
    /// # Errors
    /// The command does not start the program, or has specifiers, whose values are unknown.
    pub(super) fn arguments(
        &self,
        original: &Original,
        variables: &BTreeMap<OsString, OsString>,
    ) -> Result<Vec<OsString>> {
        let Original { name, starts, .. } = original;
        let Some(start) = self.start(original) else {
            // A program that is configured by variables alone may be started by any command.
            if starts.is_empty() {
                return Ok(Vec::new());
            }
            let known = starts.join(" or ");
            bail!(
                "its ExecStart does not start {name}: none of its words is {known}; give the command line with --command '..'"
            );
        };
        let arguments = &self.command[start + 1..];
        if let Some(word) = arguments.iter().find(|word| word.replace("%%", "").contains('%')) {
            bail!("ExecStart: {} has a specifier: write its value", sanitize_to(word, 100));
        }
        let value = |variable: &str| variables.get(&OsString::from(variable)).cloned().unwrap_or_default();
        let replaced = arguments.iter().flat_map(|word| match variable(word) {
            // Without braces, the value is split into words.
            Some((variable, false)) => {
                let value = value(variable).to_string_lossy().into_owned();
                value.split_whitespace().map(|word| Ok(OsString::from(word))).collect()
            }
            Some((variable, true)) => vec![Ok(value(variable))],
            None => vec![value_of(word, variables).map(OsString::from)],
        });
        replaced.collect::<Result<_, _>>().map_err(|reason| anyhow::anyhow!("ExecStart: {reason}"))
    }

    /// Position of the word after which the program's own arguments begin.
    fn start(&self, original: &Original) -> Option<usize> {
        self.command.iter().position(|word| is_start(word, original))
    }

    /// Python interpreter that runs the program: that of the command line, that in the first line of the
    /// program's script, or, if the script is not on this machine, the one beside it.
    pub(super) fn interpreter(&self, original: &Original) -> Option<PathBuf> {
        let words = &self.command[..self.start(original)?];
        // systemd's prefixes stand before the first word.
        let paths = || words.iter().map(|word| Path::new(word.trim_start_matches(['@', '-', ':', '+', '!'])));
        if let Some(python) = paths().find(|path| is_python(path)) {
            return Some(python.to_owned());
        }
        let script = paths().rfind(|path| path.is_absolute())?;
        if let Ok(text) = read_text(script) {
            let line = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default();
            return line.split_whitespace().map(Path::new).find(|path| is_python(path)).map(Path::to_owned);
        }
        (!script.exists()).then(|| script.with_file_name("python3"))
    }

    /// Working directory, if it is an absolute path.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        Some(PathBuf::from(&self.directory)).filter(|directory| directory.is_absolute())
    }
}

/// True for a name such as `python3.12`.
fn is_python(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let version = name.strip_prefix("pypy").or_else(|| name.strip_prefix("python"));
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// True for a word after which the program's own arguments begin: a name, with the path of its directory, or
/// with the prefix of the Nix store.
fn is_start(word: &str, original: &Original) -> bool {
    let last = file_name(word);
    let is_hash = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let name = last.split_once('-').filter(|(hash, _)| is_hash(hash)).map_or(last, |(_, name)| name);
    name == original.name || original.starts.contains(&name)
}

/// Replaces variables, `${NAME}`, in a word; `$$` is a `$`.
fn value_of(word: &str, variables: &BTreeMap<OsString, OsString>) -> Word {
    let (mut value, mut rest) = (String::new(), word);
    while let Some((before, behind)) = rest.split_once('$') {
        value.push_str(before);
        if let Some(behind) = behind.strip_prefix('$') {
            value.push('$');
            rest = behind;
        } else if let Some((name, behind)) = behind.strip_prefix('{').and_then(|name| name.split_once('}')) {
            let known = variables.get(&OsString::from(name)).and_then(|value| value.to_str());
            value.push_str(
                known.ok_or_else(|| format!("it has ${{{name}}}, which the unit file does not set"))?,
            );
            rest = behind;
        } else {
            value.push('$');
            rest = behind;
        }
    }
    Ok((value + rest).replace("%%", "%"))
}

/// Variable of a word that is `$NAME` or `${NAME}`, and whether it has braces.
fn variable(word: &str) -> Option<(&str, bool)> {
    let rest = word.strip_prefix('$')?;
    let braced = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let (name, has_braces) = braced.map_or((rest, false), |name| (name, true));
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some((name, has_braces))
}

/// Joins lines that end with a backslash with the next one.
fn joined(text: &str) -> Vec<String> {
    let (mut lines, mut open) = (Vec::<String>::new(), false);
    for line in text.lines() {
        let (part, continues) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match lines.last_mut().filter(|_| open) {
            Some(last) => {
                last.push(' ');
                last.push_str(part);
            }
            None => lines.push(part.to_owned()),
        }
        open = continues;
    }
    lines
}

/// Splits a value into words, with quotes and backslashes as in systemd.
fn words(value: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => {
                let escaped = chars.next().context("a backslash ends it")?;
                word.get_or_insert_default().push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    's' => ' ',
                    other => other,
                });
            }
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        bail!("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests;
