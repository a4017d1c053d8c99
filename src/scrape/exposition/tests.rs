use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::config::Engines;
use crate::pool::{Adapters, Names};
use crate::scrape::dialect::Dialects;

mod engines;

const PAGE: &str = include_str!("../../../tests/data/vllm-metrics.txt");
const LORA_PAGE: &str = include_str!("../../../tests/data/vllm-metrics-lora.txt");

/// In the dialect of vLLM, whose pages name the model `tiny`.
fn read(chunks: &[&[u8]]) -> Sample {
    let mut scan = Scan::new(Dialects::new(&Engines::default()).dialect(Some(0)));
    for chunk in chunks {
        scan.feed(chunk);
    }
    scan.finish().map(|(_, sample)| sample).unwrap_or_default()
}

fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Names {
    names.into_iter().collect()
}

fn page(text: &str) -> Sample {
    read(&[text.as_bytes()])
}

fn sample(waiting: f32, running: f32, kv_usage: f32) -> Sample {
    Sample {
        waiting: Some(waiting),
        running: Some(running),
        kv_usage: Some(kv_usage),
        ..Sample::default()
    }
}

/// The same by the rules one by one, with no thought of speed.
fn slow(text: &str) -> Sample {
    let signal = |names: &[&str], sum: bool| {
        let values = |name: &&str| -> Vec<f32> {
            text.split('\n')
                .filter_map(|line| slow_value(line.trim_start().strip_prefix(name)?))
                .collect()
        };
        let values = names.iter().map(values).find(|values| !values.is_empty())?;
        let fold = if sum {
            values.iter().sum::<f32>()
        } else {
            values.iter().copied().fold(0.0, f32::max).min(1.0)
        };
        values.iter().all(|value| value.is_finite()).then_some(fold)
    };
    Sample {
        waiting: signal(&["vllm:num_requests_waiting"], true),
        running: signal(&["vllm:num_requests_running"], true),
        kv_usage: signal(&["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"], false),
        ..Sample::default()
    }
}

/// None when the line has a longer name, NaN when its value is bad.
fn slow_value(rest: &str) -> Option<f32> {
    let labelled = rest.starts_with('{');
    if !labelled && !rest.starts_with([' ', '\t']) {
        return None;
    }
    let value = if labelled { rest.rsplit_once("} ").map(|(_, value)| value) } else { Some(rest) };
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    Some(number.filter(|number: &f32| *number >= 0.0).unwrap_or(f32::NAN))
}

#[test]
fn recorded_pages_read_as_they_say() {
    let tiny = Some(Arc::new(names(["tiny"])));
    let plain = Sample {
        block_size: Some(128),
        blocks: Some(4096),
        models: tiny.clone(),
        ..sample(0.0, 0.0, 0.0)
    };
    assert_eq!(page(PAGE), plain);
    let idle = Adapters { running: names([]), waiting: names([]), slots: Some(2) };
    let lora = Sample {
        block_size: Some(32),
        blocks: Some(16_384),
        models: tiny,
        adapters: Some(Arc::new(idle)),
        ..sample(0.0, 0.0, 0.0)
    };
    assert_eq!(page(LORA_PAGE), lora, "of three series of adapters the newest");
    let busy = PAGE
        .replace(
            "vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 0.0",
            "vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 7.0",
        )
        .replace(
            "vllm:num_requests_waiting{engine=\"0\",model_name=\"tiny\"} 0.0",
            "vllm:num_requests_waiting{engine=\"0\",model_name=\"tiny\"} 3.0",
        )
        .replace(
            "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"tiny\"} 0.0",
            "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"tiny\"} 0.25",
        );
    let busy = page(&busy);
    assert_eq!((busy.waiting, busy.running, busy.kv_usage), (Some(3.0), Some(7.0), Some(0.25)));
}

#[test]
fn several_engines_are_summed_and_the_fullest_cache_counts() {
    let text = "vllm:num_requests_waiting{engine=\"0\"} 2\nvllm:num_requests_waiting{engine=\"1\"} 3\n\
                vllm:num_requests_running{engine=\"0\"} 1.0 1700000000\nvllm:num_requests_running 4\n\
                vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.75";
    assert_eq!(page(text), sample(5.0, 5.0, 0.75));
}

// FR-085
#[test]
fn the_old_name_counts_only_without_the_new_one() {
    assert_eq!(page("vllm:gpu_cache_usage_perc 0.9\n").kv_usage, Some(0.9));
    assert_eq!(
        page("vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.1\n").kv_usage,
        Some(0.1)
    );
}

