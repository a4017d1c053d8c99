//! Live values on a recorded page.

use super::{Series, escaped, line, write_series};

/// Families whose labels are the value: recorded series of them are dropped, live ones stand for
/// them at the end of the page.
const REPLACED: [&str; 1] = ["vllm:lora_requests_info"];

/// Labels that tell the series of one family apart; those must agree for a series to be the live
/// one. Any other label takes the live value.
const SELECTING: [&str; 4] = ["reason", "finished_reason", "request_type", "kv_cache_block_type"];

/// The recorded page, where each line of a live series has its live value and labels. Live series
/// that the recording lacks follow at the end.
pub(in crate::sim) fn overlay(recorded: &str, live: &[Series]) -> String {
    let mut page = String::with_capacity(recorded.len() + 1_024);
    let mut shown = vec![false; live.len()];
    for text in recorded.lines() {
        let name = text.split(['{', ' ']).next().unwrap_or_default();
        if REPLACED.contains(&name) {
            continue;
        }
        let found = live.iter().zip(&mut shown).find(|(series, _)| matches(series, name, text));
        if let Some((series, shown)) = found {
            *shown = true;
            line(&mut page, format_args!("{} {:?}", relabeled(series, text), series.value));
        } else {
            line(&mut page, format_args!("{text}"));
        }
    }
    for (series, _) in live.iter().zip(shown).filter(|(_, shown)| !shown) {
        write_series(&mut page, series);
    }
    page
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
