//! A scan of a recorded metrics page of vLLM.

use lodesman::config::Engines;
use lodesman::scrape::Dialects;
use lodesman::scrape::exposition::Scan;

use crate::measure::Bench;

const PAGES: [(&str, &str); 2] = [
    ("vLLM", include_str!("../../tests/data/vllm-metrics.txt")),
    ("vLLM with adapters", include_str!("../../tests/data/vllm-metrics-lora.txt")),
];

pub(crate) fn run(bench: &mut Bench) {
    let dialects = Dialects::new(&Engines::default());
    let dialect = dialects.dialect(Some(0));
    for (engine, page) in PAGES {
        let mut scan = Scan::new(dialect);
        bench.case(&format!("{engine}, {} bytes", page.len()), || {
            scan.begin(dialect);
            scan.feed(page.as_bytes());
            scan.finish().unwrap()
        });
    }
}