#[test]
fn a_bad_series_makes_its_signal_unknown_and_no_other() {
    for bad in ["NaN", "-1", "+Inf", "1e60", "x", ""] {
        let text = format!(
            "vllm:num_requests_waiting{{engine=\"0\"}} 2\nvllm:num_requests_waiting{{engine=\"1\"}} {bad}\nvllm:num_requests_running 1\n"
        );
        assert_eq!(page(&text), Sample { running: Some(1.0), ..Sample::default() }, "{bad}");
    }
}

#[test]
fn braces_and_quotes_in_label_values_do_not_end_the_labels() {
    let text = "vllm:num_requests_waiting{model=\"a} 9 \\\" } \\\\\",b=\"}\"} 4 \n  vllm:num_requests_running\t6\r\n";
    assert_eq!((page(text).waiting, page(text).running), (Some(4.0), Some(6.0)));
}

#[test]
fn longer_and_commented_names_are_others() {
    let text = "# vllm:num_requests_waiting 1\nvllm:num_requests_waiting_by_reason 2\nvllm:num_requests_waitin 3\n";
    assert!(page(text).is_empty());
}

#[test]
fn every_cut_gives_the_same() {
    let text = "# HELP x\nvllm:num_requests_waiting{e=\"0\"} 2\n\nvllm:num_requests_running 3\r\nvllm:kv_cache_usage_perc 0.5\nvllm:num_requests_waiting{e=\"1\"} 5";
    for first in 0..=text.len() {
        for second in first..=text.len() {
            let bytes = text.as_bytes();
            let chunks = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(read(&chunks), sample(7.0, 3.0, 0.5), "cut at {first} and {second}");
        }
    }
    let gauges = LORA_PAGE.find("# HELP vllm:num_requests_running").unwrap();
    let end = LORA_PAGE.find("# HELP vllm:prefix_cache").unwrap().max(gauges + 2000);
    for at in gauges..end {
        let (head, tail) = LORA_PAGE.as_bytes().split_at(at);
        assert_eq!(read(&[head, tail]), page(LORA_PAGE), "cut at {at}");
    }
}

#[test]
fn a_line_too_long_is_skipped_wherever_it_is_cut_and_the_next_is_read() {
    let text = format!(
        "vllm:num_requests_waiting{{x=\"{}\"}} 1\nvllm:num_requests_running 2\n",
        "y".repeat(LONGEST_LINE)
    );
    let expected = Sample { running: Some(2.0), ..Sample::default() };
    assert_eq!(page(&text), expected);
    for chunk in [1, 1000, 65_000, 66_000] {
        assert_eq!(read(&text.as_bytes().chunks(chunk).collect::<Vec<_>>()), expected, "{chunk}");
    }
}

// FR-089
/// The bounds are loose enough for a busy machine: nominally it is 6 µs in a release build.
#[test]
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "measures")]
fn a_page_takes_microseconds() {
    let dialects = Dialects::new(&Engines::default());
    let mut scan = Scan::new(dialects.dialect(Some(0)));
    let best = (0..200).map(|_| {
        let begin = Instant::now();
        scan.begin(dialects.dialect(Some(0)));
        scan.feed(std::hint::black_box(PAGE.as_bytes()));
        std::hint::black_box(scan.finish());
        begin.elapsed()
    });
    let best = best.min().unwrap();
    let bound = Duration::from_micros(if cfg!(debug_assertions) { 5_000 } else { 200 });
    println!("{} bytes in {best:?}", PAGE.len());
    assert!(best < bound, "{} bytes in {best:?}", PAGE.len());
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_read_the_same(bytes in prop::collection::vec(any::<u8>(), 0..2000), chunk in 1..200_usize) {
        prop_assert_eq!(read(&bytes.chunks(chunk).collect::<Vec<_>>()), read(&[&bytes]));
    }

    #[test]
    fn any_page_reads_as_by_the_slow_rules(
        lines in prop::collection::vec(
            (0..5_usize, prop::option::of("[a-z]{0,4}"), prop_oneof![
                (0..1000_u32).prop_map(|n| n.to_string()), Just("NaN".to_owned()), Just("-2".to_owned()), "[a-z.]{0,3}",
            ]), 0..12),
        chunk in 1..50_usize,
    ) {
        let names = ["vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "vllm:other"];
        let line = |(name, label, value): &(usize, Option<String>, String)| {
            let labels = label.as_ref().map(|label| format!("{{l=\"{label}\"}}")).unwrap_or_default();
            format!("{}{labels} {value}\n", names[*name])
        };
        let text: String = lines.iter().map(line).collect();
        prop_assert_eq!(read(&text.as_bytes().chunks(chunk).collect::<Vec<_>>()), slow(&text), "{}", text);
    }
}
