//! Fetchers at their usual work in random order, without a pause, while children are restarted.

use std::collections::BTreeMap;

use orchestrator_supervise::Verb;

use super::house::House;

/// What one file should have brought: whether it is complete, and its lines.
#[derive(Default)]
struct Expected {
    complete: bool,
    lines: Vec<String>,
    tail: String,
}

struct Fetchers {
    house: House,
    random: fastrand::Rng,
    runs: BTreeMap<(String, i64), Expected>,
    next_run: i64,
}

impl Fetchers {
    fn pick(&mut self, complete: bool) -> Option<(String, i64)> {
        let of_kind: Vec<_> =
            self.runs.iter().filter(|(_, run)| run.complete == complete).map(|(key, _)| key).collect();
        (!of_kind.is_empty()).then(|| of_kind[self.random.usize(..of_kind.len())].clone())
    }

    fn start(&mut self) {
        let key = (format!("f{}", self.random.u8(0..3)), self.next_run);
        self.next_run += 1;
        self.house.write(&format!("{}.{}.txt.part", key.0, key.1), "");
        self.runs.insert(key, Expected::default());
    }

    /// Appends some bytes of lines, cut anywhere.
    fn append(&mut self) {
        let Some(key) = self.pick(false) else { return };
        let text: String = (0..self.random.u8(1..4))
            .map(|n| format!("attr{n}-{} é {}\n", self.random.u16(..), key.1))
            .collect();
        let cut = self.random.usize(0..=text.len());
        let cut = (cut..=text.len()).find(|&cut| text.is_char_boundary(cut)).unwrap_or(text.len());
        self.house.append(&format!("{}.{}.txt.part", key.0, key.1), &text[..cut]);
        let run = self.runs.get_mut(&key).expect("picked");
        run.tail.push_str(&text[..cut]);
        while let Some(end) = run.tail.find('\n') {
            let line: String = run.tail.drain(..=end).collect();
            run.lines.push(line.trim().to_owned());
        }
    }

    fn finish(&mut self) {
        let Some(key) = self.pick(false) else { return };
        self.house.rename(&format!("{}.{}.txt.part", key.0, key.1), &format!("{}.{}.txt", key.0, key.1));
        self.runs.get_mut(&key).expect("picked").complete = true;
    }

    fn remove(&mut self, complete: bool) {
        let Some(key) = self.pick(complete) else { return };
        self.house.remove(&format!("{}.{}.txt{}", key.0, key.1, if complete { "" } else { ".part" }));
        self.runs.remove(&key);
    }

    fn step(&mut self) {
        match self.random.u8(0..100) {
            0..20 => self.start(),
            20..70 => self.append(),
            70..83 => self.finish(),
            83..92 => self.remove(true),
            92..96 => self.remove(false),
            other => {
                let child = ["inotify", "watcher", "files", "inotify"][usize::from(other - 96)];
                self.house.command(child, Verb::Restart);
            }
        }
    }

    fn check(&self) {
        let lines: Vec<Vec<&str>> = self
            .runs
            .values()
            .map(|run| run.lines.iter().map(String::as_str).filter(|l| l.contains(' ')).collect())
            .collect();
        let expected: Vec<(&str, i64, bool, &[&str])> = (self.runs.iter().zip(&lines))
            .map(|(((fetcher, number), run), lines)| {
                (fetcher.as_str(), *number, run.complete, lines.as_slice())
            })
            .collect();
        self.house.holds(&expected);
    }
}

#[test]
fn fetchers_at_work_in_any_order_are_followed_through_restarts() {
    for seed in 0..4 {
        let random = fastrand::Rng::with_seed(seed);
        let mut fetchers = Fetchers { house: House::new(), random, runs: BTreeMap::new(), next_run: 1 };
        for step in 0..180 {
            fetchers.step();
            if step % 60 == 59 {
                fetchers.check();
            }
        }
    }
}
