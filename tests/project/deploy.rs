//! Packaging: systemd accepts the unit file, and the binary needs only the C library.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use orchestrator_harness::TestEnv;
use serde_json::Value;

/// Units with the example configuration that the page of their program links.
const UNITS: [(&str, &str, &str); 6] = [
    ("orchestrator", include_str!("../../deploy/orchestrator.service"), "nixpkgs-update.toml"),
    ("orchestrator-ingester", include_str!("../../deploy/orchestrator-ingester.service"), "dranspose.toml"),
    (
        "orchestrator-provenance",
        include_str!("../../deploy/orchestrator-provenance.service"),
        "swh-provenance.toml",
    ),
    (
        "orchestrator-producer",
        include_str!("../../deploy/orchestrator-producer.service"),
        "tanglenomicon.toml",
    ),
    ("orchestrator-catalog", include_str!("../../deploy/orchestrator-catalog.service"), "ermrest-agent.toml"),
    ("orchestrator-pipeline", include_str!("../../deploy/orchestrator-pipeline.service"), "pipeline.toml"),
];
const NETWORK: &str = include_str!("../../deploy/network.conf");
const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

/// Values of a key of a unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn each_unit_runs_its_program_with_the_example_of_its_page() {
    let root = env!("CARGO_MANIFEST_DIR");
    for (name, unit, example) in UNITS {
        assert_eq!(values(unit, "Type"), ["notify"], "{name}: the program sends READY");
        assert_eq!(values(unit, "WatchdogSec").len(), 1, "{name}: the program feeds a watchdog");
        assert_eq!(values(unit, "RestartPreventExitStatus"), ["78"], "{name}");
        assert_eq!(values(unit, "LimitCORE"), ["0"], "{name}: a core file would have secrets");
        let example = format!("{root}/config/{example}");
        let config = fs::read_to_string(&example).expect("the example");
        // What the configuration names, the unit provides.
        let given = values(unit, "LoadCredential");
        for line in config.lines().filter(|line| line.contains("/run/credentials/")) {
            let (_, path) = line.split_once("/run/credentials/").expect("a path");
            let secret = path.strip_prefix(&format!("{name}.service/")).expect(path).trim_end_matches('"');
            assert!(given.iter().any(|given| given.starts_with(&format!("{secret}:"))), "{name}: {secret}");
        }
        let runtime = values(unit, "RuntimeDirectory").join("");
        let socket = config.lines().find_map(|line| line.strip_prefix("unix_socket = \"/run/"));
        if name != "orchestrator" {
            assert!(
                socket.is_none_or(|socket| socket.starts_with(&format!("{runtime}/"))),
                "{name}: {socket:?}"
            );
            assert!(
                socket.is_some() || name == "orchestrator-pipeline",
                "{name}: root's commands find its socket"
            );
            assert!(values(unit, "IPAddressDeny").is_empty(), "{name}: its servers are on the network");
            assert!(
                values(unit, "RestrictAddressFamilies")[0].contains("AF_NETLINK"),
                "{name} resolves names"
            );
        }
        let runs_programs = !["orchestrator", "orchestrator-provenance"].contains(&name);
        assert_eq!(values(unit, "MemoryDenyWriteExecute").is_empty(), runs_programs, "{name}");
        let home = if runs_programs { "read-only" } else { "yes" };
        assert_eq!(values(unit, "ProtectHome"), [home], "{name}");
        let command = values(unit, "ExecStart");
        let arguments: Vec<_> = command[0].split_whitespace().skip(1).collect();
        let ["run", "--config", file] = arguments[..] else { panic!("{name}: {arguments:?}") };
        assert!(file.starts_with("/etc/orchestrator/"), "{name}: {file}");
        let (code, _, err) = TestEnv::new(BINARY).cli(&["check", "--config", &example]);
        assert_eq!(code, 0, "{name}: {err}");
        // The drop-in in the comment is a command line that the program knows.
        let drop_in =
            unit.lines().find_map(|line| line.strip_prefix("#   ExecStart=/usr/local/bin/orchestrator as "));
        if let Some(drop_in) = drop_in {
            let program = drop_in.split(' ').next().expect("a name");
            let (code, _, err) = TestEnv::new(BINARY).cli(&["as", program, "--help"]);
            assert_eq!(code, 0, "{name}: {err}");
        }
    }
}

