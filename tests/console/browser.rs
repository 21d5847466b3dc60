//! Headless chromium with chromedriver, one per test.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use fantoccini::{
    Client, ClientBuilder, Locator,
    key::Key,
    wd::{Capabilities, WebDriverCompatibleCommand},
};
use hyper::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use orchestrator_harness::TestEnv;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use url::{ParseError, Url};

/// Deadline of every wait for a page.
const DEADLINE: Duration = Duration::from_secs(40);
const DRIVER: &str = "/usr/bin/chromedriver";
/// Starts of a driver: it exits if the port that it chose for IPv4 is taken for IPv6.
const DRIVER_STARTS: usize = 10;

/// Process of chromedriver, and the browser's pid, which survives the driver unless the session was closed.
#[derive(Debug)]
struct Driver {
    process: Child,
    address: SocketAddr,
    browser: Option<Pid>,
}

impl Driver {
    fn start() -> Self {
        (0..DRIVER_STARTS).find_map(|_| Self::try_start().ok()).unwrap_or_else(|| {
            panic!("{DRIVER} exited {DRIVER_STARTS} times: {}", Self::try_start().err().unwrap_or_default())
        })
    }

    /// Starts a driver on a port of its choice, or returns its output if it has exited.
    fn try_start() -> Result<Self, String> {
        let mut process = Command::new(DRIVER)
            .args(["--port=0", "--log-level=SEVERE"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{DRIVER}: {error}: ./tests/run installs chromium-driver"));
        let mut output = String::new();
        for line in BufReader::new(process.stdout.take().expect("its output")).lines().map_while(Result::ok) {
            let port = line.split_once("successfully on port ").map(|(_, port)| port.trim_end_matches('.'));
            if let Some(port) = port.and_then(|port| port.parse().ok()) {
                return Ok(Self {
                    process,
                    address: SocketAddr::from(([127, 0, 0, 1], port)),
                    browser: None,
                });
            }
            output += &line;
            output += "\n";
        }
        let _ = process.wait();
        Err(output)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A closed session has ended its browser.
        if let Some(browser) = self.browser {
            let _ = kill_process(browser, Signal::TERM);
        }
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

/// Browser for the console of one instance.
#[derive(Debug)]
pub(crate) struct Browser {
    client: Client,
    driver: Driver,
    origin: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser for the console of the instance in `env`, without opening a page.
    pub(crate) async fn open(env: &TestEnv) -> Self {
        let mut driver = Driver::start();
        let profile = tempfile::tempdir().expect("a directory for the browser");
        let options = json!({
            "binary": "/usr/bin/chromium",
            "args": [
                "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--disable-dev-shm-usage",
                "--disable-crash-reporter", "--window-size=1440,900",
                format!("--user-data-dir={}", profile.path().display()),
            ],
        });
        let mut capabilities = Capabilities::new();
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        capabilities.insert("goog:loggingPrefs".to_owned(), json!({ "browser": "ALL" }));
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://{}", driver.address))
            .await
            .expect("a session");
        let pid = client.capabilities().and_then(|all| all.get("goog:processID")).and_then(Value::as_i64);
        driver.browser = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        assert!(driver.browser.is_some(), "the driver tells which process is the browser");
        let origin = format!("http://{}", env.admin_tcp());
        Self { client, driver, origin, _profile: profile }
    }

    /// Opens a page of the console, for example `#/tree`.
    pub(crate) async fn go(&self, hash: &str) {
        self.visit(&format!("{}/{hash}", self.origin)).await;
    }

    /// Opens the page at `url`.
    pub(crate) async fn visit(&self, url: &str) {
        self.client.goto(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    }

    /// Runs the JavaScript function body `body` in the page and returns its value.
    pub(crate) async fn run(&self, body: &str) -> Value {
        self.client.execute(body, vec![]).await.unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    /// As [`Browser::run`], for a body that passes its result to `arguments[0]`.
    pub(crate) async fn run_async(&self, body: &str) -> Value {
        self.client.execute_async(body, vec![]).await.unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    /// Waits until a JavaScript expression is truthy and returns its value.
    pub(crate) async fn until(&self, what: &str, expression: &str) -> Value {
        let give_up = Instant::now() + DEADLINE;
        loop {
            let value = self.run(&format!("return ({expression});")).await;
            let is_true = !matches!(&value, Value::Null | Value::Bool(false)) && value != json!("");
            if is_true && value != json!(0) {
                return value;
            }
            if Instant::now() > give_up {
                let text = self.run("return document.body.innerText;").await;
                panic!(
                    "gave up waiting for {what} ({expression}); the page says:\n{}",
                    text.as_str().unwrap_or("?")
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for an element and clicks it.
    pub(crate) async fn click(&self, css: &str) {
        let element = self.client.wait().at_most(DEADLINE).for_element(Locator::Css(css)).await;
        let element = element.unwrap_or_else(|error| panic!("{css}: {error}"));
        element.click().await.unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    /// Types into the element that has the focus.
    pub(crate) async fn type_text(&self, text: &str) {
        let element = self.client.active_element().await.expect("an element has the focus");
        element.send_keys(text).await.expect("it takes keys");
    }

    /// Presses one key in the element that has the focus.
    pub(crate) async fn press(&self, key: Key) {
        self.type_text(&char::from(key).to_string()).await;
    }

    /// Runs a chromium-specific WebDriver command.
    async fn extension(&self, path: &'static str, body: Value) -> Value {
        let answer = self.client.issue_cmd(Extension { path, body }).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Runs a script before those of each page that is opened later.
    pub(crate) async fn run_before_pages(&self, script: &str) {
        self.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script })).await;
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        self.extension("goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await;
    }

    /// Sets the page size, CSS pixels, and the preferred color scheme.
    pub(crate) async fn emulate(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": scheme })).await;
    }

    /// Sets the time zone of the pages.
    pub(crate) async fn set_timezone(&self, name: &str) {
        self.devtools("Emulation.setTimezoneOverride", json!({ "timezoneId": name })).await;
    }

    /// Minimizes the window, which hides the page.
    pub(crate) async fn minimize(&self) {
        self.client.minimize_window().await.expect("a window that can be minimized");
    }

    /// Shows a minimized window again.
    pub(crate) async fn restore(&self) {
        self.client.set_window_rect(0, 0, 1440, 900).await.expect("a window that can be restored");
    }

    /// Errors and warnings since the last call, including policy reports.
    pub(crate) async fn console_errors(&self) -> Vec<String> {
        let entries = self.extension("se/log", json!({ "type": "browser" })).await;
        let entries = entries.as_array().expect("a list").iter();
        let bad = entries.filter(|entry| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING")));
        bad.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Saves a screenshot of the page below `target/screenshots/`, if [`takes_pictures`].
    pub(crate) async fn picture(&self, name: &str) {
        if !takes_pictures() {
            return;
        }
        let folder = screenshots();
        fs::create_dir_all(&folder).expect("a directory below target/");
        fs::write(folder.join(format!("{name}.png")), self.screenshot().await).expect("write the picture");
    }

    /// The page as PNG.
    pub(crate) async fn screenshot(&self) -> Vec<u8> {
        self.client.screenshot().await.expect("a picture")
    }

    pub(crate) async fn close(mut self) {
        self.client.close().await.expect("the session ends");
        self.driver.browser = None;
    }
}

/// WebDriver command outside of the standard.
#[derive(Debug)]
struct Extension {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

/// True if `ORCHESTRATOR_SCREENSHOTS` is set: screenshots are for people, and take a third of the time of the
/// layout's tests.
pub(crate) fn takes_pictures() -> bool {
    env::var_os("ORCHESTRATOR_SCREENSHOTS").is_some()
}

fn screenshots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/screenshots")
}

/// Environment with the admin endpoint on a TCP port.
pub(crate) fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=127.0.0.1:0")
}

/// Path of a child that has mailboxes and metrics.
pub(crate) fn child_with_work(env: &TestEnv) -> String {
    let tree = env.snapshot().expect("a tree");
    let has = |node: &Value, list: &str| node[list].as_array().is_some_and(|list| !list.is_empty());
    let found = tree.all().into_iter().find(|node| has(node, "mailboxes") && has(node, "metrics"));
    found.expect("a child with mailboxes")["path"].as_str().expect("a path").to_owned()
}

/// Path of a child that can be paused.
pub(crate) fn pausable(env: &TestEnv) -> String {
    let tree = env.snapshot().expect("a tree");
    let found = tree.all().into_iter().find(|node| node["pausable"] == true);
    found.expect("a child that can be paused")["path"].as_str().expect("a path").to_owned()
}
