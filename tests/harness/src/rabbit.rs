//! A private RabbitMQ broker on a loopback port, with its own directory and its own epmd.

mod endpoint;

use std::{
    fs,
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use self::endpoint::{BrokerEndpoint, DEFAULT_PORT, free_address};
use crate::{child_logs, python::peers, redis::free_port, suite};

/// Server script of the package; the one in /usr/sbin changes the user.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// Start timeout; a start takes about 12 s on an idle machine.
const START_DEADLINE: Duration = Duration::from_secs(180);

/// Script that ends the broker and its epmd when its standard input closes: on drop, or when the test process
/// ends. A shared broker is a static, which is never dropped.
const GUARD: &str = r#"
cat >/dev/null
for try in 1 2 3 4 5 6 7 8 9 10; do
  [ -s pid ] && kill -9 "$(cat pid)" 2>/dev/null
  epmd -kill >/dev/null 2>&1 && break
  sleep 0.2
done
cd / && rm -rf "$BASE"
"#;

/// Private broker. It is removed with its files when dropped.
#[derive(Debug)]
pub struct Rabbit {
    base: PathBuf,
    endpoint: BrokerEndpoint,
    server: Option<Child>,
    guard: Child,
}

impl Rabbit {
    /// Starts a broker and waits until it accepts connections.
    ///
    /// # Panics
    /// If it is not installed, or does not start.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a broker with lines of rabbitmq.conf.
    ///
    /// # Panics
    /// As [`Rabbit::start`].
    pub fn start_with(config: &str) -> Self {
        let mut rabbit = Self::stopped();
        rabbit.configure(config);
        rabbit.start_again();
        rabbit
    }

    /// Major version of the brokers.
    ///
    /// # Panics
    /// If RabbitMQ is not installed.
    pub fn major_version() -> u32 {
        let names = fs::read_dir(suite::file("/usr/lib/rabbitmq/lib")).expect("RabbitMQ").flatten();
        let version = |name: &str| name.strip_prefix("rabbitmq_server-")?.split('.').next()?.parse().ok();
        let found = names.filter_map(|entry| version(entry.file_name().to_str()?)).max();
        found.expect("a version of RabbitMQ")
    }

    /// Prepares a broker that [`Rabbit::start_again`] starts.
    ///
    /// # Panics
    /// If it is not installed.
    pub fn stopped() -> Self {
        Self::prepare(BrokerEndpoint::free())
    }

    /// Broker shared by the tests of this process that do not stop it. Each test creates its own virtual
    /// host.
    ///
    /// It is at AMQP's default port on its own loopback address, for clients that support no other port. It
    /// also accepts TLS, with a certificate for `localhost` signed by
    /// [`Faktory::ca_file`](crate::Faktory::ca_file).
    ///
    /// # Panics
    /// As [`Rabbit::start`].
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Rabbit> = OnceLock::new();
        SHARED.get_or_init(|| {
            Self::launch(BrokerEndpoint {
                address: free_address(),
                amqp: DEFAULT_PORT,
                secured: Some(free_port()),
                ..BrokerEndpoint::free()
            })
        })
    }

    fn launch(endpoint: BrokerEndpoint) -> Self {
        let mut rabbit = Self::prepare(endpoint);
        rabbit.start_again();
        rabbit
    }

    fn prepare(endpoint: BrokerEndpoint) -> Self {
        assert!(
            suite::file(SERVER).exists(),
            "{SERVER} is missing: install rabbitmq-server (apt-get install --no-install-recommends rabbitmq-server)"
        );
        let base = tempfile::Builder::new().prefix("rabbit-").tempdir().expect("temporary directory").keep();
        for dir in ["mnesia", "log", "home"] {
            fs::create_dir(base.join(dir)).expect("a directory for the broker");
        }
        fs::write(base.join("enabled_plugins"), "[].\n").expect("the list of plugins");
        let secured = endpoint.secured.map(|port| {
            let folder = peers().join("tls");
            let file = |name: &str| folder.join(name).display().to_string();
            let version = suite::tls_version().map(|version| format!("ssl_options.versions.1 = tlsv{version}\n"));
            format!(
                "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\n\
                 ssl_options.keyfile = {}\nssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false\n{}",
                file("ca.pem"),
                file("server.pem"),
                file("server.key"),
                version.unwrap_or_default()
            )
        });
        let guard = command(&base, endpoint, "sh")
            .args(["-c", GUARD])
            .env("BASE", &base)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh runs");
        child_logs::note(&base.join("out"));
        let rabbit = Self { base, endpoint, server: None, guard };
        rabbit.configure(&secured.unwrap_or_default());
        rabbit
    }

    /// Writes rabbitmq.conf, with the lines that `ORCHESTRATOR_TEST_RABBITMQ` adds for each broker.
    fn configure(&self, lines: &str) {
        let more = std::env::var("ORCHESTRATOR_TEST_RABBITMQ").unwrap_or_default();
        let file = self.base.join("rabbitmq.conf");
        fs::write(file, format!("{lines}{more}\n")).expect("the broker's configuration");
    }

    /// Address of the default virtual host.
    pub fn url(&self) -> String {
        self.url_of("%2f")
    }

    /// TLS address of the default virtual host of [`Rabbit::shared`].
    ///
    /// # Panics
    /// If the broker has no TLS port.
    pub fn tls_url(&self) -> String {
        self.tls_url_of("%2f")
    }

    /// As [`Rabbit::tls_url`], for the virtual host `name`.
    ///
    /// # Panics
    /// If the broker has no TLS port.
    pub fn tls_url_of(&self, name: &str) -> String {
        let port = self.endpoint.secured.expect("a broker that speaks TLS");
        format!("amqps://guest:guest@localhost:{port}/{name}")
    }

    /// Address of the virtual host `name`.
    pub fn url_of(&self, name: &str) -> String {
        let BrokerEndpoint { address, amqp, .. } = self.endpoint;
        format!("amqp://guest:guest@{address}:{amqp}/{name}")
    }

    /// IP address of the broker.
    pub fn host(&self) -> String {
        self.endpoint.address.to_string()
    }

    /// Creates the virtual host `name`, which survives restarts, and returns its address.
    ///
    /// # Panics
    /// If the broker refuses.
    pub fn create_vhost(&self, name: &str) -> String {
        self.create_vhosts(&[name]);
        self.url_of(name)
    }

    /// Creates several virtual hosts.
    ///
    /// # Panics
    /// As [`Rabbit::create_vhost`].
    pub fn create_vhosts(&self, names: &[impl AsRef<str>]) {
        let make = |name: &str| {
            format!(
                "rabbit_vhost:add(<<\"{name}\">>, <<\"test\">>), rabbit_auth_backend_internal:set_permissions(<<\"guest\">>, <<\"{name}\">>, <<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"test\">>)"
            )
        };
        let all: Vec<_> = names.iter().map(|name| make(name.as_ref())).collect();
        self.eval(&all.join(", "));
    }

    /// Evaluates an Erlang expression in the broker, without the second that rabbitmqctl takes for its start.
    ///
    /// # Panics
    /// If it fails.
    pub fn eval(&self, expression: &str) -> String {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let cookie = fs::read_to_string(self.base.join("home/.erlang.cookie")).expect("the broker's cookie");
        // The broker refuses a second caller of the same name.
        let caller = format!("caller{}-{}", std::process::id(), CALLS.fetch_add(1, Relaxed));
        let mut call = command(&self.base, self.endpoint, "erl_call")
            .args(["-c", cookie.trim(), "-n", &self.endpoint.node(), "-h", &caller, "-e"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("erl_call runs");
        call.stdin
            .take()
            .expect("piped")
            .write_all(format!("{expression}.\n").as_bytes())
            .expect("it is read");
        let output = call.wait_with_output().expect("erl_call ends");
        let result = String::from_utf8_lossy(&output.stdout);
        let result = result.strip_prefix("{ok, ").and_then(|rest| rest.strip_suffix('}'));
        result.unwrap_or_else(|| panic!("{expression}: {output:?}")).to_owned()
    }

    /// Number of `what` (`messages` or `consumers`) of each queue of the virtual host `vhost`; `u64::MAX`
    /// while the broker does not know it.
    ///
    /// # Panics
    /// As [`Rabbit::eval`].
    pub fn queues(&self, vhost: &str, what: &str) -> Vec<(String, u64)> {
        let list = self.eval(&format!(
            "[{{binary_to_list(N), V}} || [{{name, {{resource, _, queue, N}}}}, {{{what}, V}}] \
             <- rabbit_amqqueue:info_all(<<\"{vhost}\">>, [name, {what}])]"
        ));
        let read = |entry: &str| {
            let (name, rest) = entry.split_once("\", ").expect("a name and a number");
            let (number, _) = rest.split_once('}').expect("the end of an entry");
            (name.to_owned(), number.parse().unwrap_or(u64::MAX))
        };
        list.split("{\"").skip(1).map(read).collect()
    }

    /// Text of the broker's log.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn log(&self) -> String {
        let name = format!("log/{}.log", self.endpoint.node());
        fs::read_to_string(self.base.join(name)).expect("the broker's log")
    }

    /// AMQP port.
    pub fn port(&self) -> u16 {
        self.endpoint.amqp
    }

    /// Runs `rabbitmqctl --quiet` and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = command(&self.base, self.endpoint, "/usr/lib/rabbitmq/bin/rabbitmqctl")
            .arg("--quiet")
            .args(arguments)
            .output()
            .expect("rabbitmqctl runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "rabbitmqctl {arguments:?} failed: {out}{err}");
        out.into_owned()
    }

    /// Runs a command line of an operator in the broker's environment. Returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, line: &str) -> String {
        let line = format!("PATH=/usr/lib/rabbitmq/bin:$PATH; {line}");
        let output = command(&self.base, self.endpoint, "sh").args(["-c", &line]).output().expect("sh runs");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(&mut self) {
        self.end(Signal::TERM);
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill_nine(&mut self) {
        self.end(Signal::KILL);
    }

    /// Suspends the broker with SIGSTOP: connections stay open, and nothing is answered until
    /// [`Rabbit::thaw`].
    ///
    /// # Panics
    /// If it is not running.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the broker.
    ///
    /// # Panics
    /// If it is not running.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Starts a stopped or killed broker on the same ports with the same files.
    ///
    /// # Panics
    /// If it does not accept connections in time.
    pub fn start_again(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.base.join("out"));
        let log = log.expect("a file for the broker's output");
        let server = command(&self.base, self.endpoint, SERVER)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .process_group(0)
            .spawn()
            .expect("the broker's script runs");
        let server = self.server.insert(server);
        let give_up = Instant::now() + START_DEADLINE;
        while self.endpoint.connect().is_err() {
            let ended = server.try_wait().expect("a child").is_some();
            let said = || fs::read_to_string(self.base.join("out")).unwrap_or_default();
            assert!(!ended && Instant::now() < give_up, "the broker does not start: {}", said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn signal(&self, signal: Signal) {
        let server = self.server.as_ref().expect("a running broker");
        kill_process_group(Pid::from_child(server), signal).expect("the broker runs");
    }

    fn end(&mut self, signal: Signal) {
        if self.server.is_none() {
            return;
        }
        self.signal(signal);
        let mut server = self.server.take().expect("a running broker");
        server.wait().expect("a child");
        let gone = || self.endpoint.connect().is_err();
        crate::eventually("the broker to end", gone);
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait(); // It ends the processes in any case.
        if let Some(mut server) = self.server.take() {
            let _ = server.wait();
        }
    }
}

/// Command of `program` with the broker's environment variables.
fn command(base: &Path, endpoint: BrokerEndpoint, program: &str) -> Command {
    let BrokerEndpoint { address, amqp, distribution, epmd, .. } = endpoint;
    // The guard's programs are this machine's.
    let mut command = if program == "sh" { Command::new(program) } else { suite::command(program) };
    command
        .current_dir(base)
        .env("HOME", base.join("home")) // holds the Erlang cookie
        .env("LANG", "C.UTF-8")
        .env("RABBITMQ_NODENAME", endpoint.node())
        .env("RABBITMQ_NODE_IP_ADDRESS", address.to_string())
        .env("RABBITMQ_NODE_PORT", amqp.to_string())
        .env("RABBITMQ_DIST_PORT", distribution.to_string())
        .env("RABBITMQ_MNESIA_BASE", base.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", base.join("log"))
        .env("RABBITMQ_CONFIG_FILE", base.join("rabbitmq"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", base.join("enabled_plugins"))
        .env("RABBITMQ_PID_FILE", base.join("pid"))
        .env("ERL_EPMD_PORT", epmd.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none");
    command
}
