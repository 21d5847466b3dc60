//! Drop-in for the original: `orchestrator as nixpkgs-update-supervisor DB DIR SOCKET`, with databases of the
//! original (CONTRACT QD01 to QD07).

use std::{
    collections::HashSet,
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use orchestrator_harness::{Instance, Reply, TestEnv, UnitFile, eventually, http, original};

const PAGE: &str = include_str!("../../actors/queue/README.md");

const NAME: &str = "nixpkgs-update-supervisor";
const USAGE: i32 = 2;
const UNREACHABLE: i32 = 3;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

/// Command `as [OPTIONS] NAME DB DIR SOCKET`, as in a unit file.
fn command(env: &TestEnv, options: &[&str]) -> Command {
    let mut command = env.bare_command();
    command.env_remove("ORCHESTRATOR_SOCKET").arg("as").args(options).arg(NAME);
    command.args([env.database_path(), env.input_dir(), env.socket()]);
    command
}

fn start(env: &TestEnv) -> Instance {
    let instance = Instance::spawn(command(env, &[]));
    instance.await_service(env);
    instance
}

/// Inodes of all listening TCP sockets of the machine.
fn tcp_listeners() -> HashSet<String> {
    const LISTEN: &str = "0A";
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let fields = rows.map(|row| row.split_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| fields[3] == LISTEN).map(|fields| format!("socket:[{}]", fields[9])).collect()
}

/// Number of listening TCP sockets of the process.
fn listeners_of(instance: &Instance) -> usize {
    let listeners = tcp_listeners();
    let open = fs::read_dir(format!("/proc/{}/fd", instance.pid())).expect("it runs");
    let links = open.filter_map(|entry| fs::read_link(entry.expect("an entry").path()).ok());
    let links: HashSet<_> = links.map(|link| link.display().to_string()).collect();
    links.intersection(&listeners).count()
}

/// A link to the binary with the name of another program.
fn named(env: &TestEnv, name: &str) -> PathBuf {
    let link = env.path().join(name);
    symlink(env!("CARGO_BIN_EXE_orchestrator"), &link).expect("link the program");
    link
}

#[test]
fn the_name_of_the_program_selects_the_drop_in() {
    let env = env();
    for (file, subcommand, drop_in) in [
        (NAME, None, NAME),
        ("dranspose", Some("ingester"), "dranspose-ingester"),
        ("dranspose", Some("http_ingester"), "dranspose-http-ingester"),
        ("fproducer", None, "fproducer"),
        ("swh-provenance-server", None, "swh-provenance-server"),
    ] {
        let link = env.path().join(file);
        let link = if link.exists() { link } else { named(&env, file) };
        let output = Command::new(link).args(subcommand).arg("--help").output().expect("it runs");
        let help = String::from_utf8_lossy(&output.stdout);
        assert!(help.contains(&format!("Usage: orchestrator as {drop_in} ")), "{file}: {help}");
    }
    let output = Command::new(env.path().join("dranspose")).arg("worker").output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(USAGE));
    assert!(error.contains("unrecognized subcommand 'worker'"), "{error}");
}

