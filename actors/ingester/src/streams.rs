//! Streams of one ingester, with the means to build their sources.

use std::{sync::Arc, time::Duration};

use orchestrator_supervise::{ChildRef, ChildSpec, Durable, Factory, Shutdown};

use crate::{
    assign::ClassEvents,
    class_path::ClassPath,
    config::{IngesterConfig, StreamConfig},
    edge::sources::{Launch, PythonInboxes, PythonProcess, check_class_options},
    mapping::Mappings,
    source::{MakeSource, Registry, SourceFactory, SourceOptions},
    stream_queue::{StreamQueue, StreamQueues},
};

/// Time-out for stopping a child of a scan or a source.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_millis(500);
/// Time-out for stopping the process of an ingester class.
const PROCESS_STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Streams of one ingester.
pub(crate) struct Streams {
    pub(crate) queues: StreamQueues,
    pub(crate) makes: Vec<StreamSource>,
    /// Children that run beside the sources, such as reader threads.
    pub(crate) source_children: Vec<ChildSpec>,
    /// Receivers of the assigned events.
    pub(crate) processes: Arc<[ClassEvents]>,
}

/// Source of one stream.
pub(crate) struct StreamSource {
    pub(crate) config: StreamConfig,
    pub(crate) make: MakeSource,
    /// Child that runs beside the source, or the process of its class. It names none for other sources.
    pub(crate) child: ChildRef,
}

/// Process of one ingester class.
struct ClassProcess {
    class: ClassPath,
    process: PythonProcess,
    inboxes: PythonInboxes,
    child: ChildRef,
    options: SourceOptions,
    streams: Vec<(usize, Arc<str>)>,
}

/// Creates the queues and sources of all streams.
///
/// # Errors
/// A source is unknown, or its options do not fit.
pub(crate) fn build(
    config: &IngesterConfig,
    registry: &Registry,
    mappings: &Durable<Mappings>,
) -> Result<Streams, String> {
    let (mut queues, mut makes, mut source_children) = (Vec::new(), Vec::new(), Vec::new());
    let mut classes: Vec<ClassProcess> = Vec::new();
    for (position, stream) in config.stream.iter().enumerate() {
        let options = stream.source_options();
        let (factory, child) = match registry.factory(&stream.source, &options) {
            Some(factory) => (factory.map_err(|error| error.to_string())?, ChildRef::default()),
            None => {
                let redis_url = config.redis()?;
                let unknown = |text| format!("source = {}: {text}", stream.source);
                config.check_source(stream, registry).map_err(unknown)?;
                class_factory(&mut classes, position, stream, &redis_url)?
            }
        };
        let SourceFactory { make, reader_child } = factory;
        let source = make(&options).map_err(|error| error.to_string())?;
        queues.push(StreamQueue::new(&stream.name, &*source));
        source_children.extend(reader_child.map(|factory| {
            ChildSpec::worker(format!("source_{position}"), factory)
                .label(stream.name.clone())
                .shutdown(Shutdown::After(STOP_TIMEOUT))
                .reference(&child)
        }));
        makes.push(StreamSource { config: stream.clone(), make, child });
    }
    let processes = classes.iter().map(ClassProcess::events).collect();
    for (position, class) in classes.into_iter().enumerate() {
        let (label, own) = (class.class.to_string(), class.child.clone());
        let factory = class.factory(config, mappings)?;
        let child = ChildSpec::worker(format!("python_{position}"), factory).label(label).reference(&own);
        source_children.push(child.shutdown(Shutdown::After(PROCESS_STOP_TIMEOUT)));
    }
    Ok(Streams { queues: queues.into(), makes, source_children, processes })
}

/// Factory of the sources of a stream whose class runs in Python, and the child of the class. All streams of
/// one class share a process.
fn class_factory(
    classes: &mut Vec<ClassProcess>,
    position: usize,
    stream: &StreamConfig,
    redis_url: &str,
) -> Result<(SourceFactory, ChildRef), String> {
    let class = ClassPath::parse(&stream.source);
    let class = class.ok_or_else(|| format!("unknown source: {}", stream.source))??;
    let at = classes.iter().position(|known| known.class == class).unwrap_or_else(|| {
        let ((process, inboxes), options) = (PythonProcess::new(redis_url), stream.source_options());
        let (child, streams) = (ChildRef::default(), Vec::new());
        classes.push(ClassProcess { class, process, inboxes, child, options, streams });
        classes.len() - 1
    });
    let class = &mut classes[at];
    class.streams.push((position, stream.name.as_str().into()));
    let process = class.process.clone();
    let factory = SourceFactory { make: Arc::new(move |_| Ok(process.source())), reader_child: None };
    Ok((factory, class.child.clone()))
}

impl ClassProcess {
    fn events(&self) -> ClassEvents {
        let streams = self.streams.iter().fold(0, |mask, (position, _)| mask | 1_u64 << position);
        ClassEvents { streams, process: self.process.events.clone() }
    }

    fn factory(self, config: &IngesterConfig, mappings: &Durable<Mappings>) -> Result<Factory, String> {
        let launch = Launch {
            python: config.python.clone(),
            class: self.class,
            streams: self.streams,
            name: config.name(),
            url: config.url(),
            redis_url: config.redis()?,
            listen: check_class_options(&self.options).map_err(|error| error.to_string())?,
            upstream_url: self.options.upstream_url,
            environment: config.environment(),
            mappings: mappings.view(),
        };
        Ok(self.inboxes.factory(launch))
    }
}
