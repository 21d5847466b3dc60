//! `--version`, and the build script behind `--version --verbose`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use orchestrator_harness::TestEnv;
use tempfile::TempDir;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_long_version_has_commit_features_and_libraries() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let short = format!("orchestrator {}\n", env!("CARGO_PKG_VERSION"));
    for arguments in [&["--version"][..], &["-V"]] {
        assert_eq!(env.cli(arguments), (0, short.clone(), String::new()));
    }
    let (code, long, err) = env.cli(&["--version", "--verbose"]);
    assert!(code == 0 && long.starts_with(&short), "{long}{err}");
    assert!(
        long.contains("\ncommit: ")
            && long.contains("\nfeatures: ")
            && long.contains(" queue queue-postgres\n"),
        "{long}"
    );
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("the lock file");
    let libraries: Vec<_> = long.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    assert!(libraries.len() >= 12, "{long}");
    for library in libraries {
        let (name, version) = library.split_once(' ').expect("a name and a version");
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "{library}");
    }
}

/// The compiled build script.
fn build_script(directory: &TempDir) -> PathBuf {
    let script = directory.path().join("build-script");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "-o"]).arg(&script).arg(root().join("build.rs"));
    assert!(rustc.status().expect("rustc runs").success());
    script
}

/// Value of a variable that the build script sets in `directory`.
fn value(script: &Path, directory: &Path, variables: &[(&str, &str)], name: &str) -> String {
    let mut command = Command::new(script);
    command.env_remove("ORCHESTRATOR_COMMIT").env("CARGO_MANIFEST_DIR", directory);
    let output = command.envs(variables.iter().copied()).output().expect("it runs");
    assert!(output.status.success(), "a build never fails for its facts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let prefix = format!("cargo::rustc-env=ORCHESTRATOR_BUILD_{name}=");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).expect(name).to_owned()
}

#[test]
fn the_commit_is_that_of_the_variable_or_of_git_in_release_builds() {
    let (directory, site) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let script = build_script(&directory);
    let commit = |path: &Path, variables: &[(&str, &str)]| value(&script, path, variables, "COMMIT");
    let release = ("PROFILE", "release");
    assert_eq!(commit(site.path(), &[release]), "", "outside of git");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(site.path())
            .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
            .args(arguments);
        let output = git.output().expect("git runs");
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    git(&["init", "--quiet"]);
    assert_eq!(commit(site.path(), &[release]), "", "without a commit");
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    let head = git(&["rev-parse", "HEAD"]);
    assert_eq!(commit(site.path(), &[release]), head);
    assert_eq!(commit(site.path(), &[("PROFILE", "debug")]), "", "a commit would rebuild all tests");
    assert_eq!(commit(site.path(), &[release, ("ORCHESTRATOR_COMMIT", "1234567")]), "1234567");
    let inner = site.path().join("unpacked");
    fs::create_dir(&inner).expect("a directory");
    assert_eq!(commit(&inner, &[release]), "", "in another repository");
}

#[test]
fn a_damaged_lock_file_gives_no_libraries() {
    let (directory, site) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let script = build_script(&directory);
    let libraries = || value(&script, site.path(), &[("CARGO_FEATURE_QUEUE", "1")], "LIBRARIES");
    assert_eq!(libraries(), "");
    fs::write(site.path().join("Cargo.lock"), "[[package]]\nname = \"tokio\"\n\n[[package]")
        .expect("write a file");
    assert_eq!(libraries(), "");
    let features = value(&script, site.path(), &[("CARGO_FEATURE_PROVENANCE_SQLITE", "1")], "FEATURES");
    assert_eq!(features, "provenance-sqlite");
}