#[test]
fn a_program_called_supervisor_py_serves_and_tells_its_health() {
    let env = env();
    let socket = env.path().join("admin.sock");
    let mut command = Command::new(named(&env, "supervisor.py"));
    command
        .env("RUNTIME_DIRECTORY", env.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.args([env.database_path(), env.input_dir(), env.socket()]);
    let health = || {
        let (code, out, _) = env.cli(&["--socket", &socket.display().to_string(), "health"]);
        (code, out)
    };
    assert_eq!(health().0, UNREACHABLE);
    let instance = Instance::spawn(command);
    instance.await_service(&env);
    eventually("it is ready", || health() == (0, "ok\n".to_owned()));
    let stopped = env.cli(&["--socket", &socket.display().to_string(), "stop", "queue/reader"]);
    assert_eq!(stopped.0, 0, "{stopped:?}");
    let (code, reasons) = health();
    assert!(code == 1 && reasons.contains("queue/reader"), "{code}: {reasons}");
}

#[test]
fn the_drop_in_command_line_is_the_whole_configuration() {
    let env = env();
    let mut command = command(&env, &[]);
    command.env("ORCHESTRATOR__QUEUE__DATABASE", "elsewhere.db").env("ORCHESTRATOR__NO__SUCH_KEY", "1");
    let instance = Instance::spawn(command);
    instance.await_service(&env);
    assert!(env.database_path().exists() && !env.path().join("elsewhere.db").exists());
}

#[test]
fn the_drop_in_requires_three_paths() {
    for count in [0, 1, 2] {
        let env = env();
        let paths = ["a.db", "in"];
        let output = env.bare_command().args(["as", NAME]).args(&paths[..count]).status().unwrap();
        assert_eq!(output.code(), Some(USAGE), "{count} paths");
        assert!(env.log().contains("Usage: orchestrator as"), "{}", env.log());
        assert!(!env.path().join("a.db").exists() && !env.path().join("in").exists());
    }
    assert_eq!(
        env().bare_command().args(["as", "cron", "a", "b", "c"]).status().unwrap().code(),
        Some(USAGE)
    );
}

/// As by the original, which reads three arguments only.
#[test]
fn arguments_after_the_third_are_ignored_with_a_warning() {
    let env = env();
    let mut command = command(&env, &[]);
    command.args(["--set", "queue.hold_secs=7", "more", "--verbose", "-x"]);
    let instance = Instance::spawn(command);
    instance.await_service(&env);
    assert_eq!(env.worker().ready(), Reply::NoJobs);
    let is_warning =
        |line: &str| line.contains("WARN") && line.contains("as by supervisor.py: more --verbose -x;");
    eventually("the warning", || env.log().lines().any(is_warning));
    assert!(instance.terminate().success());
}

#[test]
fn the_drop_in_opens_no_tcp_port_and_no_admin_socket() {
    let env = env();
    fs::remove_dir(env.input_dir()).unwrap();
    let instance = start(&env);
    eventually("the input directory to be made", || env.input_dir().is_dir());
    env.write("f.1.txt", "alpha 0 1\n");
    env.database().expect_queue(&["1|1|alpha|0 1"]);
    assert_eq!(env.worker().ready(), Reply::Job { attr_path: "alpha".into(), payload: "0 1".into() });
    assert_eq!(listeners_of(&instance), 0);
    assert!(!env.admin_socket().exists());
    assert!(instance.terminate().success());
}

/// Control of the test above: with `--admin` there is a listener, and it answers.
#[test]
fn the_admin_option_opens_a_tcp_port() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let env = env();
    let address = format!("127.0.0.1:{port}");
    let instance = Instance::spawn(command(&env, &["--admin", &address]));
    instance.await_service(&env);
    assert_eq!(listeners_of(&instance), 1);
    let (code, tree, error) = env.cli(&["tree", "--url", &format!("http://{address}")]);
    assert_eq!(code, 0, "{error}");
    assert!(tree.contains("worker_socket") && !tree.contains("ingester"), "{tree}");
    assert!(instance.terminate().success());
}

#[test]
fn a_busy_admin_port_logs_a_warning() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let env = env();
    env.write("f.1.txt", "alpha 0 1\n");
    let mut instance = Instance::spawn(command(&env, &["--admin", &address]));
    instance.await_service(&env);
    assert_eq!(env.worker().ready().attr_path(), "alpha");
    eventually("the warning", || {
        env.log().lines().any(|line| line.contains("WARN") && line.contains(&address))
    });
    assert!(instance.ended().is_none());
    assert!(instance.terminate().success());
    assert!(!env.log().contains("ended unexpectedly"), "{}", env.log());
}

