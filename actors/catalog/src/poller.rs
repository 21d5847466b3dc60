//! The actor CatalogPoller: knows when to look, has the rules at work, and answers operators.

mod console;
mod running;
mod timing;

use std::{collections::BTreeSet, rc::Rc, sync::Arc, time::Duration};

use orchestrator_supervise::{Answer, Child, ChildCx, Factory, FigureKind, Handle, Slot, StartCx, StopToken};
use parking_lot::Mutex;
use tokio::sync::watch;

use self::running::{Rules, Running};
use crate::{
    agent::{Agent, Call, House},
    config::{CatalogConfig, RuleConfig},
    edge::{handlers::AnyHandler, notices::Notices},
    handler_config::Actors,
    messages::SetRules,
    polling::Polling,
    rule::Rule,
    service::Service,
    status::{Board, Statuses},
    wall::Wall,
};

/// Help text of the only metric of the poller.
const LOOKS_HELP: &str = "Times that rules were told to look, after a notice or since it was time.";

/// What outlives an incarnation: the rules as they are now, what people see of them, and their switches.
#[derive(Debug, Clone)]
pub struct Desk {
    rules: Arc<Mutex<Vec<RuleConfig>>>,
    paused: Arc<Mutex<BTreeSet<String>>>,
    statuses: Statuses,
}

impl Desk {
    /// A desk with these rules.
    pub fn new(rules: Vec<RuleConfig>) -> Self {
        Self { rules: Arc::new(Mutex::new(rules)), paused: Arc::default(), statuses: Statuses::default() }
    }
}

/// The actor.
pub struct CatalogPoller<S> {
    config: CatalogConfig,
    notices: Notices,
    actors: Actors,
    desk: Desk,
    cx: StartCx,
    house: House<S>,
    rules: Rules,
    /// Futures that have not ended: rules, and the clock.
    under_way: usize,
}

/// The child: it looks at the catalog that `service` is the way to, whenever `notices` tell it to, or it is time. `actors` are those that
/// rows can be handed to.
pub fn factory<S: Service + Clone + Unpin + Send + 'static>(
    config: &CatalogConfig,
    slot: Slot<CatalogPoller<S>>,
    service: S,
    notices: Notices,
    actors: Actors,
    desk: Desk,
) -> Factory {
    let config = config.clone();
    Factory::actor(slot, move |cx| {
        let house = House {
            service: service.clone(),
            wall: Wall::System,
            agent: config.agent().into(),
            max_batch: config.max_batch as usize,
            cache: config.cache,
            grace: Duration::from_millis(config.grace_ms.into()),
        };
        Ok(CatalogPoller {
            config: config.clone(),
            notices: notices.clone(),
            actors: actors.clone(),
            desk: desk.clone(),
            cx: cx.clone(),
            house,
            rules: Rules::default(),
            under_way: 0,
        })
    })
}

impl<S: Service + Clone + Unpin + 'static> Child for CatalogPoller<S> {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        let polling = Polling::new(self.config.patience());
        let clock = timing::Clock {
            polling,
            notices: self.notices.clone(),
            rules: self.rules.clone(),
            cx: self.cx.clone(),
            looked: cx.vitals().register("looks", "", FigureKind::Counter, LOOKS_HELP),
        };
        self.begin(clock.run(), cx);
        self.set_rules(cx);
    }

    /// Rows in hand are finished, or given back.
    fn drained(&self) -> bool {
        self.under_way == 0
    }
}

impl<S: Service + Clone + Unpin + 'static> CatalogPoller<S> {
    fn begin(&mut self, future: impl Future<Output = ()> + 'static, cx: &mut ChildCx<'_, Self>) {
        self.under_way += 1;
        cx.spawn(future, |poller, (), _| poller.under_way -= 1);
    }

    /// Begins what is new, retires what is gone, and leaves alone what is as it was.
    fn set_rules(&mut self, cx: &mut ChildCx<'_, Self>) {
        let wanted = self.desk.rules.lock().clone();
        self.rules.borrow_mut().retain(|name, running| {
            let stays = wanted.iter().any(|rule| rule.name == *name && *rule == running.config);
            if !stays {
                tracing::info!(rule = name, "the rule retires: what it has claimed is finished");
                running.retire.cancel();
            }
            stays
        });
        self.desk.statuses.retain(|name| wanted.iter().any(|rule| rule.name == name));
        for config in wanted {
            if self.rules.borrow().contains_key(&config.name) {
                continue;
            }
            match self.employ(&config) {
                Ok(agent) => {
                    let calls = watch::Sender::new(Call {
                        paused: self.desk.paused.lock().contains(&config.name),
                        ..Call::default()
                    });
                    let retire = StopToken::new();
                    let run = agent.run(calls.subscribe(), self.cx.stop.clone(), retire.clone());
                    self.rules.borrow_mut().insert(config.name.clone(), Running { config, calls, retire });
                    self.begin(run, cx);
                }
                // Checked when it was read; an actor that is named may be missing all the same.
                Err(reason) => {
                    tracing::error!(rule = config.name, "the rule cannot be followed: {reason}");
                    let board = Board::new(&config.name, &self.desk.statuses, &self.cx.vitals);
                    board.phase("parked", Some(reason));
                }
            }
        }
    }

    fn employ(&self, config: &RuleConfig) -> Result<Agent<S, AnyHandler>, String> {
        let rule = Rule::new(config).map_err(|errors| errors.join("; "))?;
        for warning in rule.warnings() {
            tracing::warn!(rule = rule.name, "{warning}");
        }
        let handler = config.handler.handler(&self.actors)?;
        let board = Board::new(&config.name, &self.desk.statuses, &self.cx.vitals);
        Ok(Agent::new(Rc::new(rule), self.house.clone(), Rc::new(handler), board))
    }
}

impl<S: Service + Clone + Unpin + 'static> Handle<SetRules> for CatalogPoller<S> {
    fn handle(&mut self, SetRules { rules }: SetRules, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        *self.desk.rules.lock() = rules;
        self.set_rules(cx);
        Answer::done()
    }
}
