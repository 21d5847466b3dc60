//! Stack of a panic. The hook stores addresses only; functions and lines are resolved when a report is read.

use std::{collections::HashMap, fmt::Write, path::Path, sync::Arc};

use crate::text::sanitize;

/// Most addresses of one stack. They include about twenty of the panic itself and of the runtime.
const FRAMES_MAX: usize = 128;
/// Most memory of resolved addresses, in bytes.
const KNOWN_BYTES_MAX: usize = 512 * 1024;

/// Name of the function that begins a panic.
const PANIC: &str = "rust_begin_unwind";
/// First letters of functions that call it. The frames after them are the child's.
const CALLERS: [&str; 5] =
    ["core::panicking::", "core::option::", "core::result::", "<core::option::", "<core::result::"];
/// Names of functions that catch a panic. The frames from them on are the kernel's.
const CATCH: [&str; 2] = ["__rust_try", "::catch_unwind"];

/// Addresses of a stack, the innermost first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frames(Box<[usize]>);

impl Frames {
    /// Returns the stack of this thread.
    pub(crate) fn capture() -> Self {
        let mut addresses = Vec::with_capacity(64);
        backtrace::trace(|frame| {
            addresses.push(frame.ip().addr());
            addresses.len() < FRAMES_MAX
        });
        Self(addresses.into())
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// Resolver of addresses. It keeps the lines of the addresses that it has resolved, so that equal stacks are resolved once.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    known: HashMap<usize, Arc<[String]>>,
    /// Memory of `known`, in bytes.
    bytes: usize,
    /// True if debug information has been read since it was last freed.
    has_read: bool,
}

impl Resolver {
    /// Returns a line for each function of the child's code, the innermost first: `function at file:line`. Reads debug information
    /// for addresses that are not known yet, so it blocks.
    pub(crate) fn lines(&mut self, frames: &Frames) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for address in &frames.0 {
            lines.extend(self.resolve_once(*address).iter().cloned());
        }
        trim(lines, frames.0.len() == FRAMES_MAX)
    }

    fn resolve_once(&mut self, address: usize) -> Arc<[String]> {
        if let Some(lines) = self.known.get(&address) {
            return lines.clone();
        }
        self.has_read = true;
        let lines = resolve(address);
        let bytes = 64 + lines.iter().map(|line| size_of::<String>() + line.len()).sum::<usize>();
        if self.bytes + bytes > KNOWN_BYTES_MAX {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.known.insert(address, lines.clone());
        lines
    }

    /// Frees the debug information. The known lines stay.
    pub(crate) fn free_debug_information(&mut self) {
        if std::mem::take(&mut self.has_read) {
            backtrace::clear_symbol_cache();
        }
    }
}

/// Returns the functions at an address; several if calls are inlined.
fn resolve(address: usize) -> Arc<[String]> {
    let mut lines = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        let name = symbol.name().map(|name| format!("{name:#}"));
        lines.push(line(name, symbol.filename(), symbol.lineno()));
    });
    if lines.is_empty() {
        lines.push(line(None, None, None));
    }
    lines.into()
}

fn line(name: Option<String>, file: Option<&Path>, number: Option<u32>) -> String {
    let mut text = name.unwrap_or_else(|| "unknown function".to_owned());
    if let Some(file) = file {
        // Writing to a String cannot fail.
        let _ = write!(text, " at {}:{}", file.to_string_lossy(), number.unwrap_or(0));
    }
    sanitize(text)
}

/// Removes the frames of the panic itself and of the kernel.
fn trim(mut lines: Vec<String>, is_cut: bool) -> Vec<String> {
    if let Some(begin) = lines.iter().position(|line| line.contains(PANIC)) {
        let calls = |line: &&String| CALLERS.iter().any(|name| line.starts_with(name));
        let callers = lines[begin + 1..].iter().take_while(calls).count();
        lines.drain(..=begin + callers);
    }
    let function = |line: &String| line.split(" at ").next().unwrap_or(line).to_owned();
    match lines.iter().position(|line| CATCH.iter().any(|name| function(line).contains(name))) {
        Some(end) => lines.truncate(end),
        None if is_cut => lines.push("(outer frames are left out)".to_owned()),
        None => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn deep(levels: usize) -> Frames {
        if levels == 0 { Frames::capture() } else { std::hint::black_box(deep(levels - 1)) }
    }

    #[test]
    fn a_stack_is_resolved_to_functions_and_lines() {
        let lines = Resolver::default().lines(&deep(2));
        assert!(lines.iter().filter(|line| line.contains("frames::tests::deep")).count() >= 3, "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("frames.rs:")), "{lines:#?}");
    }

    #[test]
    fn an_equal_stack_is_resolved_without_debug_information() {
        let mut resolver = Resolver::default();
        let frames = deep(2);
        let first = resolver.lines(&frames);
        assert!(resolver.has_read);
        resolver.free_debug_information();
        assert_eq!(resolver.lines(&frames), first);
        assert!(!resolver.has_read && resolver.bytes <= KNOWN_BYTES_MAX);
    }

    #[test]
    fn a_deep_stack_is_cut_with_a_mark() {
        let frames = deep(10_000);
        assert_eq!(frames.bytes(), FRAMES_MAX * size_of::<usize>());
        let lines = Resolver::default().lines(&frames);
        assert_eq!(lines.last().map(String::as_str), Some("(outer frames are left out)"));
    }

    #[test]
    fn frames_of_the_panic_and_of_the_kernel_are_removed() {
        let lines = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let whole = lines(&[
            "hook at a.rs:1",
            "__rustc::rust_begin_unwind at panicking.rs:1",
            "core::panicking::panic_fmt at panicking.rs:2",
            "core::result::unwrap_failed",
            "queue::store<core::option::Option> at x.rs:3",
            "core::option::map",
            "std::panic::catch_unwind",
            "kernel",
        ]);
        assert_eq!(
            trim(whole, true),
            lines(&["queue::store<core::option::Option> at x.rs:3", "core::option::map"])
        );
        assert_eq!(trim(lines(&["a", "b"]), false), lines(&["a", "b"]));
    }
}