#[test]
fn the_runtime_directory_holds_a_private_admin_socket() {
    let env = env();
    let runtime = env.path().join("run");
    fs::create_dir(&runtime).unwrap();
    let socket = runtime.join("admin.sock");
    // systemd joins several directories with colons; the first one is the unit's.
    let joined = format!("{}:/nonexistent", runtime.display());
    let mut unit = command(&env, &[]);
    unit.env("RUNTIME_DIRECTORY", &joined);
    let instance = Instance::spawn(unit);
    instance.await_service(&env);
    eventually("the admin socket", || socket.exists());
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(http(&socket, "GET", "/livez", &[], "").status, 200);
    assert_eq!(listeners_of(&instance), 0);
    let mut tree = Command::new(env.binary());
    tree.env_remove("ORCHESTRATOR_SOCKET").env("RUNTIME_DIRECTORY", &joined).arg("tree");
    let output = tree.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("queue") && text.contains("sqlite up"), "{text}");
    assert!(instance.terminate().success());
    assert!(!socket.exists(), "removed at the end");
}

fn schema(path: &Path) -> Vec<String> {
    let database = orchestrator_harness::Database::open(path);
    let objects = "SELECT type, name, tbl_name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' \
                   AND name NOT LIKE 'orchestrator_%' ORDER BY 1, 2";
    let columns = "SELECT m.name, c.cid, c.name, upper(c.type), c.\"notnull\", c.pk FROM sqlite_schema m, \
                   pragma_table_info(m.name) c WHERE m.name IN ('fetchers', 'fetcher_runs', 'queue', 'log') ORDER BY 1, 2";
    let mut rows = database.rows(objects);
    rows.extend(database.rows(columns));
    rows.extend(database.rows("PRAGMA user_version"));
    rows
}

/// Schema of version 2, from the text of CONTRACT QD08 to QD10.
fn reference(env: &TestEnv) -> Vec<String> {
    let path = env.path().join("reference.db");
    original::create(&path, 2, 2, "");
    let rows = schema(&path);
    fs::remove_file(path).expect("ours");
    rows
}

fn serves_alpha(env: &TestEnv) {
    env.write("f.1.txt", "alpha 0 1\n");
    let instance = start(env);
    assert_eq!(env.worker().ready().attr_path(), "alpha");
    assert_eq!(schema(&env.database_path()), reference(env));
    assert!(instance.terminate().success());
    assert_eq!(schema(&env.database_path()), reference(env));
}

/// CONTRACT QD01, QD04, QD05: no database, or an empty file.
#[test]
fn d01_d04_d05_a_missing_or_empty_database_is_created() {
    serves_alpha(&env());
    let empty = env();
    fs::write(empty.database_path(), "").unwrap();
    fs::remove_dir(empty.input_dir()).unwrap();
    let instance = start(&empty);
    assert_eq!(empty.worker().ready(), Reply::NoJobs);
    assert!(instance.terminate().success());
    serves_alpha(&empty);
    let deep = env();
    let input: PathBuf = deep.path().join("a/b/c");
    let mut command = deep.bare_command();
    command.args(["as", NAME]).args([&deep.database_path(), &input, &deep.socket()]);
    let _instance = Instance::spawn(command);
    eventually("the input directory and its parents", || input.is_dir());
}

const ROWS: &str = "
INSERT INTO fetchers VALUES (4, 'f');
INSERT INTO fetcher_runs VALUES (4, 1, 1);
INSERT INTO log VALUES ('alpha', 100, 101, 0);
";

/// CONTRACT QD02: a database of version 1 is emptied, including the log, and filled from the files.
#[test]
fn d02_version_1_is_emptied_and_refilled() {
    let env = env();
    let row =
        "INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload) VALUES (4, 1, 'old', 'x');";
    original::create(&env.database_path(), 1, 1, &format!("{ROWS}{row}"));
    env.write("f.1.txt", "alpha 0 1\n");
    let instance = start(&env);
    env.database().expect(
        "SELECT attr_path, payload, last_started, order_jitter FROM queue",
        &["alpha|0 1|NULL|-1555884244"],
    );
    assert_eq!(env.database().rows("SELECT count(*) FROM log"), ["0"]);
    assert_eq!(schema(&env.database_path()), reference(&env));
    assert!(instance.terminate().success());
}

