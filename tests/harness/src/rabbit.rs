//! A RabbitMQ of one's own: on loopback, in a directory of its own, with an epmd of its own. Nothing else is touched.

use std::{
    fs, io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{child_logs, python::peers, redis::free_port};

/// The script of the package itself: the one in /usr/sbin changes the user.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// The broker's own start takes about 12 s on an idle machine.
const START_DEADLINE: Duration = Duration::from_secs(180);

/// Ends what [`Rabbit`] started as soon as its standard input is closed: on drop, or when the test's process is gone,
/// however it ended. (A broker that all tests of a binary share lives in a static, which is never dropped.)
const GUARD: &str = r#"
cat >/dev/null
for try in 1 2 3 4 5 6 7 8 9 10; do
  [ -s pid ] && kill -9 "$(cat pid)" 2>/dev/null
  epmd -kill >/dev/null 2>&1 && break
  sleep 0.2
done
cd / && rm -rf "$BASE"
"#;

/// The port that AMQP has by default.
const DEFAULT_PORT: u16 = 5672;

/// A private broker. Dropped, it is gone with all its files.
#[derive(Debug)]
pub struct Rabbit {
    base: PathBuf,
    place: Place,
    server: Option<Child>,
    guard: Child,
}

impl Rabbit {
    /// Starts a broker and waits until it takes connections.
    ///
    /// # Panics
    /// If it is not installed, or does not start.
    pub fn start() -> Self {
        Self::launch(Place::free())
    }

    /// Chooses where a broker will be, for [`Rabbit::start_again`] to start it.
    ///
    /// # Panics
    /// If it is not installed.
    pub fn stopped() -> Self {
        Self::prepare(Place::free())
    }

    /// The broker of all tests of this process that do not end it; it also speaks TLS. Each test makes a virtual host of its own.
    ///
    /// # Panics
    /// As [`Rabbit::start`].
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Rabbit> = OnceLock::new();
        SHARED.get_or_init(Self::start_tls)
    }

    /// Starts a broker that also speaks TLS, with the certificate of [`Faktory::ca_file`](crate::Faktory::ca_file) for `localhost`.
    ///
    /// # Panics
    /// As [`Rabbit::start`].
    pub fn start_tls() -> Self {
        Self::launch(Place { secured: Some(free_port()), ..Place::free() })
    }

    /// Starts a broker at the port that AMQP has by default, on a loopback address of its own: for clients that know no other.
    ///
    /// # Panics
    /// As [`Rabbit::start`].
    pub fn start_at_default_port() -> Self {
        Self::launch(Place { address: free_address(), amqp: DEFAULT_PORT, ..Place::free() })
    }

    fn launch(place: Place) -> Self {
        let mut rabbit = Self::prepare(place);
        rabbit.start_again();
        rabbit
    }

    fn prepare(place: Place) -> Self {
        assert!(
            Path::new(SERVER).exists(),
            "{SERVER} is missing: install rabbitmq-server (apt-get install --no-install-recommends rabbitmq-server)"
        );
        let base = tempfile::Builder::new().prefix("rabbit-").tempdir().expect("temporary directory").keep();
        for dir in ["mnesia", "log", "home"] {
            fs::create_dir(base.join(dir)).expect("a directory for the broker");
        }
        fs::write(base.join("enabled_plugins"), "[].\n").expect("the list of plugins");
        if let Some(port) = place.secured {
            let folder = peers().join("tls");
            let file = |name: &str| folder.join(name).display().to_string();
            let config = format!(
                "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\n\
                 ssl_options.keyfile = {}\nssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false\n",
                file("ca.pem"),
                file("server.pem"),
                file("server.key")
            );
            fs::write(base.join("rabbitmq.conf"), config).expect("the broker's configuration");
        }
        let guard = command(&base, place, "sh")
            .args(["-c", GUARD])
            .env("BASE", &base)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh runs");
        child_logs::note(&base.join("out"));
        Self { base, place, server: None, guard }
    }

    /// Where the broker's own virtual host is.
    pub fn url(&self) -> String {
        self.url_of("%2f")
    }

    /// Where a broker of [`Rabbit::start_tls`] speaks TLS.
    ///
    /// # Panics
    /// If it does not.
    pub fn tls_url(&self) -> String {
        self.tls_url_of("%2f")
    }

    /// As [`Rabbit::tls_url`], for the virtual host `name`.
    ///
    /// # Panics
    /// If it does not.
    pub fn tls_url_of(&self, name: &str) -> String {
        let port = self.place.secured.expect("a broker that speaks TLS");
        format!("amqps://guest:guest@localhost:{port}/{name}")
    }

    /// Where the virtual host `name` is.
    pub fn url_of(&self, name: &str) -> String {
        let Place { address, amqp, .. } = self.place;
        format!("amqp://guest:guest@{address}:{amqp}/{name}")
    }

    /// The address that it listens at.
    pub fn host(&self) -> String {
        self.place.address.to_string()
    }

    /// Makes the virtual host `name`, so that tests do not see each other, and tells where it is. It outlives a restart.
    ///
    /// # Panics
    /// If the broker refuses.
    pub fn create_vhost(&self, name: &str) -> String {
        self.create_vhosts(&[name]);
        self.url_of(name)
    }

    /// As [`Rabbit::create_vhost`], for many at once: each call of the broker's tool takes a second.
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
        self.ctl(&["eval", &format!("{}.", all.join(", "))]);
    }

    /// The port of its broker's own protocol.
    pub fn port(&self) -> u16 {
        self.place.amqp
    }

    /// Runs `rabbitmqctl --quiet` and gives what it prints.
    ///
    /// # Panics
    /// If it fails.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = command(&self.base, self.place, "/usr/lib/rabbitmq/bin/rabbitmqctl")
            .arg("--quiet")
            .args(arguments)
            .output()
            .expect("rabbitmqctl runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "rabbitmqctl {arguments:?} failed: {out}{err}");
        out.into_owned()
    }

    /// Asks the broker to end, and waits for it.
    pub fn stop(&mut self) {
        self.end(Signal::TERM);
    }

    /// Ends the broker as a power cut would.
    pub fn kill_nine(&mut self) {
        self.end(Signal::KILL);
    }

    /// Starts a broker that was stopped or killed, on the same ports and the same files.
    ///
    /// # Panics
    /// If it does not take connections in time.
    pub fn start_again(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.base.join("out"));
        let log = log.expect("a file for the broker's output");
        let server = command(&self.base, self.place, SERVER)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .process_group(0)
            .spawn()
            .expect("the broker's script runs");
        let server = self.server.insert(server);
        let give_up = Instant::now() + START_DEADLINE;
        while self.place.connect().is_err() {
            let ended = server.try_wait().expect("a child").is_some();
            let said = || fs::read_to_string(self.base.join("out")).unwrap_or_default();
            assert!(!ended && Instant::now() < give_up, "the broker does not start: {}", said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn end(&mut self, signal: Signal) {
        let Some(mut server) = self.server.take() else { return };
        let group = i32::try_from(server.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process_group(group, signal).expect("the broker runs");
        server.wait().expect("a child");
        let gone = || self.place.connect().is_err();
        crate::eventually("the broker is gone", gone);
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // What cannot be waited for now is ended by the guard all the same.
        let _ = self.guard.wait();
        if let Some(mut server) = self.server.take() {
            let _ = server.wait();
        }
    }
}

/// Where a broker listens.
#[derive(Debug, Clone, Copy)]
struct Place {
    address: Ipv4Addr,
    amqp: u16,
    /// Where it speaks TLS.
    secured: Option<u16>,
    distribution: u16,
    epmd: u16,
}

impl Place {
    /// On ports that nobody has now.
    fn free() -> Self {
        let [amqp, distribution, epmd] = [(); 3].map(|()| free_port());
        Self { address: Ipv4Addr::LOCALHOST, amqp, secured: None, distribution, epmd }
    }

    fn connect(self) -> io::Result<TcpStream> {
        TcpStream::connect((self.address, self.amqp))
    }
}

/// `program` in the broker's world.
fn command(base: &Path, place: Place, program: &str) -> Command {
    let Place { address, amqp, distribution, epmd, .. } = place;
    let mut command = Command::new(program);
    command
        .current_dir(base)
        .env("HOME", base.join("home")) // holds the Erlang cookie
        .env("LANG", "C.UTF-8")
        .env("RABBITMQ_NODENAME", format!("t{amqp}@localhost"))
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

/// An address of loopback whose default port nobody has now. Brokers take a while to listen there: each process looks among other
/// addresses, and no address is found twice.
fn free_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, second, third] = std::process::id().to_be_bytes();
    let mut addresses =
        (0..254).map(|_| Ipv4Addr::new(127, second, third, NEXT.fetch_add(1, Relaxed).max(1)));
    // The first one may be everybody's.
    let free = addresses.find(|address| {
        !address.eq(&Ipv4Addr::LOCALHOST) && TcpListener::bind((*address, DEFAULT_PORT)).is_ok()
    });
    free.expect("a free address of loopback")
}
