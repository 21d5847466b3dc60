//! Specification as text.

use std::fmt::Write;

use crate::{ChildSpec, Start, SupervisorSpec};

impl SupervisorSpec {
    /// Shows the tree that this specification describes as text, one child a line, with `name` as root.
    pub fn outline(&self, name: &str) -> String {
        let mut text = format!("{name}  supervisor {}\n", self.describe());
        self.outline_children(&mut text, "");
        text
    }

    fn describe(&self) -> String {
        let limits = self.limits;
        format!("{}, {} restarts in {:?}", self.strategy.name(), limits.intensity, limits.period)
    }

    fn outline_children(&self, text: &mut String, indent: &str) {
        let last = self.children.len().saturating_sub(1);
        for (i, child) in self.children.iter().enumerate() {
            let (branch, below) = if i == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{indent}{branch}{}", child.describe());
            if let Start::Supervisor(spec) | Start::Dynamic { spec, .. } = &child.start {
                spec.outline_children(text, &format!("{indent}{below}"));
            }
        }
    }
}

impl ChildSpec {
    fn describe(&self) -> String {
        let kind = match &self.start {
            Start::Worker(factory) => factory.kind.to_owned(),
            Start::Pool { count, .. } => format!("pool of {count}"),
            Start::Supervisor(spec) => format!("supervisor {}", spec.describe()),
            Start::Dynamic { spec, slot } => {
                format!("dynamic {}, at most {} children", spec.describe(), slot.max)
            }
        };
        let label = self.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
        let durable = match &*self.durable {
            [] => String::new(),
            names => format!(", durable: {}", names.join(", ")),
        };
        format!("{}{label}  {kind}, {}{durable}", self.id, self.restart.name())
    }
}
