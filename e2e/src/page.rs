//! Reads a page of metrics.

/// The sum of all samples of `name` over their labels; 0 without one.
pub(crate) fn sum(page: &str, name: &str) -> f64 {
    let samples = page.lines().filter_map(|line| line.strip_prefix(name));
    let samples = samples.filter(|rest| rest.starts_with(['{', ' ']));
    samples.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_and_longer_names_left_out() {
        let page = "# TYPE vllm:num_requests_running gauge\n\
            vllm:num_requests_running{engine=\"0\",model_name=\"a b\"} 3.0\n\
            vllm:num_requests_running{engine=\"1\",model_name=\"a b\"} 1.0\n\
            vllm:num_requests_waiting 2\n\
            vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 9.0\n";
        assert_eq!(sum(page, "vllm:num_requests_running").to_string(), "4");
        assert_eq!(sum(page, "vllm:num_requests_waiting").to_string(), "2");
        assert!(sum(page, "vllm:num_requests").abs() < f64::EPSILON);
    }
}