/// Advisories appear without a change of this repository, so a schedule looks for them.
#[test]
fn advisories_are_checked_on_a_schedule() {
    let path = format!("{}/.github/workflows/ci.yml", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).expect("the workflow");
    assert!(text.contains("\n  schedule:\n"), "{text}");
    let jobs = text.split_once("\njobs:\n").expect("jobs").1;
    let job = jobs.split_once("\n  advisories:\n").expect("a job").1;
    assert!(job.contains("if: github.event_name == 'schedule'\n"), "{job}");
    assert!(job.contains("- run: cargo deny check advisories\n"), "{job}");
}

/// Writes the units into a folder, with the program that exists. Returns the file of each.
fn install(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let write = |(name, unit, _): (&'static str, &str, &str)| {
        let file = folder.join(format!("{name}.service"));
        fs::write(&file, unit.replace("/usr/local/bin/orchestrator", BINARY)).expect("write the unit");
        (name, file)
    };
    UNITS.map(write).into()
}

/// Adds the drop-in for the network to a unit.
fn add_network(unit: &Path) {
    let folder = unit.with_extension("service.d");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("network.conf"), NETWORK).expect("write the drop-in");
}

/// Runs `systemd-analyze`. Returns what it prints, or nothing if systemd is not installed.
fn analyze(arguments: &[&str], unit: &Path) -> Option<(String, String)> {
    let output = Command::new("systemd-analyze").args(arguments).arg(unit).output().ok()?;
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{out}{err}");
    Some((out, err))
}

#[test]
fn systemd_accepts_the_units_with_and_without_the_network() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, file) in install(folder.path()) {
        for with_network in [false, true] {
            if with_network {
                add_network(&file);
            }
            let Some((_, said)) = analyze(&["verify", "--man=no"], &file) else { return };
            assert!(!said.contains(name), "{name}: {said}");
        }
    }
}

/// Each setting that systemd judges, with the points for it.
fn rights(unit: &Path) -> Option<BTreeMap<String, Value>> {
    let (out, _) = analyze(&["security", "--offline=true", "--json=short"], unit)?;
    let all: Vec<Value> = serde_json::from_str(&out).expect("JSON");
    Some(all.iter().map(|one| (one["json_field"].to_string(), one["exposure"].clone())).collect())
}

#[test]
fn the_drop_in_grants_what_several_subsystems_have_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let units: BTreeMap<_, _> = install(folder.path()).into_iter().collect();
    let Some(alone) = rights(&units["orchestrator"]) else { return };
    let several = rights(&units["orchestrator-pipeline"]).expect("systemd");
    add_network(&units["orchestrator"]);
    let with_network = rights(&units["orchestrator"]).expect("systemd");
    assert_eq!(with_network, several);
    let differs = |key: &&String| alone[*key] != several[*key];
    let granted: Vec<&String> = alone.keys().filter(differs).collect();
    assert_eq!(
        granted,
        [
            "\"IPAddressDeny\"",
            "\"MemoryDenyWriteExecute\"",
            "\"ProtectHome\"",
            "\"RestrictAddressFamilies_AF_NETLINK\""
        ]
    );
}

#[test]
fn the_binary_links_only_the_c_library() {
    let output = Command::new("ldd").arg(BINARY).output().expect("ldd comes with the C library");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    // libgcc_s comes with Debian's libc6, which depends on it.
    let known =
        ["linux-vdso.so", "ld-linux", "libc.so", "libm.so", "libgcc_s.so", "libpthread.so", "libdl.so"];
    let others: Vec<_> =
        listed.lines().filter(|line| !known.iter().any(|name| line.contains(name))).collect();
    assert!(listed.contains("libc.so") && others.is_empty(), "{listed}");
}
