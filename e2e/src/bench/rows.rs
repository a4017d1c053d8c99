//! What is measured and what it may cost at most: the one table of both.

use anyhow::{Context, Result};

use super::lab::{Lab, Setup};
use super::{Figure, Measured, bodies, compare, idle, micro, start, streams};

/// Prompts of 1 kB, and a hundred events in a burst.
const SHORT: &str = "--events 100";

/// All rows, in the order of the table. A goal names a figure of its row and the most that its median may be.
pub(super) const ROWS: [Row; 16] = [
    Row {
        number: 1,
        title: "1 kB prompts, 100 response events, 16 endpoints",
        goals: &[("real / null", 1.3)],
        work: Work::Compare(16, SHORT, 6_000),
    },
    Row {
        number: 2,
        title: "32 kB prompts, 100 response events, 16 endpoints",
        goals: &[("real / null", 1.3)],
        work: Work::Compare(16, "--events 100 --body-bytes 32000", 4_000),
    },
    Row {
        number: 3,
        title: "400 kB prompts, 64 of them in turn, 16 at a time, 100 endpoints",
        goals: &[("real / null", 1.3)],
        work: Work::Compare(100, "--body-bytes 400000 --prompts 64 --streams 4", 1_000),
    },
    Row {
        number: 4,
        title: "response events 5 ms apart, 128 streams: CPU of an event",
        goals: &[("real / null", 1.2)],
        work: Work::Events,
    },
    Row {
        number: 5,
        title: "500 requests/s, 100 endpoints scraped every 50 ms: last body byte to header reply",
        goals: &[("p99 real", 500.0), ("real / null", 2.0)],
        work: Work::Replies,
    },
    Row {
        number: 6,
        title: "idle, 100 endpoints scraped every 50 ms",
        goals: &[("CPU", 0.3)],
        work: Work::Idle("--refresh-metrics-interval 50ms"),
    },
    Row {
        number: 7,
        title: "idle, 100 endpoints, defaults",
        goals: &[("CPU", 0.03), ("resident memory", 40.0)],
        work: Work::Idle(""),
    },
    Row {
        number: 8,
        title: "a decision after parsing",
        goals: &[("default, 100 endpoints", 5.0), ("eight scorers, 100 endpoints", 5.0)],
        work: Work::Micro("decision", ", 100 endpoints"),
    },
    Row {
        number: 9,
        title: "a decision with the search of a long prompt",
        goals: &[("default, 1,000 endpoints, 10,000 blocks that 100 have in part", 100.0)],
        work: Work::Micro("decision", "1,000 endpoints"),
    },
    Row {
        number: 10,
        title: "a scan of the recorded metrics page",
        goals: &[("vLLM, 50648 bytes", 12.0)],
        work: Work::Micro("exposition", ""),
    },
    Row {
        number: 11,
        title: "10,000 open streams of 1 kB prompts",
        goals: &[("resident memory with all open", 150.0), ("after / before", 1.2)],
        work: Work::Streams,
    },
    Row {
        number: 12,
        title: "200 prompts of 1 MB at once, a budget of 64 MiB for bodies",
        goals: &[("growth of resident memory", 64.0 * 1.1), ("other ends", 0.0)],
        work: Work::Bodies,
    },
    Row {
        number: 13,
        title: "start with 100 endpoints",
        goals: &[("start to ready", 500.0), ("binary", 25.0)],
        work: Work::Start,
    },
    Row {
        number: 14,
        title: "two workers against one, as row 1",
        goals: &[("two workers / one worker", 1.15)],
        work: Work::Workers(SHORT, 6_000),
    },
    Row {
        number: 15,
        title: "our transport against plain tonic and prost, 1 kB prompts, 100 response events",
        goals: &[("null / plain", 0.7)],
        work: Work::Transports(SHORT, 6_000),
    },
    Row { number: 16, title: "other parts by themselves", goals: &[], work: Work::OtherParts },
];

/// One row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) number: u8,
    pub(super) title: &'static str,
    goals: &'static [(&'static str, f64)],
    work: Work,
}

/// How a row is measured.
#[derive(Debug)]
enum Work {
    /// CPU of all servers with so many endpoints, under a load of so many requests.
    Compare(usize, &'static str, usize),
    Events,
    Replies,
    /// With these arguments.
    Idle(&'static str),
    /// The cases of a micro-bench whose names have this in them.
    Micro(&'static str, &'static str),
    Streams,
    Bodies,
    Start,
    Workers(&'static str, usize),
    Transports(&'static str, usize),
    /// What no other row takes of the micro-benches.
    OtherParts,
}

impl Row {
    /// Measures the row.
    pub(super) async fn measure(&self, lab: &Lab) -> Result<Measured> {
        let figures = self.work.figures(lab).await;
        let mut figures = figures.with_context(|| format!("row {}", self.number))?;
        for (name, most) in self.goals {
            let figure = figures.iter_mut().find(|figure| figure.name == *name);
            match figure {
                Some(figure) => figure.goal = Some(*most),
                None => figures.push(Figure::missing(*name, *most)),
            }
        }
        Ok(Measured { number: self.number, title: self.title, figures })
    }

    /// Whether a case of a micro-bench belongs to this row.
    pub(super) fn takes(&self, bench: &str, case: &str) -> bool {
        matches!(self.work, Work::Micro(own, part) if own == bench && case.contains(part))
    }
}

impl Work {
    async fn figures(&self, lab: &Lab) -> Result<Vec<Figure>> {
        match *self {
            Self::Compare(endpoints, load, requests) => {
                compare::all(lab, Setup::real(endpoints), load, requests).await
            }
            Self::Events => idle::events(lab).await,
            Self::Replies => idle::replies(lab).await,
            Self::Idle(args) => idle::idle(lab, args).await,
            Self::Micro(bench, part) => {
                micro::figures(lab, |own, case| own == bench && case.contains(part))
            }
            Self::Streams => streams::open(lab).await,
            Self::Bodies => bodies::at_once(lab).await,
            Self::Start => start::start(lab).await,
            Self::Workers(load, requests) => compare::workers(lab, load, requests).await,
            Self::Transports(load, requests) => compare::transports(lab, load, requests).await,
            Self::OtherParts => {
                micro::figures(lab, |own, case| !ROWS.iter().any(|row| row.takes(own, case)))
            }
        }
    }
}
