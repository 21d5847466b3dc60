//! Requests to the console of a child.

use crate::{
    Tree,
    console::{ConsoleCallError, ConsoleError, ConsoleVerb},
};

impl Tree {
    /// Finds the verb `name` of the console of the child at `path`.
    ///
    /// # Errors
    /// The child has no console, or not this verb.
    pub fn console_verb(&self, path: &str, name: &str) -> Result<ConsoleVerb, ConsoleCallError> {
        let verbs = self.resolve(path).and_then(|full| Some(self.find(&full)?.console.clone()));
        let verbs = verbs.filter(|verbs| !verbs.is_empty()).ok_or_else(|| {
            let with = self.paths_of(|_, node| !node.console.is_empty()).join(", ");
            ConsoleCallError::NoConsole(format!("`{path}` has no console; these have: {with}"))
        })?;
        let names = || verbs.iter().map(|verb| verb.name).collect::<Vec<_>>().join(", ");
        let verb = verbs.iter().find(|verb| verb.name == name).cloned();
        verb.ok_or_else(|| ConsoleError::UnknownVerb(names()).into())
    }

    /// Returns the verbs of every console, with the path of its child.
    pub fn console_verbs(&self) -> Vec<(String, ConsoleVerb)> {
        let paths = self.paths_of(|_, node| !node.console.is_empty());
        let of = |path: String| {
            let verbs = self.find(&path).map(|node| node.console.clone()).unwrap_or_default();
            verbs.iter().cloned().map(|verb| (path.clone(), verb)).collect::<Vec<_>>()
        };
        paths.into_iter().flat_map(of).collect()
    }
}
