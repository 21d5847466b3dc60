//! The details of the selected child. No I/O.

use orchestrator_admin::{ascii::format_duration, timestamp::rfc3339};
use orchestrator_subsystem::{
    output::escape_line,
    wire::{LinkSnapshot, MailboxSnapshot, NodeSnapshot, WaitSnapshot},
};
use orchestrator_supervise::{WaitGraph, without_root};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::{Line as TextLine, Span},
    widgets::{Block, Borders, Clear, Paragraph, RenderDirection, Sparkline, Wrap},
};

use crate::cli::top::{
    crash::Crash,
    details::{Details, resample},
    palette::Palette,
    rows::micros,
    state::State,
};

/// Most exits that are shown.
const EXITS_MAX: usize = 5;
/// Most waiting children that are shown.
const WAITS_MAX: usize = 3;
/// Width of the name and the last value before a chart.
const CHART_HEAD: u16 = 16;

/// Draws the details of the selected child, and limits their scroll position to their length.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, palette: Palette, area: Rect) {
    let Some(child) = state.child() else { return };
    let details = state.details.as_ref().filter(|details| details.path == child.path);
    let block = Block::new().borders(Borders::ALL).title(escape_line(&child.path));
    let inside = block.inner(area);
    let charts = if details.is_some() { 3 } else { 0 };
    let [top, rest] = Layout::vertical([Constraint::Length(charts), Constraint::Min(0)]).areas(inside);
    let mut text = Content { now_ms: state.tree.captured_at_ms, palette, lines: Vec::new() };
    text.add_state(child);
    if let Some(reason) = &state.details_error {
        text.add("no causes and charts:", reason.clone());
    }
    text.add_waits(&state.tree.root, child);
    text.add_causes(details);
    text.add_crash(details);
    text.add_exits(state, child);
    text.add_values(child);
    let height: usize =
        text.lines.iter().map(|line| line.width().div_ceil(usize::from(rest.width.max(1))).max(1)).sum();
    let most = height.saturating_sub(usize::from(rest.height));
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    if let Some(details) = details {
        draw_charts(frame, details, palette, top);
    }
    let scroll = state.drawer.unwrap_or(0).min(most);
    let line = u16::try_from(scroll).unwrap_or(u16::MAX);
    frame.render_widget(Paragraph::new(text.lines).wrap(Wrap { trim: false }).scroll((line, 0)), rest);
    state.drawer = Some(scroll);
}

/// Draws a chart of ten minutes for each of depth, rate and handling time, the newest value at the right.
fn draw_charts(frame: &mut Frame<'_>, details: &Details, palette: Palette, area: Rect) {
    let count: fn(u64) -> String = |count| count.to_string();
    let per_second: fn(u64) -> String = |rate| format!("{:.1}", rate as f64 / 1e3);
    let charts = [
        ("depth", &details.depth, count),
        ("rate/s", &details.rate, per_second),
        ("p99", &details.p99_us, micros),
    ];
    for ((name, values, text), row) in charts.into_iter().zip(area.rows()) {
        let [head, chart] =
            Layout::horizontal([Constraint::Length(CHART_HEAD), Constraint::Min(0)]).areas(row);
        let last = values.last().copied().flatten().map_or_else(String::new, text);
        frame.render_widget(Paragraph::new(format!("{name:<7}{last:>7}")), head);
        let bars: Vec<Option<u64>> = resample(values, usize::from(chart.width)).into_iter().rev().collect();
        let line = Sparkline::default().data(bars).direction(RenderDirection::RightToLeft);
        frame.render_widget(line.style(palette.chart()), chart);
    }
}

/// Lines of the details.
struct Content {
    now_ms: u64,
    palette: Palette,
    lines: Vec<TextLine<'static>>,
}

impl Content {
    fn add(&mut self, name: &str, text: String) {
        let name = Span::styled(format!("{name} "), Palette::quiet());
        self.lines.push(TextLine::from(vec![name, Span::raw(escape_line(text))]));
    }

    fn since(&self, ms: u64) -> String {
        format_duration(self.now_ms.saturating_sub(ms))
    }

    fn add_state(&mut self, child: &NodeSnapshot) {
        let state = child.shown();
        let mut facts = format!(" {}, {}, incarnation {}", child.kind, child.restart, child.incarnation);
        if child.state == "running" {
            facts.push_str(&format!(", for {}", self.since(child.started_ms)));
        }
        if let Some(strategy) = &child.strategy {
            facts.push_str(&format!(", {strategy}"));
        }
        let state = Span::styled(escape_line(state), self.palette.state(state));
        self.lines.push(TextLine::from(vec![state, Span::raw(escape_line(facts))]));
        let planned = child.planned_restarts;
        let planned = if planned == 0 { String::new() } else { format!("; {planned} by command") };
        self.add("restarts", format!("{}, {} more allowed now{planned}", child.restarts, child.budget_left));
        if let Some(ms) = child.retry_in_ms {
            self.add("tried again in", format_duration(ms));
        }
        if let Some(label) = &child.label {
            self.add("label", label.clone());
        }
        if let Some(work) = &child.in_progress {
            self.add("works on", format!("{} for {}", work.name, format_duration(work.for_ms)));
        }
        if let Some(link) = &child.link {
            self.add("link", self.link(link));
        }
        if let Some(note) = &child.note {
            self.add("note", format!("{} ago: {}", self.since(note.at_ms), note.text));
        }
    }

