//! The queue, in time that is made.

use std::task::{Context, Waker};

use super::*;
use crate::server::clock;

const LIMITS: Limits =
    Limits { max_wait: Duration::from_mins(1), max_requests: 100, max_bytes: 1_000 };

const SECOND: Duration = Duration::from_secs(1);

fn gone(tickets: &mut [Ticket]) -> Vec<usize> {
    let mut cx = Context::from_waker(Waker::noop());
    let gone =
        tickets.iter_mut().enumerate().filter(|(_, ticket)| !ticket.released.is_terminated());
    gone.filter_map(|(at, ticket)| ticket.poll(&mut cx).is_ready().then_some(at)).collect()
}

fn hold(flow: &Arc<Flow>, count: usize, now: Instant) -> Vec<Ticket> {
    (0..count).map(|_| flow.hold(&LIMITS, 1, now).unwrap()).collect()
}

#[test]
fn the_first_go_first_and_twice_as_many_with_each_half_second() {
    let (flow, start) = (Arc::new(Flow::default()), clock::now());
    let mut tickets = hold(&flow, 50, start);
    assert_eq!(flow.release(0, start), 50);
    assert_eq!(gone(&mut tickets), [0; 0]);
    let ready = start + SECOND * 5;
    assert_eq!(flow.release(1, ready), 46);
    assert_eq!(gone(&mut tickets), [0, 1, 2, 3]);
    assert_eq!(flow.release(1, ready), 46, "not twice");
    assert_eq!(flow.release(1, ready + DOUBLING), 42);
    assert_eq!(flow.release(2, ready + DOUBLING), 34, "a second endpoint");
    assert_eq!(gone(&mut tickets), (4..16).collect::<Vec<_>>());
    assert_eq!(flow.release(2, ready + DOUBLING * 4), 0);
    assert_eq!(flow.counts().held, 0);
}

#[test]
fn the_ramp_begins_anew_when_the_endpoints_were_gone() {
    let (flow, start) = (Arc::new(Flow::default()), clock::now());
    let _tickets = hold(&flow, 50, start);
    assert_eq!(flow.release(1, start), 46);
    assert_eq!(flow.release(0, start + SECOND), 46);
    assert_eq!(flow.release(1, start + SECOND * 60), 42);
}

// FR-084
#[test]
fn who_goes_away_leaves_no_gap() {
    let (flow, start) = (Arc::new(Flow::default()), clock::now());
    let mut tickets = hold(&flow, 8, start);
    drop(tickets.remove(1));
    assert_eq!(flow.counts().held, 7);
    assert_eq!(flow.release(1, start), 3);
    assert_eq!(gone(&mut tickets), [0, 1, 2, 3]);
    drop(tickets);
    assert_eq!(flow.counts().held, 0);
    assert!(flow.hold(&LIMITS, 1_000, start).is_ok(), "all bytes were given back");
}

// FR-074
#[test]
fn requests_bytes_and_growing_bodies_are_limited() {
    let (flow, start) = (Arc::new(Flow::default()), clock::now());
    let most = hold(&flow, 100, start);
    assert_eq!(flow.hold(&LIMITS, 0, start).unwrap_err(), Unheld::Full);
    drop(most);
    let large = flow.hold(&LIMITS, 600, start).unwrap();
    assert_eq!(flow.hold(&LIMITS, 401, start).unwrap_err(), Unheld::Full);
    assert!(large.grow(&LIMITS, 300) && !large.grow(&LIMITS, 101));
    assert_eq!(flow.hold(&LIMITS, 101, start).unwrap_err(), Unheld::Full);
    assert!(flow.hold(&LIMITS, 100, start).is_ok());
}

#[test]
fn who_comes_back_has_its_old_place() {
    let (flow, start) = (Arc::new(Flow::default()), clock::now());
    let mut tickets = hold(&flow, 6, start);
    flow.release(1, start);
    let place = tickets[0].place();
    drop(tickets.remove(0));
    tickets.insert(0, flow.hold_again(place, 1));
    assert_eq!(flow.release(0, start), 3);
    let all = flow.release(2, start + SECOND);
    assert_eq!((all, gone(&mut tickets).first()), (0, Some(&0)));
}

#[test]
fn nobody_is_held_any_more_once_it_is_closed() {
    let (flow, start) = (Arc::new(Flow::default()), clock::now());
    let mut tickets = hold(&flow, 3, start);
    flow.close();
    assert_eq!((gone(&mut tickets), flow.counts().held), (vec![0, 1, 2], 0));
    let place = tickets[0].place();
    let late = [flow.hold(&LIMITS, 1, start).unwrap(), flow.hold_again(place, 1)];
    assert_eq!(gone(&mut Vec::from(late)), [0, 1]);
    assert!(flow.closed() && flow.counts().held == 0);
}

#[test]
fn a_start_that_takes_too_long_is_known_the_next_time() {
    let (flow, start) = (Arc::new(Flow::default()), clock::now());
    assert_eq!(flow.retry_after(start), RETRY);
    drop(hold(&flow, 1, start));
    assert_eq!(flow.retry_after(start + SECOND), RETRY, "nothing was learnt of who went away");
    let tickets = hold(&flow, 1, start);
    flow.release(1, start + SECOND * 90);
    drop(tickets);
    let later = start + SECOND * 900;
    assert_eq!(flow.hold(&LIMITS, 1, later).unwrap_err(), Unheld::TooLong);
    assert_eq!(flow.retry_after(later), SECOND * 90);
    let patient = Limits { max_wait: SECOND * 100, ..LIMITS };
    let _first = flow.hold(&patient, 1, later).unwrap();
    assert!(flow.hold(&LIMITS, 1, later + SECOND * 40).is_ok(), "fifty seconds are left");
    assert_eq!(flow.retry_after(later + SECOND * 200), SOONEST);
}
