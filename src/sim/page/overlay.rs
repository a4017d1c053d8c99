//! Live values on a recorded page.

use super::{Series, escaped, line, render, write_series};

/// A family whose labels are its value: the live series stand where the recorded ones stood.
const REPLACED: &str = "vllm:lora_requests_info";

/// Labels that tell the series of one family apart; those must agree for a series to be the live
/// one. Any other label takes the live value.
const SELECTING: [&str; 4] = ["reason", "finished_reason", "request_type", "kv_cache_block_type"];

/// The recorded page, where each line of a live series has its live value and labels. Live series
/// that the recording lacks follow at the end.
pub(in crate::sim) fn overlay(recorded: &str, live: &[Series]) -> String {
    let mut page = String::with_capacity(recorded.len() + 1_024);
    let mut missing = live.iter().collect::<Vec<_>>();
    for text in recorded.lines() {
        let name = text.split(['{', ' ']).next().unwrap_or_default();
        if name == REPLACED {
            let stand = missing.extract_if(.., |series| series.name == name);
            stand.for_each(|series| write_series(&mut page, series));
        } else if let Some(series) = live.iter().find(|series| matches(series, name, text)) {
            missing.retain(|other| !std::ptr::eq(*other, series));
            line(&mut page, format_args!("{} {:?}", relabeled(series, text), series.value));
        } else {
            line(&mut page, format_args!("{text}"));
        }
    }
    page + &render(missing)
}

fn matches(series: &Series, name: &str, text: &str) -> bool {
    let mut selecting = series.labels.iter().filter(|(label, _)| SELECTING.contains(label));
    series.name == name
        && selecting.all(|(label, value)| value_of(text, label).is_some_and(|(_, v, _)| v == value))
}

/// The line up to its value, with live label values in place of the recorded ones.
fn relabeled(series: &Series, text: &str) -> String {
    let head = text.rsplit_once(' ').map_or(text, |(head, _)| head);
    series.labels.iter().fold(head.to_owned(), |head, (label, value)| {
        match value_of(&head, label) {
            Some((before, _, after)) => format!("{before}{}{after}", escaped(value)),
            None => head,
        }
    })
}

/// What stands before, in, and after the quotes of a label. Recorded values hold no quotes.
fn value_of<'a>(text: &'a str, label: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let start = ["{", ","].iter().find_map(|separator| {
        let key = format!("{separator}{label}=\"");
        text.find(&key).map(|at| at + key.len())
    })?;
    let (before, rest) = text.split_at_checked(start)?;
    let (value, _) = rest.split_once('"')?;
    let (_, after) = rest.split_at_checked(value.len())?;
    Some((before, value, after))
}
