//! Whether the certificate of the picker can be used.

use crate::cli::doctor::facts::{Certificate, Facts};
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "certificate", good: "the certificate of the picker can be used", run };

/// Seconds before its end in which a certificate should be renewed.
const SOON: i64 = 7 * 86_400;

fn run(facts: &Facts) -> Outcome {
    let told = match &facts.certificate {
        None => return Err("the picker makes its own: no --cert-path is given"),
        Some(Err(why)) => Some(Finding::problem(
            CHECK,
            format!("--cert-path: {why}"),
            "the picker does not start; one that runs keeps the pair that it has",
            "mount a Secret of the type kubernetes.io/tls there: tls.crt and tls.key, in PEM",
        )),
        Some(Ok(certificate)) => judge(certificate, facts.now),
    };
    Ok(told.into_iter().collect())
}

fn judge(certificate: &Certificate, now: i64) -> Option<Finding> {
    let Certificate { path, valid: (from, until), unusable } = certificate;
    let days = |seconds: i64| seconds / 86_400;
    let renew = "renew it; the picker takes up a changed pair within 10 s";
    let refused = "a gateway that verifies it refuses the connection, and no picker is asked";
    if let Some(why) = unusable {
        let found = format!("the pair in {path} cannot be used: {why}");
        let means = "the picker does not start; one that runs keeps the pair that it has";
        return Some(Finding::problem(CHECK, found, means, "replace tls.crt and tls.key together"));
    }
    if now < *from {
        let found =
            format!("the certificate in {path} is valid only in {} days", days(from - now) + 1);
        return Some(Finding::problem(CHECK, found, refused, renew));
    }
    if now >= *until {
        let found = format!("the certificate in {path} expired {} days ago", days(now - until));
        return Some(Finding::problem(CHECK, found, refused, renew));
    }
    (until - now < SOON).then(|| {
        let found = format!("the certificate in {path} expires in {} days", days(until - now));
        Finding::problem(CHECK, found, format!("then {refused}"), renew)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::fixture::told;

    const DAY: i64 = 86_400;

    fn with(valid: (i64, i64), unusable: Option<&str>) -> Facts {
        let unusable = unusable.map(str::to_owned);
        let certificate = Certificate { path: "/tls".to_owned(), valid, unusable };
        Facts { certificate: Some(Ok(certificate)), now: 100 * DAY, ..Facts::default() }
    }

    #[test]
    fn certificates_are_told_before_during_and_after_their_time() {
        assert_eq!(told(CHECK, &with((0, 200 * DAY), None)), [""; 0]);
        let expired = told(CHECK, &with((0, 90 * DAY), None));
        assert_eq!(expired, ["problem: the certificate in /tls expired 10 days ago"]);
        let soon = told(CHECK, &with((0, 103 * DAY), None));
        assert_eq!(soon, ["problem: the certificate in /tls expires in 3 days"]);
        let early = told(CHECK, &with((101 * DAY, 200 * DAY), None));
        assert_eq!(early, ["problem: the certificate in /tls is valid only in 2 days"]);
        let other = told(CHECK, &with((0, 200 * DAY), Some("the key is another's")));
        assert_eq!(other, ["problem: the pair in /tls cannot be used: the key is another's"]);
    }

    #[test]
    fn files_that_are_not_there_are_told() {
        let certificate = Some(Err("/tls/tls.crt: no such file".to_owned()));
        let facts = Facts { certificate, ..Facts::default() };
        assert_eq!(told(CHECK, &facts), ["problem: --cert-path: /tls/tls.crt: no such file"]);
    }
}
