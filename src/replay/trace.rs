//! Files of traces, in any format that is known by its first line.

use std::io::{self, BufRead};
use std::time::Duration;

use crate::replay::azure::Azure;
use crate::replay::recorded::Recorded;
use crate::replay::{Arrival, Workload, mooncake};

/// Longer lines are no request: a prompt of ten million tokens takes about 200 KiB.
const LONGEST_LINE: u64 = 16 << 20;

/// Tokens of a prompt or an answer that may be asked for: more than any model takes, and little enough to hash.
pub const MOST_TOKENS: u64 = 10_000_000;

/// How far the time of a request may be from that of the first line: a replay passes all of it, in steps of milliseconds.
const MOST_DAYS: f64 = 31.0;

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read on.
    #[error("cannot be read")]
    Unreadable(#[from] io::Error),
    /// There is no request in it.
    #[error("no requests")]
    Empty,
    /// A line is not what it should be.
    #[error("line {line}: {problem}")]
    Malformed {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// Reads a trace. The first request arrives at 0, the others as long after it as recorded.
///
/// # Errors
/// When the file cannot be read, has no request, or a line is malformed.
pub fn read(file: impl BufRead) -> Result<Workload, TraceError> {
    let mut lines = Lines { file, number: 0, cut: false };
    let mut arrivals = Vec::<Arrival>::new();
    let Some((number, line)) = lines.next_line()? else { return Err(TraceError::Empty) };
    let malformed = |line| move |problem| TraceError::Malformed { line, problem };
    let mut format = Format::begun_by(&line, &mut arrivals).map_err(malformed(number))?;
    let mut begun = arrivals.first().map(|arrival| arrival.at.as_secs_f64());
    while let Some((number, line)) = lines.next_line()? {
        let at = match format.add(&line, &mut arrivals) {
            Ok(at) => at,
            // A process that was killed ends its recording in the midst of a line.
            Err(_) if lines.cut && matches!(format, Format::Recorded(_)) => break,
            Err(problem) => return Err(malformed(number)(problem)),
        };
        near(*begun.get_or_insert(at), at).map_err(malformed(number))?;
    }
    if let Format::Recorded(recorded) = format {
        arrivals = recorded.arrivals();
    }
    if arrivals.is_empty() {
        return Err(TraceError::Empty);
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    let first = arrivals.first().map_or(Duration::ZERO, |arrival| arrival.at);
    for arrival in &mut arrivals {
        arrival.at = arrival.at.saturating_sub(first);
    }
    Ok(Workload { arrivals })
}

/// A number of tokens that can be replayed.
///
/// # Errors
/// When there are more than 10,000,000; names the field.
pub(super) fn length(field: &str, tokens: u64) -> Result<usize, String> {
    let whole = usize::try_from(tokens).ok().filter(|_| tokens <= MOST_TOKENS);
    whole.ok_or_else(|| format!("{field}: {tokens} tokens, {MOST_TOKENS} at most"))
}

/// Refuses a time that is too far from the first one; both in seconds.
fn near(first: f64, at: f64) -> Result<(), String> {
    let days = (at - first) / 86_400.0;
    if days.abs() <= MOST_DAYS {
        return Ok(());
    }
    let side = if days > 0.0 { "after" } else { "before" };
    let days = days.abs();
    Err(format!("its time is {days:.1} days {side} that of the first request, {MOST_DAYS} at most"))
}

/// How lines are to be read.
enum Format {
    Mooncake,
    Azure(Azure),
    Recorded(Recorded),
}

impl Format {
    /// The format of a file with this first line; that may be a request already.
    fn begun_by(line: &str, arrivals: &mut Vec<Arrival>) -> Result<Self, String> {
        if let Some(azure) = Azure::headed(line) {
            return Ok(Self::Azure(azure));
        }
        if let Some(recorded) = Recorded::begun_by(line)? {
            return Ok(Self::Recorded(recorded));
        }
        if line.starts_with('{') {
            arrivals.push(mooncake::arrival(line)?);
            return Ok(Self::Mooncake);
        }
        Err("neither a recording, nor Mooncake's JSON lines, nor the heading of Azure's CSV".into())
    }

    /// Adds a request; when it came, in seconds since what the format counts from.
    fn add(&mut self, line: &str, arrivals: &mut Vec<Arrival>) -> Result<f64, String> {
        let arrival = match self {
            Self::Mooncake => mooncake::arrival(line)?,
            Self::Azure(azure) => azure.arrival(line)?,
            Self::Recorded(recorded) => return recorded.add(line),
        };
        let at = arrival.at.as_secs_f64();
        arrivals.push(arrival);
        Ok(at)
    }
}

/// The lines of a file that are not blank, with their numbers.
struct Lines<R> {
    file: R,
    number: usize,
    /// The newest line has no end.
    cut: bool,
}

impl<R: BufRead> Lines<R> {
    fn next_line(&mut self) -> Result<Option<(usize, String)>, TraceError> {
        loop {
            let mut line = String::new();
            self.number += 1;
            let malformed = |problem: &str| {
                let problem = problem.to_owned();
                TraceError::Malformed { line: self.number, problem }
            };
            let read = io::Read::take(&mut self.file, LONGEST_LINE).read_line(&mut line);
            let unread = |error: &io::Error| error.kind() != io::ErrorKind::InvalidData;
            let failed = |error| if unread(&error) { error.into() } else { malformed("not UTF-8") };
            let read = read.map_err(failed)?;
            if read as u64 == LONGEST_LINE {
                return Err(malformed("longer than 16 MiB"));
            }
            if read == 0 {
                return Ok(None);
            }
            self.cut = !line.ends_with('\n');
            if !line.trim().is_empty() {
                return Ok(Some((self.number, line.trim().to_owned())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOONCAKE: &str = concat!(
        "{\"timestamp\": 2000, \"input_length\": 10, \"output_length\": 1, \"hash_ids\": [1]}\n",
        "\n",
        "{\"timestamp\": 500, \"input_length\": 20, \"output_length\": 2, \"hash_ids\": [2]}\n",
    );

    #[test]
    fn requests_are_sorted_and_the_first_arrives_at_zero() {
        let workload = read(MOONCAKE.as_bytes()).unwrap();
        let of = |arrival: &Arrival| (arrival.at.as_millis(), arrival.prompt_tokens);
        assert_eq!(workload.arrivals.iter().map(of).collect::<Vec<_>>(), [(0, 20), (1_500, 10)]);
    }

    #[test]
    fn a_recording_that_was_cut_off_is_replayed_up_to_there_and_any_other_mistake_is_told() {
        let head = "{\"lodesman_trace\":1,\"block_tokens\":64,\"block_limit\":2048,\"started\":\"2026-01-01T00:00:00Z\"}\n";
        let line = "{\"at_ms\":1,\"prompt_tokens\":9,\"output_tokens\":1,\"model\":\"m\",\"adapter\":false,\"outcome\":\"ok\",\"blocks\":\"\"}\n";
        let half = "{\"at_ms\":1,\"prom";
        let requests = |text: String| read(text.as_bytes()).map(|it| it.arrivals.len());
        assert_eq!(requests(format!("{head}{line}{half}")).unwrap(), 1);
        let error = requests(format!("{head}{line}{half}\n{line}")).unwrap_err();
        assert!(error.to_string().starts_with("line 3"), "{error}");
        assert!(requests(format!("{MOONCAKE}{{\"timestamp\": 5")).is_err(), "no recording");
    }

    #[test]
    fn a_time_far_from_the_first_is_refused_with_its_line_in_every_format() {
        let mooncake = |ms: &str| MOONCAKE.lines().next().unwrap().replace("2000", ms);
        let azure = |date: &str| format!("{date} 18:17:03,1,1");
        let recorded = |ms: &str| {
            format!(
                "{{\"at_ms\":{ms},\"prompt_tokens\":9,\"output_tokens\":1,\"adapter\":false,\"outcome\":\"ok\",\"blocks\":\"\"}}"
            )
        };
        let csv = "TIMESTAMP,ContextTokens,GeneratedTokens";
        let head = "{\"lodesman_trace\":1,\"block_tokens\":64,\"block_limit\":2048,\"started\":\"2026-01-01T00:00:00Z\"}";
        let far = "after that of the first request, 31 at most";
        for (lines, says) in [
            (["", &mooncake("0"), &mooncake("9000000000000000000")], far),
            (["", &mooncake("9000000000000000000"), &mooncake("0")], "days before that of"),
            ([csv, &azure("2023-11-16"), &azure("2023-12-18")], "is 32.0 days after"),
            ([head, &recorded("-5"), &recorded("1e300")], far),
        ] {
            let error = read(lines.join("\n").as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("line 3: ") && error.contains(says), "{error}");
        }
        let month = [csv, &azure("2023-11-16"), &azure("2023-12-17")].join("\n");
        assert_eq!(read(month.as_bytes()).unwrap().arrivals.len(), 2);
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let error = read(format!("{MOONCAKE}{{}}\n").as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("line 4: missing field"), "{error}");
        let error = read("time,tokens\n".as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("line 1: neither a recording"));
        let endless = format!(
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,{},1\n",
            10_000_001
        );
        let error = read(endless.as_bytes()).unwrap_err();
        let expected = "line 2: ContextTokens: 10000001 tokens, 10000000 at most";
        assert_eq!(error.to_string(), expected);
        assert_eq!(read("\n".as_bytes()).unwrap_err().to_string(), "no requests");
        let error = read(&b"\n\xff\n"[..]).unwrap_err();
        assert_eq!(error.to_string(), "line 2: not UTF-8");
    }
}
