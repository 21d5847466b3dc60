//! Dependencies between the crates of the workspace.

use super::*;

/// Crates of the workspace that each crate may depend on, outside of tests.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("orchestrator-text", &[]),
    ("orchestrator-observe", &["orchestrator-text"]),
    ("orchestrator-supervise", &["orchestrator-observe", "orchestrator-text"]),
    ("orchestrator-exchange", &["orchestrator-observe", "orchestrator-supervise"]),
    (
        "orchestrator-subsystem",
        &["orchestrator-exchange", "orchestrator-observe", "orchestrator-supervise", "orchestrator-text"],
    ),
    ("orchestrator-edge", &["orchestrator-observe", "orchestrator-supervise", "orchestrator-text"]),
    (
        "orchestrator-admin",
        &[
            "orchestrator-edge",
            "orchestrator-observe",
            "orchestrator-subsystem",
            "orchestrator-supervise",
            "orchestrator-text",
        ],
    ),
    ("orchestrator-queue-rules", &["orchestrator-text"]),
    (
        "orchestrator-queue-store",
        &[
            "orchestrator-edge",
            "orchestrator-observe",
            "orchestrator-queue-rules",
            "orchestrator-subsystem",
            "orchestrator-supervise",
        ],
    ),
    (
        "orchestrator-queue-sqlite",
        &[
            "orchestrator-edge",
            "orchestrator-observe",
            "orchestrator-queue-rules",
            "orchestrator-queue-store",
            "orchestrator-subsystem",
            "orchestrator-supervise",
            "orchestrator-text",
        ],
    ),
    (
        "orchestrator-queue-postgres",
        &[
            "orchestrator-edge",
            "orchestrator-observe",
            "orchestrator-queue-rules",
            "orchestrator-queue-store",
            "orchestrator-subsystem",
            "orchestrator-supervise",
            "orchestrator-text",
        ],
    ),
    (
        "orchestrator-queue",
        &[
            "orchestrator-edge",
            "orchestrator-exchange",
            "orchestrator-observe",
            "orchestrator-queue-postgres",
            "orchestrator-queue-rules",
            "orchestrator-queue-sqlite",
            "orchestrator-queue-store",
            "orchestrator-subsystem",
            "orchestrator-supervise",
            "orchestrator-text",
        ],
    ),
    (
        "orchestrator-provenance",
        &[
            "orchestrator-edge",
            "orchestrator-observe",
            "orchestrator-subsystem",
            "orchestrator-supervise",
            "orchestrator-text",
        ],
    ),
    ("orchestrator-ingester-zmtp", &["orchestrator-text"]),
    ("orchestrator-ingester-protocols", &["orchestrator-ingester-zmtp", "orchestrator-text"]),
    (
        "orchestrator-ingester",
        &[
            "orchestrator-edge",
            "orchestrator-exchange",
            "orchestrator-ingester-protocols",
            "orchestrator-ingester-zmtp",
            "orchestrator-observe",
            "orchestrator-subsystem",
            "orchestrator-supervise",
            "orchestrator-text",
        ],
    ),
    ("orchestrator-producer-rules", &[]),
    (
        "orchestrator-producer",
        &[
            "orchestrator-edge",
            "orchestrator-observe",
            "orchestrator-producer-rules",
            "orchestrator-subsystem",
            "orchestrator-supervise",
            "orchestrator-text",
        ],
    ),
    ("orchestrator-catalog-rules", &["orchestrator-text"]),
    (
        "orchestrator-catalog",
        &[
            "orchestrator-catalog-rules",
            "orchestrator-edge",
            "orchestrator-exchange",
            "orchestrator-observe",
            "orchestrator-subsystem",
            "orchestrator-supervise",
            "orchestrator-text",
        ],
    ),
    (
        "orchestrator-hooks",
        &[
            "orchestrator-edge",
            "orchestrator-observe",
            "orchestrator-subsystem",
            "orchestrator-supervise",
            "orchestrator-text",
        ],
    ),
    (
        "orchestrator",
        &[
            "orchestrator-admin",
            "orchestrator-catalog",
            "orchestrator-edge",
            "orchestrator-hooks",
            "orchestrator-ingester",
            "orchestrator-observe",
            "orchestrator-producer",
            "orchestrator-provenance",
            "orchestrator-queue",
            "orchestrator-subsystem",
            "orchestrator-supervise",
            "orchestrator-text",
        ],
    ),
    ("orchestrator-harness", &[]),
    (
        "orchestrator-bench",
        &[
            "orchestrator-edge",
            "orchestrator-harness",
            "orchestrator-producer",
            "orchestrator-producer-rules",
            "orchestrator-provenance",
            "orchestrator-queue-postgres",
            "orchestrator-queue-rules",
            "orchestrator-queue-sqlite",
            "orchestrator-subsystem",
            "orchestrator-supervise",
        ],
    ),
];

#[test]
fn crates_depend_only_on_allowed_crates() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ALLOWED_DEPENDENCIES.iter().map(|(name, may)| (*name, may.iter().copied().collect())).collect();
    let mut offenders = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let Some(allowed) = allowed.get(name) else {
            offenders.push(format!("{name} is not in ALLOWED_DEPENDENCIES: add it"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let other = dependency["name"].as_str().expect("a name");
            let ours = other.starts_with("orchestrator");
            let outside_tests = dependency["kind"].is_null();
            if ours && outside_tests && !allowed.contains(other) {
                offenders.push(format!("{name} -> {other}"));
            }
        }
    }
    assert_none("dependencies that are not allowed", &offenders);
}
