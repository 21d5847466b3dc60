//! `orchestrator --version`, and its long form with `--verbose`.

/// In one line.
pub(crate) fn short() -> String {
    format!("orchestrator {}\n", env!("CARGO_PKG_VERSION"))
}

/// Version, commit, Cargo features and versions of libraries. `build.rs` has read them.
pub(crate) fn long() -> String {
    let or_none = |text: &'static str, none: &'static str| if text.is_empty() { none } else { text };
    let commit = or_none(env!("ORCHESTRATOR_BUILD_COMMIT"), "unknown");
    let features = or_none(env!("ORCHESTRATOR_BUILD_FEATURES"), "none");
    let libraries = env!("ORCHESTRATOR_BUILD_LIBRARIES").split(',').filter(|library| !library.is_empty());
    let libraries: String = libraries.map(|library| format!("  {library}\n")).collect();
    format!(
        "{}commit: {commit}\nfeatures: {features}\nlibraries, as locked for all features:\n{libraries}",
        short()
    )
}
