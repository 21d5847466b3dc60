//! An independent AMQP client with message bodies captured from the original. It records what the broker
//! confirmed and what servers answered, by correlation id.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Instant,
};

use fastrand::Rng;
use futures_util::{StreamExt, stream::FuturesUnordered};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, message::Delivery, options::*,
    types::FieldTable,
};
use tokio::sync::oneshot;

/// Maximum number of unconfirmed messages.
const WINDOW: usize = 32;

/// Row in the database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) table: &'static str,
    pub(crate) column: &'static str,
    pub(crate) key: Vec<u8>,
}

/// Message and its outcome.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    exchange: &'static str,
    routing_key: String,
    body: Vec<u8>,
    pub(crate) items: Vec<Item>,
    /// The broker has confirmed it.
    pub(crate) confirmed: bool,
    /// Numbers of stored rows in the answers, and their times.
    pub(crate) answers: Vec<(u64, Instant)>,
    /// The rows were verified after the answer.
    checked: bool,
}

impl Message {
    /// Creates a message of `items` with the encodings `encoded`.
    pub(crate) fn new(method: &'static str, range: u8, items: Vec<Item>, encoded: &[Vec<u8>]) -> Self {
        let exchange = method.split('_').next().expect("a word");
        let routing_key = format!("{method}.unknown.{range:x}");
        let body = body(encoded);
        Self { exchange, routing_key, body, items, confirmed: false, answers: Vec::new(), checked: false }
    }

    /// Creates a message with an invalid body.
    pub(crate) fn broken(method: &'static str, range: u8, body: &[u8]) -> Self {
        Self { body: body.to_vec(), ..Self::new(method, range, Vec::new(), &[]) }
    }

    /// Number of rows acknowledged by answers.
    pub(crate) fn answered(&self) -> u64 {
        self.answers.iter().map(|(count, _)| count).sum()
    }
}

/// All messages by correlation id.
#[derive(Debug, Default)]
pub(crate) struct CallRecord {
    messages: Mutex<BTreeMap<String, Message>>,
}

impl CallRecord {
    /// Copy of all messages.
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.messages.lock().expect("an unpoisoned lock").values().cloned().collect()
    }

    /// Number of answers.
    pub(crate) fn answers(&self) -> usize {
        self.messages.lock().expect("an unpoisoned lock").values().map(|message| message.answers.len()).sum()
    }

    /// Rows of messages that were answered since the last call.
    pub(crate) fn take_unchecked(&self) -> Vec<Item> {
        let mut messages = self.messages.lock().expect("an unpoisoned lock");
        let fresh = messages.values_mut().filter(|message| !message.answers.is_empty() && !message.checked);
        fresh
            .flat_map(|message| {
                message.checked = true;
                message.items.clone()
            })
            .collect()
    }

    fn note(&self, id: &str, note: impl FnOnce(&mut Message)) {
        // An unknown id would be an error of the server.
        note(self.messages.lock().expect("an unpoisoned lock").get_mut(id).expect("an id of ours"));
    }
}

/// Running client on its own thread.
pub(crate) struct Caller {
    pub(crate) record: Arc<CallRecord>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), lapin::Error>>,
}

impl Caller {
    /// Starts to publish `messages`.
    pub(crate) fn start(url: &str, persistent: bool, messages: Vec<Message>) -> Self {
        let ids = messages.into_iter().map(|message| (format!("{:032x}", fastrand::u128(..)), message));
        let record = Arc::new(CallRecord { messages: Mutex::new(ids.collect()) });
        let (stop, stopped) = oneshot::channel();
        let (url, shared) = (url.to_owned(), record.clone());
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(converse(&url, persistent, &shared, stopped))
        });
        Self { record, stop, thread }
    }

    /// Stops the client. An error means that it lost its connection.
    pub(crate) fn end(self) -> Result<(), lapin::Error> {
        // The client may have ended after losing its connection.
        let _ = self.stop.send(());
        self.thread.join().expect("a client that does not panic")
    }
}

