//! An explanation for people.

use std::fmt::Write;

use crate::director::explain::{
    CandidateTold, EndpointTold, Explanation, FilterTold, Outcome, PassTold,
};

/// What marks a line on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Plain,
    Chosen,
    Out,
    Wrong,
}

/// Writes an explanation as tables; `colors` are for terminals.
pub(in crate::cli) fn table(told: &Explanation, colors: bool) -> String {
    let mut page = Page { text: String::new(), colors };
    page.outcome(told);
    page.removed(told);
    page.endpoints(told);
    told.passes.iter().for_each(|pass| page.pass(pass));
    page.text
}

struct Page {
    text: String,
    colors: bool,
}

impl Page {
    fn line(&mut self, mark: Mark, line: &str) {
        let code = match mark {
            Mark::Plain => "",
            Mark::Chosen => "\x1b[1;32m",
            Mark::Out => "\x1b[2m",
            Mark::Wrong => "\x1b[1;31m",
        };
        let (before, after) =
            if self.colors && !code.is_empty() { (code, "\x1b[0m") } else { ("", "") };
        let written = writeln!(self.text, "{before}{line}{after}");
        debug_assert!(written.is_ok(), "a string takes everything");
    }

    fn outcome(&mut self, told: &Explanation) {
        let Outcome { endpoints, refused, rung, faults } = &told.outcome;
        match (endpoints.split_first(), refused) {
            (Some((first, others)), _) => {
                let address = |name: &str| {
                    let of = told.endpoints.iter().find(|endpoint| endpoint.name == name);
                    let address = of.map(|endpoint| endpoint.address.to_string());
                    let other = address.filter(|address| address != name);
                    other.map(|address| format!(" ({address})")).unwrap_or_default()
                };
                let others = match others {
                    [] => String::new(),
                    others => format!(", then {}", others.join(", ")),
                };
                self.line(Mark::Chosen, &format!("{first}{}{others}", address(first)));
            }
            (None, why) => {
                let why = why.as_deref().unwrap_or("nobody was chosen");
                self.line(Mark::Wrong, &format!("refused: {why}"));
            }
        }
        let request = &told.request;
        let model = request.model.as_deref().unwrap_or("no model");
        let body = if request.bodyless { ", no body" } else { "" };
        let profile = told.profile.iter().map(|name| format!(", profile {name}"));
        let rung = rung.iter().map(|rung| format!(", rung {rung}"));
        let more: String = profile.chain(rung).collect();
        self.line(
            Mark::Plain,
            &format!(
                "{model}, {} prompt tokens, priority {}{body}{more}, took {:.0} µs",
                request.prompt_tokens, request.priority, told.took_us
            ),
        );
        for (name, len) in &request.headers {
            self.line(Mark::Plain, &format!("header {name}: {len} bytes"));
        }
        if let Some(id) = &told.decision {
            let request = told.request_id.as_deref().unwrap_or_default();
            let ago = told.seconds_ago;
            self.line(Mark::Plain, &format!("decision {id} of request {request}, {ago:.1} s ago"));
        }
        if let Some(saturation) = &told.saturation {
            let (detector, value) = (&saturation.detector, saturation.value);
            self.line(Mark::Plain, &format!("saturation {value:.2} by {detector}"));
        }
        for fault in faults {
            self.line(Mark::Wrong, &format!("{} was left out: {}", fault.plugin, fault.cause));
        }
    }

    fn removed(&mut self, told: &Explanation) {
        let early = told.endpoints.iter().filter_map(|endpoint| {
            let out = endpoint.left_out.as_ref()?;
            Some(vec![endpoint.name.clone(), out.by.clone(), out.reason.clone()])
        });
        let filters = told.passes.iter().flat_map(|pass| &pass.filters).flat_map(by_filter);
        let rows: Vec<_> = early.chain(filters).collect();
        if !rows.is_empty() {
            let head = ["left out", "by", "why"].map(str::to_owned).to_vec();
            self.grid(head, rows.into_iter().map(|row| (Mark::Out, row)).collect(), Align::Left);
        }
    }

