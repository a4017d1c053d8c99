//! Several profiles, and what stands between the gateway and the endpoints.

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
fn placed(director: &Director, class: Option<&'static str>) -> Result<usize, Rejection> {
    let mut headers = Headers::default();
    if let Some(class) = class {
        headers.take(&director.headers(), b"x-class", &Bytes::from_static(class.as_bytes()));
    }
    let (request, chain, subset) = (&Parsed::default(), &Chain::default(), &Subset::All);
    let [with, without] = [false, true].map(|bodyless| {
        let (headers, model, priority) = (&headers, None, 0);
        let ask = Ask { request, chain, headers, bodyless, model, priority, subset };
        director.decide(ask, 0).map(|decision| decision.endpoints[0].id.slot.index())
    });
    assert_eq!(with, without, "a body makes no difference");
    with
}

#[test]
fn a_request_runs_the_profile_that_its_header_names() {
    let policy = crate::config::load(Some(PAID), &[PLUGINS]).unwrap().profiles;
    let director = by(policy, &classes(&["free", "paid"]));
    assert_eq!(placed(&director, Some("paid")), Ok(1));
    assert_eq!(placed(&director, Some("free")), Ok(0));
    assert_eq!(placed(&director, None), Ok(0));
    assert_eq!(placed(&director, Some("gold")), Err(Rejection::NoProfile));
}

#[test]
fn a_profile_whose_filters_leave_nobody_is_503_though_another_would_have_somebody() {
    let policy = crate::config::load(Some(PAID), &[PLUGINS]).unwrap().profiles;
    let director = by(policy, &classes(&["free"]));
    assert_eq!(placed(&director, Some("paid")), Err(Rejection::NoEndpoints));
    assert_eq!(placed(&director, Some("any")), Ok(0));
}

#[test]
fn an_empty_pool_is_told_before_a_profile_that_is_not_there() {
    let policy = crate::config::load(Some(PAID), &[PLUGINS]).unwrap().profiles;
    let director = by(policy, &classes(&[]));
    assert_eq!(placed(&director, Some("gold")), Err(Rejection::NoEndpoints));
}
