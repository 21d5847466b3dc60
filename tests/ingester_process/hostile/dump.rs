//! Replay of invalid dumps and captures: each ends only its own stream, and announced sizes allocate no
//! memory.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use orchestrator_harness::{IngesterEnv, eventually};
use serde_json::Value;

use super::{BINARY, NOWHERE, mapping, note};

const MIB: usize = 1 << 20;
const EVENT: &[u8] = b"\xd9\xd9\xf7\xd9\xa7\x7d";
/// Memory limit of the process, MiB; a file that is read takes 64.
const MEMORY_MAX: u64 = 400;

/// Encodes an event of stream `name` with one part.
fn event(number: u8, name: &str) -> Vec<u8> {
    let mut bytes = [EVENT, &[0x82, number, 0xa1, 0x60 + name.len() as u8]].concat();
    bytes.extend(name.as_bytes());
    bytes.extend(b"\xd9\xa7\x7e\x82\x65STINS\x81\x42{}");
    bytes
}

/// Files by stream name: the bytes, the number of zeros after them (a sparse file), and the expected error.
fn files() -> Vec<(&'static str, Vec<u8>, u64, &'static str)> {
    let level = |bytes: &[u8], count: usize| bytes.repeat(count);
    vec![
        // Each byte of the file once took 16 bytes of memory.
        ("indefinite", [b"\x83".to_vec(), level(b"\x9f", 64 * MIB)].concat(), 0, "neither a dump"),
        ("arrays", [b"\x83\x9f".to_vec(), level(b"\x81", 64 * MIB)].concat(), 0, "neither a dump"),
        (
            "maps",
            [EVENT.to_vec(), b"\x83\0\xbf".to_vec(), level(b"\xa1", MIB)].concat(),
            0,
            "without a count",
        ),
        ("tags", level(b"\xc6", MIB), 0, "no event"),
        // Parts without bytes: 32 bytes of memory for one of the file.
        ("parts", [b"\x9a\x04\0\0\0".to_vec(), level(b"\x40", 64 * MIB)].concat(), 0, "too many parts"),
        // Announced lengths beyond the limits are refused at once.
        ("long", b"\x81\x5b\0\0\x01\0\0\0\0\0".to_vec(), 2 << 30, "is longer than"),
        ("elements", b"\x9b\x10\0\0\0\0\0\0\0".to_vec(), 2 << 30, "too many parts"),
        ("text", [EVENT, b"\x83\0\xa1\x7b\x10\0\0\0\0\0\0\0"].concat(), 2 << 30, "a name that is too long"),
        ("zeros", Vec::new(), 2 << 30, "neither a dump"),
        // Valid events, then an invalid one.
        ("cut", [event(0, "cut"), event(1, "cut")[..20].to_vec()].concat(), 0, "it was cut off"),
        ("damaged", [event(0, "damaged"), b"\xf6".to_vec()].concat(), 0, "neither a dump"),
        ("foreign", event(0, "\u{1b}[2J"), 0, "it has no stream `foreign`: name the stream like one of"),
    ]
}

fn write(path: &Path, bytes: &[u8], behind: u64) {
    let mut file = File::create(path).expect("a file");
    file.write_all(bytes).expect("it is written");
    file.set_len(bytes.len() as u64 + behind).expect("a longer file");
}

#[test]
fn an_invalid_dump_ends_its_stream_with_bounded_memory() {
    let env = IngesterEnv::new(BINARY, NOWHERE, "");
    let config = env.base.path().join("ingester.toml");
    let mut text = fs::read_to_string(&config).expect("a configuration");
    for (name, bytes, behind, _) in files() {
        let path = env.base.path().join(format!("{name}.cbors"));
        write(&path, &bytes, behind);
        text += &format!("[[ingester.stream]]\nname = \"{name}\"\nsource = \"replay\"\nfile = {path:?}\n");
    }
    fs::write(&config, text).expect("it is written");
    let instance = env.start();
    // One at a time, so that each is measured by itself.
    for (number, (name, _, _, said)) in (1..).zip(files()) {
        env.controller().start_mapping(&mapping(number), &[name]);
        let child = format!("scan/stream_{number}");
        eventually(&format!("{name} ends"), || note(&env, &child).contains(said));
        let items = env.metric(&child, "items");
        assert_eq!(items, i64::from(matches!(name, "cut" | "damaged")), "{name}");
        let memory = instance.memory("VmHWM") >> 20;
        assert!(memory < MEMORY_MAX, "{memory} MiB with {name}");
    }
    assert!(!env.base.log().contains('\u{1b}'));
    let tree = env.base.snapshot().expect("the tree");
    let exits = |node: &&Value| node["last_exit"]["kind"] == "panicked";
    assert_eq!(tree.all().into_iter().filter(exits).count(), 0, "{tree}");
}
