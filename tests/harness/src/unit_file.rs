//! Unit files of systemd: the variables and the command that a service gets.

/// Text of a unit file. Continued lines are joined.
#[derive(Debug, Clone)]
pub struct UnitFile(String);

impl UnitFile {
    /// Unit file `text`.
    pub fn new(text: &str) -> Self {
        Self(text.replace("\\\n", " "))
    }

    /// Unit files before and after the first change in the section "Moving from .." of the page `page`, with
    /// `values` of a test in place of addresses and paths of the page.
    ///
    /// # Panics
    /// If the page has no such section, or it lacks one of `values`.
    pub fn before_and_after(page: &str, values: &[(&str, &str)]) -> [Self; 2] {
        let (_, section) = page.split_once("\n## Moving from ").expect("a section");
        let (_, change) = section.split_once("\n```diff\n").expect("a change");
        let (change, _) = change.split_once("```").expect("its end");
        for (value, _) in values {
            assert!(change.contains(value), "the page lacks {value}:\n{change}");
        }
        ['-', '+'].map(|side| {
            let lines = change.lines().filter_map(|line| line.strip_prefix([' ', side]));
            let text = lines.collect::<Vec<_>>().join("\n");
            Self::new(&values.iter().fold(text, |text, (value, ours)| text.replace(value, ours)))
        })
    }

    /// Values of the lines with `key`.
    fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
    }

    /// Words of `ExecStart=`, which has no quotes.
    pub fn command(&self) -> Vec<&str> {
        self.values("ExecStart").flat_map(str::split_whitespace).collect()
    }

    /// Variables of `Environment=`.
    ///
    /// # Panics
    /// If one has no value.
    pub fn environment(&self) -> Vec<(&str, &str)> {
        let pairs = self.values("Environment").flat_map(str::split_whitespace);
        pairs.map(|pair| pair.trim_matches('"').split_once('=').expect("a variable")).collect()
    }

    /// True if the service gets a directory in `RUNTIME_DIRECTORY`.
    pub fn has_runtime_directory(&self) -> bool {
        self.values("RuntimeDirectory").next().is_some()
    }
}
