//! Facts about the build for `orchestrator --version --verbose`: commit, Cargo features and versions of
//! libraries.
//!
//! `ORCHESTRATOR_COMMIT` names the commit; without it, a release build asks git. A build without git, or with
//! a damaged Cargo.lock, succeeds and knows less.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Libraries whose versions matter for a report.
const LIBRARIES: [&str; 14] = [
    "actix",
    "clap",
    "config",
    "hyper",
    "lapin",
    "libsqlite3-sys",
    "mongodb",
    "redis",
    "rusqlite",
    "rustls",
    "serde",
    "tokio",
    "tokio-postgres",
    "tracing",
];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-env-changed=ORCHESTRATOR_COMMIT");
    println!("cargo::rustc-env=ORCHESTRATOR_BUILD_COMMIT={}", commit(&root).unwrap_or_default());
    println!("cargo::rustc-env=ORCHESTRATOR_BUILD_FEATURES={}", features().join(" "));
    println!("cargo::rustc-env=ORCHESTRATOR_BUILD_LIBRARIES={}", libraries(&root).join(","));
}

/// Returns the commit, if it is known. Every commit would change the program, so development builds do not
/// ask git.
fn commit(root: &Path) -> Option<String> {
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if let Ok(commit) = env::var("ORCHESTRATOR_COMMIT") {
        return Some(commit).filter(|commit| is_name(commit));
    }
    if env::var("PROFILE").as_deref() != Ok("release") {
        return None;
    }
    // An unpacked archive may be inside of another repository.
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
        return None;
    }
    for name in ["HEAD", "logs/HEAD"] {
        let path = root.join(git(root, &["rev-parse", "--git-path", name])?);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(root, &["rev-parse", "HEAD"]).filter(|commit| is_name(commit))
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Returns the enabled Cargo features.
fn features() -> Vec<String> {
    let name =
        |variable: String| Some(variable.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-"));
    let mut features: Vec<_> =
        env::vars_os().filter_map(|(variable, _)| name(variable.into_string().ok()?)).collect();
    features.retain(|feature| feature != "default");
    features.sort();
    features
}

/// Returns `NAME VERSION` of each library in Cargo.lock.
fn libraries(root: &Path) -> Vec<String> {
    let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
    let mut found = Vec::new();
    for package in lock.split("[[package]]") {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")))?;
            Some(line.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version)) = (value("name"), value("version"))
            && LIBRARIES.contains(&name.as_str())
        {
            found.push(format!("{name} {version}"));
        }
    }
    found
}