async fn converse(
    url: &str,
    persistent: bool,
    record: &CallRecord,
    mut stop: oneshot::Receiver<()>,
) -> Result<(), lapin::Error> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let exclusive = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare("".into(), exclusive, FieldTable::default()).await?;
    let reply_to = queue.name().as_str().to_owned();
    let options = BasicConsumeOptions::default();
    let mut responses =
        channel.basic_consume(queue.name().clone(), "".into(), options, FieldTable::default()).await?;
    let todo: Vec<_> = record.messages.lock().expect("an unpoisoned lock").clone().into_iter().collect();
    let mut todo = todo.into_iter();
    let mut sending = FuturesUnordered::new();
    loop {
        while sending.len() < WINDOW {
            let Some((id, message)) = todo.next() else { break };
            sending.push(publish(&channel, &reply_to, persistent, id, message));
        }
        tokio::select! {
            _ = &mut stop => return Ok(()),
            Some(sent) = sending.next(), if !sending.is_empty() => {
                let (id, confirmation) = sent?;
                // An unroutable message is returned and confirmed.
                if confirmation.is_ack() && confirmation.take_message().is_none() {
                    record.note(&id, |message| message.confirmed = true);
                }
            }
            response = responses.next() => {
                let Some(delivery) = response.transpose()? else { return Ok(()) };
                answered(record, &delivery);
                delivery.ack(BasicAckOptions::default()).await?;
            }
        }
    }
}

async fn publish(
    channel: &Channel,
    reply_to: &str,
    persistent: bool,
    id: String,
    message: Message,
) -> Result<(String, Confirmation), lapin::Error> {
    let mut properties = BasicProperties::default()
        .with_content_type("application/msgpack".into())
        .with_correlation_id(id.as_str().into())
        .with_reply_to(reply_to.into());
    if persistent {
        properties = properties.with_delivery_mode(2);
    }
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let (exchange, key) = (message.exchange.into(), message.routing_key.as_str().into());
    let sent = channel.basic_publish(exchange, key, options, &message.body, properties).await?;
    Ok((id, sent.await?))
}

fn answered(record: &CallRecord, delivery: &Delivery) {
    let id = delivery.properties.correlation_id().as_ref().expect("an id").as_str().to_owned();
    let count = match *delivery.data.as_slice() {
        [count @ ..0x80] | [0xcc, count] => u64::from(count),
        [0xcd, high, low] => u64::from(u16::from_be_bytes([high, low])),
        ref other => panic!("an invalid response: {other:02x?}"),
    };
    record.note(&id, |message| message.answers.push((count, Instant::now())));
}

/// Creates `count` messages of `rows` unique rows each.
pub(crate) fn load(rng: &mut Rng, count: usize, rows: usize) -> Vec<Message> {
    (0..count).map(|_| message(rng, rows)).collect()
}

fn message(rng: &mut Rng, rows: usize) -> Message {
    let range = rng.u8(..16);
    let kind = rng.u8(..6);
    let (method, table, column) = match kind {
        0 | 1 => ("content_add", "content", "sha1"),
        2 => ("directory_add", "directory", "sha1"),
        3 => ("revision_add", "revision", "sha1"),
        4 => ("origin_add", "origin", "sha1"),
        _ => ("location_add", "location", "path"),
    };
    let mut items = Vec::new();
    let mut encoded = Vec::new();
    for _ in 0..rows {
        let mut key = vec![0; 20];
        rng.fill(&mut key);
        // The first nibble selects the range; the second byte differs from that of imported rows.
        (key[0], key[1]) = (key[0] & 0xf0 | range, 0);
        let id = [&[0xc4, 20], &key[..]].concat();
        encoded.push(match kind {
            0 | 3 => [&[0x91], &id[..]].concat(),
            1 | 2 => [&[0x92], &id[..], &[0xd6, 0xff], &rng.u32(..).to_be_bytes()].concat(),
            4 => {
                let url: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
                [&[0x92], &id[..], &[0xd9, 40], url.as_bytes()].concat()
            }
            _ => [&[0x91], &id[..]].concat(),
        });
        items.push(Item { table, column, key });
    }
    Message::new(method, range, items, &encoded)
}

/// `{"data": [...]}` in msgpack.
fn body(items: &[Vec<u8>]) -> Vec<u8> {
    let count = u16::try_from(items.len()).expect("few items").to_be_bytes();
    [&b"\x81\xa4data\xdc"[..], &count, &items.concat()].concat()
}
