//! Functions and lines at the addresses of a stack.
//!
//! The debug information of a binary takes about 100 MB of memory when it is read, and the allocator keeps
//! most of it. So a process can have another one, of the same binary, resolve its addresses: see
//! [`resolve_symbols`].

use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{self, BufRead, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use orchestrator_text::sanitize;

use crate::frames::Frames;

/// Most memory of resolved addresses that is kept, in bytes.
const KNOWN_BYTES_MAX: usize = 512 * 1024;
/// Most addresses that are resolved at a time.
const ADDRESSES_MAX: usize = 4096;

/// Lines of one address, several if calls are inlined.
type Lines = Arc<[String]>;

/// Resolver of addresses. It keeps the lines of the addresses that it has resolved, so that equal stacks are
/// resolved once.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    known: HashMap<usize, Lines>,
    /// Memory of `known`, in bytes.
    bytes: usize,
    /// Program and arguments of the process that resolves addresses; None: this process does it.
    process: Option<(PathBuf, &'static [&'static str])>,
}

impl Resolver {
    /// Sets the command of the process that calls [`resolve_symbols`].
    pub(crate) fn set_process(&mut self, program: PathBuf, arguments: &'static [&'static str]) {
        self.process = Some((program, arguments));
    }

    /// Resolves the addresses of `stacks` that are not known yet. It reads debug information, so it blocks.
    ///
    /// # Errors
    /// The process that resolves them failed.
    pub(crate) fn learn<'a>(&mut self, stacks: impl Iterator<Item = &'a Frames>) -> io::Result<()> {
        if self.bytes > KNOWN_BYTES_MAX {
            self.known.clear();
            self.bytes = 0;
        }
        let mut addresses: Vec<usize> = stacks.flat_map(Frames::addresses).copied().collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.retain(|address| !self.known.contains_key(address));
        addresses.truncate(ADDRESSES_MAX);
        if addresses.is_empty() {
            return Ok(());
        }
        let resolved = match &self.process {
            Some((program, arguments)) => resolve_in_process(program, arguments, &addresses)?,
            None => addresses.iter().map(|address| resolve(*address)).collect(),
        };
        for (address, lines) in addresses.into_iter().zip(resolved) {
            self.bytes += 64 + lines.iter().map(|line| size_of::<String>() + line.len()).sum::<usize>();
            self.known.insert(address, lines.into());
        }
        Ok(())
    }

    /// Lines of the child's code, the innermost function first: `function at file:line`. Addresses that
    /// [`Self::learn`] has not resolved are unknown functions.
    pub(crate) fn lines(&self, frames: &Frames) -> Vec<String> {
        let mut lines = Vec::new();
        for address in frames.addresses() {
            match self.known.get(address) {
                Some(known) => lines.extend(known.iter().cloned()),
                None => lines.push(line(None, None, None)),
            }
        }
        frames.trim(lines)
    }
}

/// Resolves addresses of another process of the same binary, as
/// [`CrashLog::resolve_by`](crate::CrashLog::resolve_by) asks for. Reads addresses from `input`, one
/// hexadecimal number a line. Writes the lines of each address to `output`, and an empty line after them. The
/// first number is the address of a function of this module, which tells where the other process has loaded
/// the binary.
///
/// # Errors
/// Input or output failed, or a line is no address.
pub fn resolve_symbols(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let parse = |text: io::Result<String>| {
        usize::from_str_radix(&text?, 16).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    };
    let mut addresses = input.lines().map(parse);
    let origin = addresses.next().unwrap_or(Ok(origin()))?;
    let moved = |address: usize| address.wrapping_sub(origin).wrapping_add(self::origin());
    // All addresses are read before the first line is written.
    let addresses: Vec<usize> = addresses.collect::<io::Result<_>>()?;
    addresses.into_iter().try_for_each(|address| writeln!(output, "{}\n", resolve(moved(address)).join("\n")))
}

/// Address of a function, which is at the same distance from any other one in each process of a binary.
fn origin() -> usize {
    resolve as fn(usize) -> Vec<String> as usize
}

