//! Several profiles, and what they remember when others are adopted.

use bytes::Bytes;

use super::*;

const PAID: &str = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n\
                    - {type: header-profile-handler, parameters: {headerName: X-Class, defaultProfile: free}}\n\
                    - {name: paid-pods, type: label-selector-filter, parameters: {matchLabels: {class: paid}}}\n\
                    - {name: free-pods, type: by-label, parameters: {label: class, validValues: [free]}}\n\
                    schedulingProfiles:\n- {name: free, plugins: [{pluginRef: free-pods}]}\n\
                    - {name: paid, plugins: [{pluginRef: paid-pods}]}\n- {name: any, plugins: []}\n";

/// Endpoints of these classes.
fn classes(classes: &[&str]) -> Arc<ArcSwap<Snapshot>> {
    let labels: Vec<_> = classes.iter().map(|&class| [("class", class)]).collect();
    let labels: Vec<_> = labels.iter().map(<[_; 1]>::as_slice).collect();
    Arc::new(ArcSwap::from_pointee(fixture::labeled(&labels)))
}

/// The position of the endpoint that a request of this class gets, with a body and without.
fn placed(director: &Director, class: Option<&'static str>) -> [Result<usize, Rejection>; 2] {
    let mut headers = Headers::default();
    if let Some(class) = class {
        headers.take(&director.headers(), b"x-class", &Bytes::from_static(class.as_bytes()));
    }
    let (request, chain, subset) = (&Parsed::default(), &Chain::default(), &Subset::All);
    [false, true].map(|bodyless| {
        let (headers, model, priority) = (&headers, None, 0);
        let ask = Ask { request, chain, headers, bodyless, model, priority, subset };
        director.decide(ask, 0).map(|decision| decision.endpoints[0].id.slot.index())
    })
}

#[test]
fn a_request_runs_the_profile_that_its_header_names() {
    let policy = crate::config::load(Some(PAID), &[PLUGINS]).unwrap().profiles;
    let director = by(policy, &classes(&["free", "paid"]));
    assert_eq!(placed(&director, Some("paid")), [Ok(1), Ok(1)]);
    assert_eq!(placed(&director, Some("free")), [Ok(0), Ok(0)]);
    assert_eq!(placed(&director, None), [Ok(0), Ok(0)]);
    assert_eq!(
        placed(&director, Some("gold")),
        [Err(Rejection::NoProfile), Err(Rejection::NoProfile)]
    );
}

#[test]
fn a_profile_whose_filters_leave_nobody_is_503_though_another_would_have_somebody() {
    let policy = crate::config::load(Some(PAID), &[PLUGINS]).unwrap().profiles;
    let director = by(policy, &classes(&["free"]));
    assert_eq!(
        placed(&director, Some("paid")),
        [Err(Rejection::NoEndpoints), Err(Rejection::NoEndpoints)]
    );
    assert_eq!(placed(&director, Some("any")), [Ok(0), Ok(0)]);
}

#[test]
fn an_empty_pool_is_told_before_a_profile_that_is_not_there() {
    let policy = crate::config::load(Some(PAID), &[PLUGINS]).unwrap().profiles;
    let director = by(policy, &classes(&[]));
    assert_eq!(
        placed(&director, Some("gold")),
        [Err(Rejection::NoEndpoints), Err(Rejection::NoEndpoints)]
    );
}

/// A policy that keeps sessions for so many seconds, under this name of the plugin.
fn sessions(name: &str, seconds: u32) -> Policy {
    let text = format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- {{name: {name}, type: session-affinity-filter, \
         parameters: {{strategy: session_id, sessionIdConfig: {{evictionTtlSeconds: {seconds}}}}}}}\n- type: random-picker\n"
    );
    Policy::new(crate::config::load(Some(&text), &[PLUGINS]).unwrap().profiles, None)
}

/// The endpoints that requests of one session get, one after the other, if they are drawn by dice from this on.
fn of_a_session(director: &Director, first: u64) -> Vec<usize> {
    let mut headers = Headers::default();
    headers.take(&director.headers(), b"x-session-id", &Bytes::from_static(b"chat"));
    let (request, chain, subset) = (&Parsed::default(), &Chain::default(), &Subset::All);
    let place = |dice| {
        let (headers, bodyless, model, priority) = (&headers, false, None, 0);
        let ask = Ask { request, chain, headers, bodyless, model, priority, subset };
        director.decide(ask, dice).unwrap().endpoints[0].id.slot.index()
    };
    let mut places: Vec<_> = (first..first + 20).map(place).collect();
    places.dedup();
    places
}

#[test]
fn sessions_outlive_a_policy_where_the_next_keeps_them_in_the_same_way() {
    let pool = Arc::new(ArcSwap::from_pointee(fixture::snapshot(100)));
    let director = by(random(), &pool);
    director.adopt(sessions("a", 60));
    let place = of_a_session(&director, 0);
    assert_eq!(place.len(), 1);
    director.adopt(sessions("a", 60));
    assert_eq!(of_a_session(&director, 20), place);
    for (name, seconds) in [("a", 61), ("b", 61)] {
        director.adopt(sessions(name, seconds));
        let first = of_a_session(&director, 20);
        assert!(first.len() == 1 && first != place, "it is placed anew");
        assert_eq!(of_a_session(&director, 40), first);
    }
}
