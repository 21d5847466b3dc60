//! Configuration through the binary: what is refused says where and why and ends with code 78, and every key that exists
//! is in `config/orchestrator.toml` with its default.

mod secrets;

use std::{fs, path::Path};

use orchestrator_harness::{Instance, Site, free_port, http, wait_for};

fn site() -> Site {
    Site::new(env!("CARGO_BIN_EXE_orchestrator"))
}

/// `check` on a configuration file: exit code and standard error.
fn check(text: &str) -> (i32, String) {
    let site = site();
    let file = site.path().join("odd.toml");
    fs::write(&file, text).expect("write a configuration");
    let (code, out, err) = site.cli(&["check", "--config", &file.display().to_string()]);
    assert!(code == 0 || out.is_empty(), "a refused configuration prints no tree");
    assert!(code == 0 || err.contains(&file.display().to_string()), "{err} does not name the file");
    (code, err)
}

#[test]
fn what_is_refused_is_named_with_file_line_and_key() {
    let odd = [
        ("[queue]\nhold_secs = 60\nholdsecs = 60\n", ":3:", "holdsecs"),
        ("[queue]\n\nhold_secs = \"60\"\n", ":3:", "hold_secs"),
        ("[queue]\nhold_secs = -1\n", ":2:", "hold_secs"),
        ("[queue]\nhold_secs = 1.5\n", ":2:", "hold_secs"),
        ("[queue]\non_corrupt = \"ignore\"\n", ":2:", "on_corrupt"),
        ("[queue]\nsynchronous = true\n", ":2:", "synchronous"),
        ("[queue]\nredeliver_after_lease = \"yes\"\n", ":2:", "redeliver_after_lease"),
        ("[queue]\ndatabase = 7\n", ":2:", "database"),
        ("[telemetry]\nformat = \"xml\"\n", ":2:", "format"),
        ("[admin]\nlisten = 7117\n", ":2:", "listen"),
        ("[admin]\n[queu]\n", ":2:", "queu"),
        ("hold_secs = 60\n", ":1:", "hold_secs"),
        ("[queue]\nhold_secs = \n", ":2:", "hold_secs"),
        ("[queue\n", ":1:", "[queue"),
    ];
    for (text, line, key) in odd {
        let (code, err) = check(text);
        assert_eq!(code, 78, "{text:?}: {err}");
        assert!(err.contains(line) && err.contains(key), "{text:?}: no {line} and {key} in {err}");
    }
    assert_eq!(site().cli(&["check", "--config", "/dev/null"]).0, 0, "a pipe or a device is a file, too");
    let (code, _, err) = site().cli(&["check", "--config", "/nowhere/queue.toml"]);
    assert!(code == 78 && err.contains("/nowhere/queue.toml"), "{code} {err}");
}

#[test]
fn a_refused_configuration_starts_nothing() {
    let site = site();
    for arguments in [["--set", "queue.nonsense=1"], ["--only", "nonsense"], ["--set", "queue.hold_secs=x"]] {
        let mut command = site.command();
        command.args(arguments);
        assert_eq!(Instance::spawn(command).wait().code(), Some(78), "{arguments:?}");
        assert!(!site.database_path().exists() && !site.socket().exists());
        let (log, value) = (site.log(), arguments[1]);
        let key = value.split(['=', '.']).find(|part| *part != "queue").expect("a key");
        assert!(log.contains(key), "{value}: {log}");
    }
}

#[test]
fn set_wins_over_files_and_later_files_over_earlier_ones() {
    let site = site();
    let file = |name: &str, text: &str| {
        let path = site.path().join(name);
        fs::write(&path, text).expect("write a configuration");
        path.display().to_string()
    };
    let first = file("1.toml", "[queue]\nsocket = \"first.sock\"\ndatabase = \"first.db\"\n");
    let second = file("2.toml", "[queue]\nsocket = \"second.sock\"\n");
    let mut command = site.bare_command();
    command.args(["--config", &first, "--config", &second]);
    command.args(["--set", "queue.input_dir=in", "--set", "queue.input_dir=third/in"]);
    let _instance = Instance::spawn(command);
    wait_for("the second file's socket", || site.path().join("second.sock").exists().then_some(()));
    wait_for("the first file's database", || site.path().join("first.db").exists().then_some(()));
    assert!(site.path().join("third/in").is_dir() && !site.path().join("in").exists());
    assert!(!site.path().join("first.sock").exists() && !site.path().join("var").exists());
}