fn resolve_in_process(
    program: &Path,
    arguments: &[&str],
    addresses: &[usize],
) -> io::Result<Vec<Vec<String>>> {
    let mut input = format!("{:x}\n", origin());
    for address in addresses {
        // Writing to a String cannot fail.
        let _ = writeln!(input, "{address:x}");
    }
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn()?;
    // The process reads all addresses before it writes, so this cannot wait for itself.
    let written = process.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
    let answer = process.wait_with_output()?;
    written?;
    let resolved = parse(&String::from_utf8_lossy(&answer.stdout));
    let found = resolved.len();
    if found != addresses.len() {
        let text = format!("{}: {found} of {} addresses are resolved", answer.status, addresses.len());
        return Err(io::Error::other(text));
    }
    Ok(resolved)
}

/// The lines of each address, as [`resolve_symbols`] writes them.
fn parse(output: &str) -> Vec<Vec<String>> {
    let of_address = |lines: &str| lines.lines().map(str::to_owned).collect();
    output.split_terminator("\n\n").map(of_address).collect()
}

/// Several functions if calls are inlined.
fn resolve(address: usize) -> Vec<String> {
    let mut lines = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        let name = symbol.name().map(|name| format!("{name:#}"));
        lines.push(line(name, symbol.filename(), symbol.lineno()));
    });
    if lines.is_empty() {
        lines.push(line(None, None, None));
    }
    lines
}

fn line(name: Option<String>, file: Option<&Path>, number: Option<u32>) -> String {
    let mut text = name.unwrap_or_else(|| "unknown function".to_owned());
    if let Some(file) = file {
        // Writing to a String cannot fail.
        let _ = write!(text, " at {}:{}", file.to_string_lossy(), number.unwrap_or(0));
    }
    sanitize(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn deep(levels: usize) -> Frames {
        if levels == 0 { Frames::capture() } else { std::hint::black_box(deep(levels - 1)) }
    }

    fn resolved(resolver: &mut Resolver, frames: &Frames) -> Vec<String> {
        resolver.learn(std::iter::once(frames)).expect("resolved");
        resolver.lines(frames)
    }

    #[test]
    fn a_stack_is_resolved_to_functions_and_lines() {
        let lines = resolved(&mut Resolver::default(), &deep(2));
        assert!(lines.iter().filter(|line| line.contains("symbols::tests::deep")).count() >= 3, "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("symbols.rs:")), "{lines:#?}");
    }

    #[test]
    fn addresses_of_a_binary_that_is_loaded_elsewhere_are_moved() {
        let frames = deep(0);
        let elsewhere = |address: usize| format!("{:x}\n", address.wrapping_add(0x5000));
        let input: String =
            std::iter::once(origin()).chain(frames.addresses().iter().copied()).map(elsewhere).collect();
        let mut output = Vec::new();
        resolve_symbols(input.as_bytes(), &mut output).expect("resolved");
        let lines = parse(std::str::from_utf8(&output).expect("a text"));
        assert_eq!(lines.len(), frames.addresses().len());
        assert!(lines.concat().iter().any(|line| line.contains("symbols::tests::deep")), "{lines:#?}");
        assert!(resolve_symbols("x\n".as_bytes(), Vec::new()).is_err());
    }

    #[test]
    fn a_known_stack_needs_no_process() {
        let (mut resolver, frames) = (Resolver::default(), deep(2));
        let first = resolved(&mut resolver, &frames);
        resolver.set_process(PathBuf::from("/nonexistent"), &[]);
        assert_eq!(resolved(&mut resolver, &frames), first);
        assert!(resolver.bytes <= KNOWN_BYTES_MAX);
        let other = deep(3);
        assert!(resolver.learn(std::iter::once(&other)).is_err());
        assert!(!resolver.lines(&other).is_empty(), "what is not known is an unknown function");
    }

    #[test]
    fn a_deep_stack_is_cut_with_a_mark() {
        let frames = deep(10_000);
        assert_eq!(frames.bytes(), size_of_val(frames.addresses()));
        let lines = resolved(&mut Resolver::default(), &frames);
        assert_eq!(lines.last().map(String::as_str), Some("(outer frames are left out)"));
    }
}