/// CONTRACT QD03, QD06: version 2 is opened unchanged; a complete run is not read again, even if its file
/// changed.
#[test]
fn d03_d06_version_2_is_opened_unchanged() {
    let env = env();
    let rows = "INSERT INTO queue VALUES (4, 1, 'alpha', 'kept', 1, 100, -1555884244), (4, 1, 'bravo', 'kept', 0, NULL, 515152637);";
    original::create(&env.database_path(), 2, 2, &format!("{ROWS}{rows}"));
    env.write("f.1.txt", "alpha changed\nbravo changed\ncharlie changed\n");
    let instance = start(&env);
    let mut worker = env.worker();
    assert_eq!(worker.ready(), Reply::Job { attr_path: "bravo".into(), payload: "kept".into() });
    assert_eq!(worker.ready(), Reply::NoJobs);
    assert_eq!(env.database().rows("SELECT * FROM log WHERE attr_path = 'alpha'"), ["alpha|100|101|0"]);
    assert_eq!(env.database().queue(), ["4|1|alpha|kept", "4|1|bravo|kept"]);
    assert_eq!(schema(&env.database_path()), reference(&env));
    assert!(instance.terminate().success());
}

/// The page's change of the unit, with a database that the original leaves: one job is done, one is in
/// flight, one waits. After the stop, the file is as the original needs it.
#[test]
fn a_site_moves_and_can_go_back() {
    let env = env();
    let rows = "INSERT INTO log VALUES ('bravo', 200, NULL, NULL);
        INSERT INTO queue VALUES (4, 1, 'alpha', '0 1', 1, 100, -1555884244), (4, 1, 'bravo', '1 2', 1, 200, 515152637),
        (4, 1, 'charlie', '2 3', 0, NULL, 1);";
    original::create(&env.database_path(), 2, 2, &format!("{ROWS}{rows}"));
    env.write("f.1.txt", "alpha 0 1\nbravo 1 2\ncharlie 2 3\n");
    let paths = [env.database_path(), env.input_dir(), env.socket()].map(|path| path.display().to_string());
    let [before, after] = UnitFile::before_and_after(
        PAGE,
        &[
            ("/var/lib/nixpkgs-update/queue.db", &paths[0]),
            ("/var/lib/nixpkgs-update/fetchers", &paths[1]),
            ("/run/nixpkgs-update/worker.sock", &paths[2]),
        ],
    );
    // The arguments stay.
    assert_eq!(before.command()[1..], after.command()[3..]);
    let instance = Instance::spawn(env.command_of_unit(&after));
    instance.await_service(&env);
    let (mut taken_before, mut worker) = (env.worker(), env.worker());
    assert_eq!(worker.ready(), Reply::Job { attr_path: "charlie".into(), payload: "2 3".into() });
    taken_before.done("bravo", 1);
    worker.done("charlie", 0);
    let (code, stats, error) = env.cli(&["queue", "stats", "--json"]);
    assert!(code == 0 && stats.contains("\"in_flight\": 0"), "{stats}{error}");
    assert!(instance.terminate().success());
    assert!(!env.socket().exists() && !env.path().join("queue.db-wal").exists());
    assert_eq!(
        env.database().rows("SELECT attr_path, finished IS NULL, exit_code FROM log ORDER BY attr_path"),
        ["alpha|0|0", "bravo|0|1", "charlie|0|0"]
    );
    assert_eq!(schema(&env.database_path()), reference(&env));
}

/// CONTRACT QD07: the jitter hash, for every vector of the contract that is a valid attribute path.
#[test]
fn d07_the_jitter_hash_matches_the_contract() {
    let vectors = [
        ("a", -1_183_465_204),
        ("firefox", 1_422_501_334),
        ("ünïcödé", 1_675_436_737),
        ("🦀", -1_006_179_892),
    ];
    let env = env();
    env.write("f.1.txt", vectors.map(|(attr_path, _)| format!("{attr_path} 1\n")).concat());
    let _instance = start(&env);
    env.database().expect("SELECT count(*) FROM queue", &["4"]);
    for (attr_path, hash) in vectors {
        let stored =
            env.database().rows(&format!("SELECT order_jitter FROM queue WHERE attr_path = '{attr_path}'"));
        assert_eq!(stored, [hash.to_string()], "{attr_path}");
    }
}
