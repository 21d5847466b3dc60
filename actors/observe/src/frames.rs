//! Stack of a panic. The hook stores addresses only; functions and lines are resolved when a report is read.

/// Most addresses of one stack. They include about twenty of the panic itself and of the runtime.
const FRAMES_MAX: usize = 128;

/// Name of the function that begins a panic.
const PANIC: &str = "rust_begin_unwind";
/// First letters of functions that call it. The frames after them are the child's.
const CALLERS: [&str; 5] =
    ["core::panicking::", "core::option::", "core::result::", "<core::option::", "<core::result::"];
/// Names of functions that catch a panic. The frames from them on are the kernel's.
const CATCH: [&str; 2] = ["__rust_try", "::catch_unwind"];

/// Addresses of a stack, the innermost first; at most 128.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frames(Box<[usize]>);

impl Frames {
    /// Addresses of the stack of this thread. Names and lines are not looked up.
    pub fn capture() -> Self {
        let mut addresses = Vec::with_capacity(64);
        backtrace::trace(|frame| {
            addresses.push(frame.ip().addr());
            addresses.len() < FRAMES_MAX
        });
        Self(addresses.into())
    }

    /// Addresses, the innermost first.
    pub(crate) fn addresses(&self) -> &[usize] {
        &self.0
    }

    /// True if outer frames are left out.
    fn is_cut(&self) -> bool {
        self.0.len() == FRAMES_MAX
    }

    /// Keeps the lines of the child's code, without those of the panic itself and of the kernel. `lines` are
    /// all lines of this stack.
    pub(crate) fn trim(&self, lines: Vec<String>) -> Vec<String> {
        trim(lines, self.is_cut())
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
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

    #[test]
    fn frames_of_the_panic_and_of_the_kernel_are_removed() {
        let lines = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let whole = lines(&[
            "hook at a.rs:1",
            "__rustc::rust_begin_unwind at panicking.rs:1",
            "core::panicking::panic_fmt at panicking.rs:2",
            "core::result::unwrap_failed",
            "store::put<core::option::Option> at x.rs:3",
            "core::option::map",
            "std::panic::catch_unwind",
            "kernel",
        ]);
        assert_eq!(
            trim(whole, true),
            lines(&["store::put<core::option::Option> at x.rs:3", "core::option::map"])
        );
        assert_eq!(trim(lines(&["a", "b"]), false), lines(&["a", "b"]));
    }
}
