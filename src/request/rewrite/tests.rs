//! Splices in detail; that nothing else changes is a property test of the scan.

use super::{super::*, *};

fn rewritten(body: &str, cut: usize, name: &str) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let mut pieces = vec![body.slice(..cut), body.slice(cut..)];
    let mut scan = Scan::new(Some(Api::ModelOnly));
    for piece in &pieces {
        scan.feed(piece, &mut |_| ());
    }
    let parsed = scan.finish().unwrap();
    pieces.insert(1, Bytes::new());
    let (out, length) = rewrite(&pieces, &parsed, name);
    assert_eq!(length, out.iter().map(Bytes::len).sum::<usize>());
    String::from_utf8(out.concat()).unwrap()
}

#[test]
fn every_model_is_replaced_wherever_the_body_is_cut() {
    let body = r#" {"seed":18446744073709551615, "model" : "old","n":{"model":"in"},"model":5 , "z":"\u00e9"} "#;
    let new = r#" {"seed":18446744073709551615, "model" : "n\"w","n":{"model":"in"},"model":"n\"w" , "z":"\u00e9"} "#;
    for cut in 0..=body.len() {
        assert_eq!(rewritten(body, cut, "n\"w"), new, "{cut}");
    }
}

#[test]
fn missing_model_is_inserted() {
    assert_eq!(rewritten(r#"{"a":1}"#, 1, "m"), r#"{"model":"m","a":1}"#);
    assert_eq!(rewritten("{ \n}", 2, "m"), "{\"model\":\"m\" \n}");
}

#[test]
fn opaque_body_is_given_back() {
    assert_eq!(rewritten("no JSON", 3, "m"), "no JSON");
}

#[test]
fn unchanged_bytes_stay_where_they_are() {
    let body = Bytes::from_static(br#"{"model":"m","prompt":"a long one"}"#);
    let mut scan = Scan::new(Some(Api::Completions));
    scan.feed(&body, &mut |_| ());
    let (out, _) = rewrite(slice::from_ref(&body), &scan.finish().unwrap(), "new");
    assert_eq!(out.len(), 3);
    assert_eq!(out[2].as_ptr(), body[12..].as_ptr());
}
