//! Randomly damaged configurations: each one is accepted or refused, without a panic and without a password
//! in the output.

use std::ffi::OsString;

use super::{
    super::{Config, Sources},
    secrets::{ADDRESSES, SECRET, addresses},
};

const SHIPPED: &str = include_str!("../../../config/orchestrator.toml");
const SEED: u64 = 7;

/// Rounds of each kind.
fn rounds() -> usize {
    std::env::var("ORCHESTRATOR_TEST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// Text fragments with a meaning in TOML or JSON.
const PIECES: [&str; 24] = [
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "#",
    "\n",
    "\\",
    "\\u0000",
    "\0",
    "\u{1b}",
    "\u{202e}",
    "9223372036854775808",
    "nan",
    "1979-05-27",
    "\u{e4}",
];

/// A random index in `text`, at the start of a character and not inside an address, so that passwords stay
/// recognisable.
fn random_index(text: &str, random: &mut fastrand::Rng) -> usize {
    let within = |at: usize| {
        let all = ADDRESSES.iter().flat_map(|address| text.match_indices(address));
        all.into_iter().any(|(begin, address)| begin < at && at < begin + address.len())
    };
    loop {
        let at = random.usize(..=text.len());
        if text.is_char_boundary(at) && !within(at) {
            return at;
        }
    }
}

/// Damages `text` up to five times.
fn damage(text: &str, random: &mut fastrand::Rng) -> String {
    let mut text = text.to_owned();
    for _ in 0..random.usize(1..6) {
        let (a, b) = (random_index(&text, random), random_index(&text, random));
        let (a, b) = (a.min(b), a.max(b));
        match random.u8(..5) {
            0 => text.insert_str(a, PIECES[random.usize(..PIECES.len())]),
            1 if b - a < 200 => text.replace_range(a..b, ""),
            2 if b - a < 20 => text.replace_range(a..b, PIECES[random.usize(..PIECES.len())]),
            3 => text.insert_str(a, ADDRESSES[random.usize(..ADDRESSES.len())]),
            _ => {
                let line = text[..a].rfind('\n').map_or(0, |at| at + 1);
                let end = text[a..].find('\n').map_or(text.len(), |at| a + at + 1);
                let copy = text[line..end].to_owned();
                text.insert_str(line, &copy);
            }
        }
    }
    text
}

/// Loads `sources` and checks the output for passwords and control characters. Returns true if they are
/// valid.
fn load_and_check(sources: &Sources) -> bool {
    let loaded = Config::load(sources);
    let texts = match &loaded {
        Ok(config) => {
            vec![Config::print_effective(sources).expect("valid sources"), format!("{}\n", config.redacted())]
        }
        Err(error) => vec![format!("{error:#}")],
    };
    for text in texts {
        assert!(!text.contains(SECRET), "{sources:?}\n{text}");
        assert!(
            !text.chars().any(|c| c != '\n' && orchestrator_text::is_escaped(c)) || loaded.is_ok(),
            "{sources:?}\n{text}"
        );
    }
    loaded.is_ok()
}

/// The shipped file with most keys uncommented and with addresses in some of them.
fn file(random: &mut fastrand::Rng) -> String {
    let mut text = String::new();
    for line in SHIPPED.lines() {
        let plain = line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
        let plain = plain.filter(|rest| rest.starts_with('[') || random.u8(..3) > 0).unwrap_or(line);
        match plain.split_once(" = \"") {
            Some((key, _)) if random.u8(..12) == 0 => {
                text.push_str(&format!("{key} = \"{}\"\n", ADDRESSES[random.usize(..ADDRESSES.len())]));
            }
            _ => text.push_str(&format!("{plain}\n")),
        }
    }
    text
}

#[test]
fn damaged_files_are_loaded_without_showing_a_password() {
    let mut random = fastrand::Rng::with_seed(SEED);
    let path = tempfile::NamedTempFile::new().unwrap();
    let sources = Sources { files: vec![path.path().to_owned()], ..Sources::default() };
    for _ in 0..rounds() {
        let whole = file(&mut random);
        std::fs::write(path.path(), damage(&whole, &mut random)).unwrap();
        load_and_check(&sources);
    }
    std::fs::write(path.path(), b"[queue]\nsocket = \"\xff\"\n").unwrap();
    assert!(!load_and_check(&sources), "invalid UTF-8 is refused");
}

#[test]
fn damaged_assignments_are_loaded_without_showing_a_password() {
    let mut random = fastrand::Rng::with_seed(SEED);
    let keys: Vec<String> =
        addresses().into_iter().map(|(key, _)| key).chain(["queue.hold_secs".to_owned()]).collect();
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), "[[catalog]]\nname = \"lab\"\nbase = \"https://h/ermrest/catalog/1\"\n")
        .unwrap();
    for _ in 0..rounds() * 2 {
        let key = &keys[random.usize(..keys.len())];
        let value = ADDRESSES[random.usize(..ADDRESSES.len())];
        let set = damage(&format!("{key}={value}"), &mut random);
        let name =
            damage(&format!("ORCHESTRATOR__{}", key.to_ascii_uppercase().replace('.', "__")), &mut random);
        let environment = vec![(OsString::from(name), OsString::from(damage(value, &mut random)))];
        let files = vec![path.path().to_owned()];
        load_and_check(&Sources { files: files.clone(), sets: vec![set], ..Sources::default() });
        load_and_check(&Sources { files, environment, ..Sources::default() });
    }
}
