//! Packages: what the image, the pod, the fragment for compose and the Debian package name exists.
//! `tests/packages` builds and installs them.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use orchestrator_harness::{Instance, TestEnv, eventually, free_port, http_tcp};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{path}")).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Documents of a YAML file.
fn documents(path: &str) -> Vec<Value> {
    read(path).split("\n---\n").map(|text| serde_saphyr::from_str(text).expect(path)).collect()
}

/// Value of a variable of `deploy/package`.
fn of_script(prefix: &str) -> String {
    let script = read("deploy/package");
    let line = script.lines().find_map(|line| line.strip_prefix(prefix)).expect(prefix);
    line.trim_end_matches(')').to_owned()
}

fn units() -> Vec<(String, String)> {
    let entries = fs::read_dir(format!("{ROOT}/deploy")).expect("the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let mut units: Vec<_> = names.filter(|name| name.ends_with(".service")).collect();
    units.sort();
    units.into_iter().map(|name| (name.clone(), read(&format!("deploy/{name}")))).collect()
}

/// Value of a key of a unit.
fn value<'a>(unit: &'a str, key: &str) -> &'a str {
    unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).expect(key)
}

#[test]
fn the_image_has_a_name_for_each_drop_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = of_script("names=(");
    let names: Vec<&str> = names.split(' ').collect();
    for name in &names {
        symlink(BINARY, folder.path().join(name)).expect("a link");
    }
    let help = |program: &Path, words: &[&str]| {
        let output = Command::new(program).args(words).arg("--help").output().expect("it runs");
        assert!(
            output.status.success(),
            "{program:?} {words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let binary = Path::new(BINARY);
    let list = help(binary, &["as"]);
    let commands = list.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let drop_ins = commands.expect("commands").lines().filter_map(|line| {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?.split(' ').next();
        name.filter(|name| *name != "help")
    });
    // The file name of the replaced program and the drop-in.
    let mut used = vec!["supervisor.py"];
    for drop_in in drop_ins {
        let covers = |name: &&&str| drop_in == **name || drop_in.starts_with(&format!("{name}-"));
        let name = names.iter().find(covers).unwrap_or_else(|| panic!("no name for {drop_in}"));
        let word = drop_in[name.len()..].trim_start_matches('-');
        let words: Vec<&str> = Some(word).filter(|word| !word.is_empty()).into_iter().collect();
        assert_eq!(help(&folder.path().join(name), &words), help(binary, &["as", drop_in]), "{drop_in}");
        used.push(name);
    }
    let supervisor = help(&folder.path().join("supervisor.py"), &[]);
    assert_eq!(supervisor, help(binary, &["as", "nixpkgs-update-supervisor"]));
    assert!(names.iter().all(|name| used.contains(name)), "{names:?}: {used:?}");
}

/// The pod's configuration runs here, with its addresses and directories in a folder and without Redis.
#[test]
fn the_pod_runs_the_image_with_probes_that_exist() {
    const FILE: &str = "deploy/kubernetes/ingester.yaml";
    let all = documents(FILE);
    let of_kind = |kind: &str| all.iter().find(|document| document["kind"] == kind).expect("a document");
    let pod = &of_kind("Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let user: u64 = of_script("user=").parse().expect("a number");
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        assert_eq!(pod["securityContext"][key], user, "{key}");
    }
    assert!(read(FILE).contains("            defaultMode: 0440\n"), "the secret is private");
    assert_eq!(container["image"], format!("orchestrator:{}", env!("CARGO_PKG_VERSION")));

    let settings = of_kind("ConfigMap")["data"]["ingester.toml"].as_str().expect("a configuration");
    let config: Value = toml::from_str(settings).expect("TOML");
    let ingester = &config["ingester"][0];
    let mount = |path: &Value, name: &str| {
        let mounts = container["volumeMounts"].as_array().expect("mounts");
        let mount = mounts.iter().find(|mount| mount["name"] == name).expect(name);
        let folder = mount["mountPath"].as_str().expect("a path");
        assert!(path.as_str().is_some_and(|path| path.starts_with(folder)), "{path} is not in {folder}");
    };
    mount(&ingester["redis_url_file"], "secret");
    mount(&ingester["spill_dir"], "spill");
    mount(&config["admin"]["unix_socket"], "run");
    mount(&container["command"][3], "config");
    let port = |address: &Value| {
        address.as_str().and_then(|address| address.rsplit(':').next()?.parse::<u64>().ok()).expect("a port")
    };
    let service = of_kind("Service");
    let [workers, probes] = [&ingester["listen"], &config["admin"]["probe_listen"]].map(port);
    assert_eq!(container["ports"][0], json!({ "name": "workers", "containerPort": workers }));
    assert_eq!(container["ports"][1], json!({ "name": "probes", "containerPort": probes }));
    assert_eq!(service["spec"]["ports"][0]["port"], workers);
    let name = service["metadata"]["name"].as_str().expect("a name");
    assert_eq!(ingester["advertise"], format!("tcp://{name}:{workers}"));

    let env = TestEnv::new(BINARY);
    let file = env.path().join("ingester.toml");
    fs::write(&file, settings).expect("write the configuration");
    let secret = env.path().join("redis.url");
    fs::write(&secret, format!("redis://127.0.0.1:{}/0", free_port())).expect("write the secret");
    let mut command = env.bare_command();
    command.args(["run", "--config"]).arg(&file);
    for assignment in [
        "admin.probe_listen=127.0.0.1:0".to_owned(),
        format!("admin.unix_socket={}", env.admin_socket().display()),
        format!("ingester.{name}.listen=127.0.0.1:{}", free_port()),
        format!("ingester.{name}.redis_url_file={}", secret.display()),
        format!("ingester.{name}.spill_dir={}", env.path().display()),
    ] {
        command.args(["--set", &assignment]);
    }
    let instance = Instance::spawn(command);
    eventually("the endpoint to answer", || env.cli(&["tree"]).0 == 0);
    let address = env.admin_probe();
    for (probe, status) in [("livenessProbe", 200), ("readinessProbe", 503)] {
        let get = &container[probe]["httpGet"];
        let path = get["path"].as_str().expect("a path");
        assert_eq!(get["port"], "probes", "{probe}");
        eventually(path, || http_tcp(address, "GET", path, &[], "").status == status);
    }
    assert!(instance.terminate().success());
}

#[test]
fn the_fragment_for_compose_runs_a_drop_in_of_the_image() {
    let all = documents("deploy/compose/producer.yaml");
    let producer = &all[0]["services"]["producer"];
    assert_eq!(producer["image"], format!("orchestrator:{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(producer["user"], format!("{0}:{0}", of_script("user=")));
    let program = producer["command"][0].as_str().expect("a program");
    assert!(of_script("names=(").split(' ').any(|name| name == program), "{program}");
    assert_eq!(producer["command"][1], producer["secrets"][0]["target"]);
    assert_eq!(producer["healthcheck"]["test"], json!(["CMD", "orchestrator", "health"]));
    let (code, _, error) = TestEnv::new(BINARY).cli(&["health", "--help"]);
    assert_eq!(code, 0, "{error}");
}

#[test]
fn the_debian_package_knows_the_files_of_its_units() {
    let purge = read("deploy/debian/postrm");
    let scripts = [read("deploy/debian/postinst"), read("deploy/debian/prerm")];
    let sysusers = read("deploy/debian/sysusers.conf");
    for (name, unit) in units() {
        assert!(sysusers.contains(&format!("\nu {} - ", value(&unit, "User"))), "{name}");
        for script in &scripts {
            let list = script.split('"').nth(1).expect("a list of units");
            assert!(list.split_whitespace().any(|listed| listed == name), "{name}: {script}");
        }
        let state = format!("/var/lib/{}", value(&unit, "StateDirectory"));
        assert!(purge.split_whitespace().any(|word| word == state), "{name}: {state}");
    }
    let (code, _, error) =
        TestEnv::new(BINARY).cli(&["check", "--config", &format!("{ROOT}/deploy/debian/orchestrator.toml")]);
    assert_eq!(code, 0, "{error}");
    let manifest: Value = toml::from_str(&read("Cargo.toml")).expect("TOML");
    for asset in manifest["package"]["metadata"]["deb"]["assets"].as_array().expect("assets") {
        let source = asset[0].as_str().expect("a source");
        let folder = source.split('*').next().expect("a path");
        let is_generated = source.starts_with("target/");
        assert!(is_generated || Path::new(ROOT).join(folder).exists(), "{source}");
    }
}

/// 1.5 for the queue, and 2.5 for those that need the network and start programs.
#[test]
fn units_are_exposed_no_more_than_they_need() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return;
    }
    for (name, _) in units() {
        let threshold = if name == "orchestrator.service" { "15" } else { "25" };
        let output = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold", threshold])
            .arg(format!("{ROOT}/deploy/{name}"))
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}
