//! What an answer of the API server says when it is not the one that was asked for.

use std::error::Error;

/// The HTTP status of the answer; none when there was none.
pub(super) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// The API server's words, or the chain of causes.
pub(super) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        error => {
            let causes =
                std::iter::successors(error.source(), |cause: &&dyn Error| (*cause).source());
            causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
        }
    }
}