    fn endpoints(&mut self, told: &Explanation) {
        let head = [
            "endpoint",
            "metrics",
            "age",
            "waiting",
            "running",
            "kv",
            "in flight",
            "prompt tokens",
            "output tokens",
            "cached",
        ];
        let row = |endpoint: &EndpointTold| {
            let chosen = told.outcome.endpoints.first() == Some(&endpoint.name);
            let mark = match (&endpoint.left_out, chosen) {
                (Some(_), _) => Mark::Out,
                (None, true) => Mark::Chosen,
                (None, false) => Mark::Plain,
            };
            (mark, known(endpoint))
        };
        let rows = told.endpoints.iter().map(row).collect();
        self.grid(head.map(str::to_owned).to_vec(), rows, Align::Right);
    }

    fn pass(&mut self, pass: &PassTold) {
        if pass.candidates.is_empty() {
            return;
        }
        let mut head = vec!["candidate".to_owned()];
        for (at, scorer) in pass.scorers.iter().enumerate() {
            let first = pass.candidates.first().and_then(|told| told.scores.get(at));
            head.extend(first.iter().flat_map(|score| score.parts.keys().cloned()));
            let failed = if scorer.failed { " (failed)" } else { "" };
            head.push(format!("{} x{}{failed}", scorer.name, scorer.weight));
        }
        head.push("sum".to_owned());
        let mark = |told: &CandidateTold| {
            if told.chosen.is_some() { Mark::Chosen } else { Mark::Plain }
        };
        let rows = pass.candidates.iter().map(|told| (mark(told), scores(told))).collect();
        self.grid(head, rows, Align::Right);
        let picker = pass.picker.as_deref().unwrap_or("no picker");
        let by = match pass.chosen_by.as_str() {
            "policy" => format!("by {picker}"),
            _ => "as the least loaded".to_owned(),
        };
        let (equals, dice) = (pass.equals, &pass.dice);
        self.line(Mark::Plain, &format!("chosen {by}; equal to the best: {equals}; dice {dice}"));
    }

    /// A blank line, a head, and rows with their columns aligned, the first to the left.
    fn grid(&mut self, head: Vec<String>, rows: Vec<(Mark, Vec<String>)>, align: Align) {
        let lines: Vec<_> = std::iter::once((Mark::Plain, head)).chain(rows).collect();
        let columns = lines.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
        let width = |at: usize| {
            let lens = lines.iter().filter_map(|(_, cells)| cells.get(at));
            lens.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        self.line(Mark::Plain, "");
        for (mark, cells) in &lines {
            let cell = |(at, (cell, width)): (usize, (&String, &usize))| match align {
                Align::Right if at > 0 => format!("{cell:>width$}"),
                Align::Right | Align::Left => format!("{cell:<width$}"),
            };
            let cells: Vec<_> = cells.iter().zip(&widths).enumerate().map(cell).collect();
            self.line(*mark, cells.join("  ").trim_end());
        }
    }
}

/// Where cells of a column but the first stand.
#[derive(Clone, Copy)]
enum Align {
    Left,
    Right,
}

fn by_filter(filter: &FilterTold) -> impl Iterator<Item = Vec<String>> {
    filter.removed.iter().map(|removed| {
        let reason = removed.reason.clone().unwrap_or_default();
        vec![removed.endpoint.clone(), filter.name.clone(), reason]
    })
}

fn known(endpoint: &EndpointTold) -> Vec<String> {
    let number = |value: Option<f32>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let age = endpoint.age_ms.map_or_else(|| "-".to_owned(), |age| format!("{age:.0} ms"));
    vec![
        endpoint.name.clone(),
        endpoint.metrics.clone(),
        age,
        number(endpoint.waiting, 0),
        number(endpoint.running, 0),
        number(endpoint.kv_usage, 2),
        endpoint.in_flight.requests.to_string(),
        endpoint.in_flight.prompt_tokens.to_string(),
        endpoint.in_flight.output_tokens.to_string(),
        endpoint.prefix_hit_tokens.to_string(),
    ]
}

fn scores(candidate: &CandidateTold) -> Vec<String> {
    let number =
        |value: Option<f32>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let mut cells = vec![candidate.endpoint.clone()];
    for score in &candidate.scores {
        let part = |value: &Option<f32>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
        };
        cells.extend(score.parts.values().map(part));
        cells.push(format!("{} -> {:.3}", number(score.raw), score.weighted));
    }
    cells.push(number(candidate.sum));
    cells
}
