//! What this process has in flight on an endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counters of one endpoint that requests change themselves.
///
/// They outlive the endpoint's slot: a late completion counts down the endpoint that it was charged to, whoever has
/// the slot by then.
#[derive(Debug, Default)]
pub struct Live {
    requests: AtomicU32,
    prompt_tokens: AtomicU64,
}

impl Live {
    /// Requests placed here whose answer has not ended.
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Estimated prompt tokens of the requests placed here whose answer has not begun.
    pub fn prompt_tokens(&self) -> u64 {
        self.prompt_tokens.load(Ordering::Relaxed)
    }
}

/// Counts one request as in flight on an endpoint until dropped, however the stream ends.
#[derive(Debug)]
pub struct InFlight {
    live: Arc<Live>,
    prompt_tokens: u64,
}

impl InFlight {
    /// Charges `live` with one request and its prompt.
    pub fn begin(live: &Arc<Live>, prompt_tokens: u64) -> Self {
        live.requests.fetch_add(1, Ordering::Relaxed);
        live.prompt_tokens.fetch_add(prompt_tokens, Ordering::Relaxed);
        Self { live: Arc::clone(live), prompt_tokens }
    }

    /// The answer has begun: the prompt is computed and weighs no more. Further calls change nothing.
    pub fn answered(&mut self) {
        self.live
            .prompt_tokens
            .fetch_sub(std::mem::take(&mut self.prompt_tokens), Ordering::Relaxed);
    }

    /// Another endpoint than the chosen one serves the request: the charge moves there.
    pub fn move_to(&mut self, live: &Arc<Live>) {
        *self = Self::begin(live, self.prompt_tokens);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.answered();
        self.live.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(live: &Live) -> (u32, u64) {
        (live.requests(), live.prompt_tokens())
    }

    #[test]
    fn a_request_is_charged_once_and_released_once() {
        let live = Arc::new(Live::default());
        let mut request = InFlight::begin(&live, 100);
        assert_eq!(counts(&live), (1, 100));
        request.answered();
        request.answered();
        assert_eq!(counts(&live), (1, 0));
        drop(request);
        assert_eq!(counts(&live), (0, 0));
    }

    #[test]
    fn the_charge_follows_the_endpoint_that_served() {
        let (chosen, served) = (Arc::new(Live::default()), Arc::new(Live::default()));
        let mut request = InFlight::begin(&chosen, 7);
        request.move_to(&served);
        assert_eq!((counts(&chosen), counts(&served)), ((0, 0), (1, 7)));
        drop(request);
        assert_eq!(counts(&served), (0, 0));
    }
}
