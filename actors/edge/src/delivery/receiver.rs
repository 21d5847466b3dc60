//! Program or webhook of a configuration.

use super::{Document, ReceiverSettings, not_delivered::NotDelivered, program::Program, webhook::Webhook};
use crate::SettingError;

/// Receiver of documents.
#[derive(Debug, Clone)]
pub struct Receiver(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Program(Program),
    Webhook(Box<Webhook>),
}

impl Receiver {
    /// The settings are valid, see [`ReceiverSettings::check`].
    ///
    /// # Errors
    /// The address or `ca_file` cannot be used. The text begins with the key.
    pub fn new(settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        Ok(Self(match settings.url {
            Some(url) => Kind::Webhook(Box::new(Webhook::new(url, settings)?)),
            None => Kind::Program(Program::new(settings)),
        }))
    }

    /// Returns the kind of the link.
    pub fn kind(&self) -> &'static str {
        match &self.0 {
            Kind::Program(_) => "program",
            Kind::Webhook(_) => "webhook",
        }
    }

    /// Name for the link, without arguments or a query, which may hold secrets.
    pub fn name(&self) -> String {
        match &self.0 {
            Kind::Program(program) => program.name().to_owned(),
            Kind::Webhook(webhook) => webhook.name(),
        }
    }

    /// A program may run for long before it ends.
    pub(super) fn answers_soon(&self) -> bool {
        matches!(self.0, Kind::Webhook(_))
    }

    /// Delivers a document once.
    ///
    /// # Errors
    /// The receiver did not accept it, or its answer is unknown; the text says what to do.
    pub(super) async fn deliver(&self, document: &Document) -> Result<(), NotDelivered> {
        match &self.0 {
            Kind::Program(program) => program.deliver(document).await,
            Kind::Webhook(webhook) => webhook.deliver(document).await,
        }
    }
}
