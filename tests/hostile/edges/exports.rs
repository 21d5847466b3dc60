//! Exports of the admin endpoint, on its TCP socket. The attack reads a long one; completed work: a short one
//! that was read to its end.

use std::{fs, path::PathBuf, sync::Arc};

use orchestrator_harness::{TestEnv, raw_tcp, sha1_of};

use crate::{
    client::Endpoint,
    edge::{Edge, Plan, Side},
    generator::Protocol,
    protocols::ExportClient,
};

/// Rows of the long export: several pages, and more than the buffers of a socket hold.
const ROWS: usize = 8_000;
/// Size of such a row, in bytes.
const ROW_BYTES: usize = 500;

struct Exports {
    directory: PathBuf,
    side: Side,
    is_filled: bool,
    read: u64,
}

/// An export of provenance, whose store is a file.
pub(crate) fn exports(plan: &Plan) -> Box<dyn Edge> {
    let side = Side::Clients(Box::new(|env| Endpoint::Tcp(env.admin_tcp())));
    Box::new(Exports { directory: plan.directory.clone(), side, is_filled: false, read: 0 })
}

impl Edge for Exports {
    fn protocol(&self) -> Arc<dyn Protocol> {
        Arc::new(ExportClient)
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        let directory = self.directory.display();
        format!(
            "[provenance]\ndead_letters = \"{directory}/letters.db\"\n\
             [provenance.sqlite]\npath = \"{directory}/provenance.db\"\n"
        )
    }

    fn budget(&self) -> u64 {
        // Four exports with a page of 1,000 rows each, as rows, as JSON and as text.
        4 * 3 * 1_000 * ROW_BYTES as u64
    }

    /// Imports the rows once.
    fn feed(&mut self, env: &TestEnv) {
        if self.is_filled {
            return;
        }
        let row = |number: usize| format!("{{\"add\": \"location\", \"path\": \"{number:0>ROW_BYTES$}\"}}\n");
        let file = self.directory.join("rows.ndjson");
        let short = format!("{{\"add\": \"content\", \"id\": \"{}\"}}\n", sha1_of(0, 1));
        fs::write(&file, (0..ROWS).map(row).chain([short]).collect::<String>()).expect("write the rows");
        let (code, out, err) = env.cli(&["provenance", "import", &file.display().to_string()]);
        assert_eq!(code, 0, "{out}{err}");
        self.is_filled = true;
    }

    fn done(&mut self, env: &TestEnv) -> u64 {
        let request =
            b"GET /v1/provenance/entities?kind=content HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let answer = raw_tcp(env.admin_tcp(), request).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer);
        let is_whole = answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n0\r\n\r\n");
        self.read += u64::from(is_whole && answer.contains(&sha1_of(0, 1)));
        self.read
    }
}