/// Which children of the root `check` shows.
fn subsystems(arguments: &[&str]) -> Vec<String> {
    let (code, out, err) = site().cli(&[&["check"], arguments].concat());
    assert_eq!(code, 0, "{arguments:?}: {err}");
    let names = out.lines().filter_map(|line| line.strip_prefix("├─ ").or(line.strip_prefix("└─ ")));
    names.filter_map(|name| name.split("  ").next()).map(str::to_owned).collect()
}

#[test]
fn a_section_that_is_there_runs_and_none_means_queue_and_admin() {
    assert_eq!(subsystems(&[]), ["admin", "queue"]);
    assert_eq!(subsystems(&["--set", "telemetry.filter=warn"]), ["admin", "queue"], "logs are no subsystem");
    assert_eq!(subsystems(&["--set", "queue.hold_secs=1"]), ["queue"]);
    assert_eq!(subsystems(&["--only", "queue"]), ["admin", "queue"], "as without sections");
    assert_eq!(subsystems(&["--only", "queue", "--set", "queue.hold_secs=1"]), ["queue"]);
    assert_eq!(subsystems(&["--only", "queue", "--set", "admin.listen=\"\""]), ["admin", "queue"]);
}

/// Tables of columns.
const COLUMNS: [&str; 4] =
    ["catalog.rule.claim.set", "catalog.rule.done", "catalog.rule.fail", "catalog.rule.dead"];

/// Keys of `section`, as the program lists them when it refuses one.
fn known_keys(section: &str) -> Vec<String> {
    // An array of tables inside another one's entry.
    let catalog = "[[catalog]]\nname = \"lab\"\nbase = \"https://h/ermrest/catalog/1\"\n";
    let rule = format!("{catalog}[[catalog.rule]]\nname = \"convert\"\n");
    let above = match section {
        "[ingester.stream]" => "[[ingester]]\nname = \"i\"\n",
        "[catalog.rule]" => catalog,
        inner if inner.starts_with("catalog.rule.") => &rule,
        _ => "",
    };
    let (code, err) = check(&format!("{above}[{section}]\nno_such_key = 1\n"));
    assert_eq!(code, 78);
    let list = err.split_once("known are ").expect("a list of keys").1;
    list.lines().next().expect("a line").split(", ").map(str::to_owned).collect()
}

