//! Branch of the children that restart with each mapping.

use std::sync::Arc;

use orchestrator_exchange::HookEvents;
use orchestrator_supervise::{
    ChildSpec, Factory, InboxSlot, Mailbox, MailboxSlot, OnRestart, Placement, Shutdown, Strategy,
    SupervisorSpec, mailbox,
};

use crate::{
    assign::{Assign, ClassEvents},
    edge::redis::{LastEntry, RedisTarget},
    ingester::Ingester,
    messages::MappingFinished,
    stream::StreamSpec,
    streams::{STOP_TIMEOUT, StreamSource},
    work::{Work, WorkContext},
};

/// Parameters for building the children that restart with each mapping.
pub(crate) struct ScanBranch {
    pub(crate) target: RedisTarget,
    pub(crate) last_entry: LastEntry,
    pub(crate) context: WorkContext,
    pub(crate) ingester: Mailbox<Ingester>,
    pub(crate) work: Mailbox<Work>,
    pub(crate) work_slot: MailboxSlot<Work>,
    pub(crate) makes: Vec<StreamSource>,
    pub(crate) processes: Arc<[ClassEvents]>,
    pub(crate) finished_slots: Vec<InboxSlot<MappingFinished>>,
    pub(crate) hook_events: HookEvents,
}

impl ScanBranch {
    pub(crate) fn spec(self) -> SupervisorSpec {
        let Self {
            target,
            last_entry,
            context,
            ingester,
            work,
            work_slot,
            makes,
            processes,
            finished_slots,
            hook_events,
        } = self;
        let (_, assign_slot) = mailbox::<Assign>(1);
        let (streams, mappings) = (context.streams.clone(), context.mappings.clone());
        let dump = context.dump.outbox().clone();
        let (begun, sent, interrupted) =
            (context.begun.clone(), context.sent.clone(), context.interrupted.clone());
        let (queues, followed, assigned) = (streams.clone(), mappings.clone(), work.recipient());
        let classes = processes.clone();
        let assign = Factory::actor(assign_slot, move |cx| {
            let (redis, assigned) = ((target.clone(), last_entry.clone()), assigned.clone());
            let processes = classes.clone();
            Ok(Assign::new(queues.clone(), followed.clone(), redis, assigned, processes, &cx.vitals))
        });
        let work_factory = Factory::actor(work_slot, move |cx| Ok(Work::new(context.clone(), cx)));
        let work_child =
            scan_child("work", work_factory).durable(&begun).durable(&sent).durable(&interrupted);
        let classes = processes.iter().map(|class| &class.process);
        let assign = classes.fold(scan_child("assign", assign).sends_to(&work), ChildSpec::sends_to);
        let mut tree = SupervisorSpec::new(Strategy::OneForAll)
            .child(work_child.sends_to(&ingester).sends_to(&dump))
            .child(assign);
        for (position, (source, finished)) in makes.into_iter().zip(finished_slots).enumerate() {
            let StreamSource { config, make, child: source } = source;
            let spec = StreamSpec {
                streams: streams.clone(),
                position,
                mappings: mappings.clone(),
                finished,
                work: work.recipient(),
                ingester: ingester.recipient(),
                make,
                options: config.source_options(),
                endpoint: config.endpoint(),
                expect_every: config.expect_every,
                hook_events: hook_events.clone(),
            };
            let child = scan_child(format!("stream_{position}"), spec.factory())
                .label(config.name)
                .placement(Placement::Dedicated)
                .sends_to(&work)
                .sends_to(&ingester)
                .waits_for(&source);
            tree = tree.child(child);
        }
        tree
    }
}

/// A child of a scan. Its mailbox is purged at a restart: pending messages belong to the former
/// mapping.
fn scan_child(id: impl Into<String>, factory: Factory) -> ChildSpec {
    ChildSpec::worker(id, factory).on_restart(OnRestart::Purge).shutdown(Shutdown::After(STOP_TIMEOUT))
}