    fn link(&self, link: &LinkSnapshot) -> String {
        let mut text = format!("{} {} {}", link.kind, link.endpoint, link.state);
        if let Some(since) = link.since_ms {
            text.push_str(&format!(" for {}", self.since(since)));
        }
        if let Some(reason) = &link.reason {
            text.push_str(&format!(": {reason}"));
        }
        if let Some(ms) = link.retry_in_ms {
            text.push_str(&format!(", again in {}", format_duration(ms)));
        }
        text
    }

    fn add_causes(&mut self, details: Option<&Details>) {
        for cause in details.iter().flat_map(|details| &details.causes) {
            let age =
                cause.since_ms.map_or_else(String::new, |since| format!(" (for {})", self.since(since)));
            self.add("why", format!("{}: {}{age}", cause.path, cause.text));
            for fact in &cause.evidence {
                self.add("  evidence", fact.clone());
            }
            self.add("  do", cause.help.clone());
        }
    }

    /// Adds the children that the child waits for, and those that wait for it.
    fn add_waits(&mut self, root: &NodeSnapshot, child: &NodeSnapshot) {
        for wait in &child.waits {
            let blocks = if wait.blocks { "; it handles nothing else meanwhile" } else { "" };
            self.add("waits for", format!("{}: {}{blocks}", wait.on, wait_text(wait)));
        }
        for (from, wait) in WaitGraph::new(root).waiting_for(&child.path).into_iter().take(WAITS_MAX) {
            self.add("is awaited by", format!("{from}: {}", wait_text(wait)));
        }
    }

    fn add_crash(&mut self, details: Option<&Details>) {
        let newest = details.and_then(|details| details.crash.as_ref()?.crash.as_ref());
        let Some(Crash { path, at_ms, kind, message, frame }) = newest else { return };
        let (at, ago) = (rfc3339(*at_ms), self.since(*at_ms));
        self.add("crash", format!("{at} ({ago} ago) {path} {kind}: {message}"));
        if let Some(frame) = frame {
            self.add("  in", frame.clone());
        }
        self.add("  do", format!("orchestrator crashes {}", without_root(path)));
    }

    fn add_exits(&mut self, state: &State, child: &NodeSnapshot) {
        for exit in state.exits_of(child).take(EXITS_MAX) {
            let work = exit.in_progress.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
            self.add("exit", format!("{} ago{work}: {}", self.since(exit.at_ms), exit.reason));
        }
    }

    fn add_values(&mut self, child: &NodeSnapshot) {
        for mailbox in &child.mailboxes {
            self.add("mailbox", mailbox_text(mailbox));
            for message in &mailbox.messages {
                let [wait, handling] = [message.wait_us[2], message.handling_us[2]].map(micros);
                self.add(
                    "  message",
                    format!("{} {}, p99 {handling}, waits {wait}", message.name, message.count),
                );
            }
        }
        for metric in &child.metrics {
            let label = metric.label.as_ref().map(|label| format!("{{{}={}}}", label.name, label.value));
            let unit = if metric.unit.is_empty() { String::new() } else { format!(" {}", metric.unit) };
            self.add(
                "metric",
                format!("{}{} {}{unit}", metric.name, label.unwrap_or_default(), metric.value),
            );
        }
        for timing in &child.timings {
            let p99 = micros(timing.us[2]);
            let text =
                format!("{}{{{}={}}} {}, p99 {p99}", timing.name, timing.label, timing.value, timing.count);
            self.add("timing", text);
        }
        if let Some(arbiter) = &child.arbiter {
            self.add("arbiter", arbiter.clone());
        }
        for path in &child.sends_to {
            self.add("sends to", without_root(path).to_owned());
        }
        if !child.durable.is_empty() {
            self.add("durable", child.durable.join(", "));
        }
    }
}

/// Formats a wait: `an answer for 3s, 2 times`.
fn wait_text(wait: &WaitSnapshot) -> String {
    let what = if wait.kind == "room" { "room in its mailbox" } else { "an answer" };
    let times = if wait.count > 1 { format!(", {} times", wait.count) } else { String::new() };
    format!("{what} for {}{times}", format_duration(wait.for_ms))
}

fn mailbox_text(mailbox: &MailboxSnapshot) -> String {
    format!(
        "{} {}/{}, {} handled, {} refused, at most {} waited",
        mailbox.name, mailbox.depth, mailbox.capacity, mailbox.handled, mailbox.refused, mailbox.high_water
    )
}