#[test]
fn the_commented_configuration_has_every_key_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/orchestrator.toml");
    let text = fs::read_to_string(path).expect("the commented configuration");
    let plain: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        .collect();
    assert_eq!(check(&text).0, 0, "as it is shipped");
    // A source has one place: the others are shown beside it. And files with urls would have to be there. So with a rule: it is given
    // by a table or by paths, and nobody works on its rows here.
    let places = [
        "listen = \"0.0.0.0:8000\"",
        "file = ",
        "pace = ",
        "redis_url_file = ",
        "ca_file = ",
        "amqp_file = ",
        "query = ",
        "update = ",
        "argv = ",
        "cwd = ",
        "env = ",
        "env_pass = ",
        "url = \"http://127.0.0.1:8080/convert\"",
        "headers = ",
        "headers_file = ",
        "actor = ",
    ];
    let whole: Vec<_> =
        plain.iter().filter(|line| !places.iter().any(|place| line.starts_with(place))).copied().collect();
    let (code, err) = check(&whole.join("\n"));
    assert_eq!(code, 0, "with every line uncommented: {err}");

    let mut section = "";
    let mut listed: Vec<(&str, String)> = Vec::new();
    for line in plain.iter().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
            // Columns have any names.
            if COLUMNS.contains(&section) {
                continue;
            }
            let known = known_keys(section);
            let mut in_file: Vec<_> = plain
                .iter()
                .skip_while(|line| **line != format!("[{section}]"))
                .skip(1)
                .take_while(|line| !line.starts_with('['))
                .filter_map(|line| line.split_once(" = ").filter(|_| !line.starts_with('#')))
                .map(|(key, _)| key.to_owned())
                .collect();
            // Sections inside a section are keys of it.
            let inner = format!("{}.", section.trim_matches(['[', ']']));
            in_file.extend(
                plain
                    .iter()
                    .filter(|line| line.starts_with('['))
                    .filter_map(|line| line.trim_matches(['[', ']']).strip_prefix(&inner))
                    .filter(|name| !name.contains('.'))
                    .map(str::to_owned),
            );
            in_file.sort();
            assert_eq!(in_file, known, "keys of [{section}]");
        } else if let Some((key, value)) = line.split_once(" = ") {
            listed.push((section, format!("{key}={value}")));
        }
    }
    assert!(listed.len() > 10, "{listed:?}");

    // What is not set is as the file says: the same run, with and without. `admin.unix_socket` is off by default.
    let (bare, spelled) = (site(), site());
    let start = |site: &Site, text: Option<&str>| {
        let mut command = site.bare_command();
        let admin = site.admin_socket().display().to_string();
        command.args(["--set", "admin.listen=\"\"", "--set", &format!("admin.unix_socket={admin}")]);
        command.args(["--set", "queue.hold_secs=43200"]);
        if let Some(text) = text {
            let file = site.path().join("all.toml");
            fs::write(&file, text).expect("write a configuration");
            command.args(["--config", &file.display().to_string()]);
        }
        let instance = Instance::spawn(command);
        wait_for("the default socket", || site.path().join("var/worker.sock").exists().then_some(()));
        instance
    };
    // The workers' port of an ingester is taken where another instance runs on this machine.
    let port = "127.0.0.1:10000";
    assert_eq!(whole.iter().filter(|line| line.contains(port)).count(), 1);
    let spelled_text = whole.join("\n").replace(port, &format!("127.0.0.1:{}", free_port()));
    let _running = (start(&bare, None), start(&spelled, Some(&spelled_text)));
    for site in [&bare, &spelled] {
        wait_for("the default database", || site.path().join("var/queue.db").exists().then_some(()));
        assert!(site.path().join("var/fetchers").is_dir());
        let refused = http(&site.admin_socket(), "POST", "/v1/actors/queue/reader/panic", &[], "{}");
        assert_eq!(refused.status, 409, "chaos is off");
    }
}

#[test]
fn the_admin_endpoint_listens_on_loopback_or_not_at_all() {
    for open in ["0.0.0.0:7117", "[::]:7117", "192.0.2.1:80", "localhost:7117", "7117"] {
        let (code, err) = check_set(&format!("admin.listen=\"{open}\""));
        assert_eq!(code, 78, "{open}: {err}");
        assert!(err.contains("admin.listen") && err.contains(open), "{err}");
    }
    let site = site();
    let mut command = site.bare_command();
    command.args(["--set", "admin.listen=0.0.0.0:0"]);
    assert_eq!(Instance::spawn(command).wait().code(), Some(78), "refused at the start, too");
    assert!(site.log().contains("not a loopback address"), "{}", site.log());

    // The harness' command says `admin.listen=""`: nothing but the unix socket is open.
    let site = self::site();
    let instance = site.start();
    wait_for("the admin socket", || site.admin_socket().exists().then_some(()));
    let listening = listening_inodes(&fs::read_to_string("/proc/net/tcp").expect("procfs"));
    let fds = fs::read_dir(format!("/proc/{}/fd", instance.pid())).expect("the process runs");
    let open = fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    let tcp: Vec<_> = open.filter(|fd| listening.iter().any(|inode| fd == Path::new(inode))).collect();
    assert!(tcp.is_empty(), "it listens on TCP: {tcp:?}");
}

fn check_set(assignment: &str) -> (i32, String) {
    let (code, _, err) = site().cli(&["check", "--set", assignment]);
    (code, err)
}

/// `socket:[INODE]` of every listening TCP socket of the machine.
fn listening_inodes(table: &str) -> Vec<String> {
    let fields = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| fields[3] == "0A").map(|fields| format!("socket:[{}]", fields[9])).collect()
}
