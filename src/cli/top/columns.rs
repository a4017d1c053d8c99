//! The columns of the table of endpoints: what is in a cell, and by what it is sorted.

use std::cmp::Ordering;

use clap::ValueEnum;

use crate::server::overview::EndpointView;

use super::words::{age, count, percent};

/// A column, as it is named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Column {
    /// Its name.
    Endpoint,
    /// What it is to decisions.
    State,
    /// Requests in its queue.
    Waiting,
    /// Requests that it computes.
    Running,
    /// Used share of its KV cache.
    Kv,
    /// Requests of this picker in flight there.
    Ours,
    /// Tokens of their prompts that are not computed yet.
    Prompt,
    /// Tokens that they are expected to generate yet.
    Output,
    /// Share of the prompts of late that it had in its cache.
    Hit,
    /// Tokens of prompts in a second, as learnt.
    Speed,
    /// Milliseconds of a decoding step, as learnt.
    Step,
    /// Age of its metrics page.
    Age,
    /// Adapters of its requests.
    Adapters,
}

/// By what an endpoint is sorted; what is not known comes last in either direction.
enum Key {
    Text(String),
    Number(Option<f64>),
}

impl Column {
    /// All, in the order in which they stand: those at the end go first where there is no room.
    pub(super) const ALL: [Self; 13] = [
        Self::Endpoint,
        Self::State,
        Self::Waiting,
        Self::Running,
        Self::Kv,
        Self::Ours,
        Self::Prompt,
        Self::Output,
        Self::Hit,
        Self::Speed,
        Self::Step,
        Self::Age,
        Self::Adapters,
    ];

    /// What stands above it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Endpoint => "ENDPOINT",
            Self::State => "STATE",
            Self::Waiting => "WAIT",
            Self::Running => "RUN",
            Self::Kv => "KV",
            Self::Ours => "OURS",
            Self::Prompt => "PROMPT",
            Self::Output => "OUTPUT",
            Self::Hit => "HIT",
            Self::Speed => "TOK/S",
            Self::Step => "STEP",
            Self::Age => "AGE",
            Self::Adapters => "ADAPTERS",
        }
    }

    /// Whether it holds words, which stand to the left; numbers stand to the right.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Endpoint | Self::State | Self::Adapters)
    }

    /// Whether the largest is what one looks for first.
    pub(super) fn falls(self) -> bool {
        !self.is_text()
    }

    /// What is in the cell of an endpoint; `-` is not known.
    pub(super) fn cell(self, of: &EndpointView) -> String {
        let whole = |value: Option<f32>| value.map_or_else(dash, |value| count(f64::from(value)));
        match self {
            Self::Endpoint => of.name.clone(),
            Self::State => of.state.clone(),
            Self::Waiting => whole(of.waiting),
            Self::Running => whole(of.running),
            Self::Kv => of.kv_usage.map_or_else(dash, percent),
            Self::Ours => of.requests.to_string(),
            Self::Prompt => count(of.prompt_tokens as f64),
            Self::Output => count(of.output_tokens as f64),
            Self::Hit => {
                let guess = if of.hit_rate_by.as_deref() == Some("estimate") { "~" } else { "" };
                of.hit_rate.map_or_else(dash, |rate| format!("{guess}{}", percent(rate)))
            }
            Self::Speed => whole(of.prompt_tokens_per_second),
            Self::Step => of.step_ms.map_or_else(dash, |step| format!("{step:.1}ms")),
            Self::Age => of.scrape_age_seconds.map_or_else(dash, age),
            Self::Adapters => adapters(of),
        }
    }

    fn key(self, of: &EndpointView) -> Key {
        let number = |value: Option<f32>| Key::Number(value.map(f64::from));
        match self {
            Self::Endpoint | Self::State | Self::Adapters => Key::Text(self.cell(of)),
            Self::Waiting => number(of.waiting),
            Self::Running => number(of.running),
            Self::Kv => number(of.kv_usage),
            Self::Ours => Key::Number(Some(f64::from(of.requests))),
            Self::Prompt => Key::Number(Some(of.prompt_tokens as f64)),
            Self::Output => Key::Number(Some(of.output_tokens as f64)),
            Self::Hit => number(of.hit_rate),
            Self::Speed => number(of.prompt_tokens_per_second),
            Self::Step => number(of.step_ms),
            Self::Age => Key::Number(of.scrape_age_seconds),
        }
    }

    /// Sorts by this column, then by name.
    pub(super) fn sort(self, endpoints: &mut [&EndpointView], falling: bool) {
        endpoints.sort_by(|a, b| {
            let order = match (self.key(a), self.key(b)) {
                (Key::Text(a), Key::Text(b)) => directed(a.cmp(&b), falling),
                (Key::Number(Some(a)), Key::Number(Some(b))) => directed(a.total_cmp(&b), falling),
                (Key::Number(a), Key::Number(b)) => a.is_none().cmp(&b.is_none()),
                (Key::Text(_), Key::Number(_)) | (Key::Number(_), Key::Text(_)) => Ordering::Equal,
            };
            order.then_with(|| a.name.cmp(&b.name))
        });
    }
}

fn directed(order: Ordering, falling: bool) -> Ordering {
    if falling { order.reverse() } else { order }
}

fn dash() -> String {
    "-".to_owned()
}

/// Their names, and of how many slots.
fn adapters(of: &EndpointView) -> String {
    let names = of.adapters.join(",");
    match of.adapter_slots {
        Some(slots) if !of.adapters.is_empty() => format!("{}/{slots} {names}", of.adapters.len()),
        Some(slots) => format!("0/{slots}"),
        None if names.is_empty() => dash(),
        None => names,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(name: &str, waiting: Option<f32>) -> EndpointView {
        EndpointView { name: name.to_owned(), waiting, ..EndpointView::default() }
    }

    fn sorted(column: Column, falling: bool) -> String {
        let all = [("a", Some(1.0)), ("b", None), ("c", Some(3.0)), ("d", Some(1.0))];
        let all = all.map(|(name, waiting)| endpoint(name, waiting));
        let mut shown: Vec<_> = all.iter().collect();
        column.sort(&mut shown, falling);
        shown.iter().map(|endpoint| endpoint.name.as_str()).collect()
    }

    #[test]
    fn what_is_not_known_comes_last_and_names_decide_among_equals() {
        assert_eq!(sorted(Column::Waiting, true), "cadb");
        assert_eq!(sorted(Column::Waiting, false), "adcb");
        assert_eq!(sorted(Column::Endpoint, true), "dcba");
    }

    #[test]
    fn cells_say_what_is_a_guess_and_what_is_not_known() {
        let mut of = endpoint("a", None);
        assert_eq!(
            Column::ALL.map(|column| column.cell(&of))[2..],
            ["-", "-", "-", "0", "0", "0", "-", "-", "-", "-", "-"]
        );
        (of.hit_rate, of.hit_rate_by) = (Some(0.5), Some("estimate".to_owned()));
        (of.adapters, of.adapter_slots) = (vec!["sql".to_owned()], Some(4));
        assert_eq!(Column::Hit.cell(&of), "~50%");
        assert_eq!(Column::Adapters.cell(&of), "1/4 sql");
    }
}
