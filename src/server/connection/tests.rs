use std::future::{pending, poll_fn};
use std::sync::atomic::AtomicUsize;

use super::*;

/// A connection that does in its turns what it is told to.
struct Scripted<F>(F);

impl<F: FnMut(&mut Context<'_>) -> Poll<()> + Unpin> Future for Scripted<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        (self.0)(cx)
    }
}

impl<F: FnMut(&mut Context<'_>) -> Poll<()> + Unpin> Connection for Scripted<F> {
    fn close(self: Pin<&mut Self>) {}
}

/// Counts how often a task was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Polls a driver once; how often the connection had its turn, and how often the task was woken meanwhile.
fn poll<C: Connection>(driver: &mut Driver<C>) -> (Poll<()>, Arc<Woken>) {
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    (Pin::new(driver).poll(&mut Context::from_waker(&waker)), woken)
}

fn driver<F: FnMut(&mut Context<'_>) -> Poll<()> + Unpin>(
    streams: &Streams,
    turn: F,
) -> Driver<Scripted<F>> {
    Driver::new(Scripted(turn), streams.clone(), CancellationToken::new())
}

#[test]
fn a_reply_leaves_in_the_turn_after_it_was_made_and_nobody_is_woken_for_that() {
    let (streams, turns) = (Streams::default(), Arc::new(AtomicUsize::new(0)));
    let (counted, opened) = (Arc::clone(&turns), streams.clone());
    let mut driver = driver(&streams, move |cx| {
        counted.fetch_add(1, Ordering::SeqCst);
        let connection = cx.waker().clone();
        if counted.load(Ordering::SeqCst) == 1 {
            // as HTTP/2 does when a stream has something to send
            opened.execute(async move { connection.wake() });
        }
        Poll::Pending
    });
    let (polled, woken) = poll(&mut driver);
    assert!(polled.is_pending());
    assert_eq!((turns.load(Ordering::SeqCst), woken.times()), (2, 0));
}

#[test]
fn a_wake_while_the_task_rests_wakes_it() {
    let streams = Streams::default();
    let wakers = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&wakers);
    let mut driver = driver(&streams, move |cx| {
        kept.lock().push(cx.waker().clone());
        Poll::Pending
    });
    let (_, woken) = poll(&mut driver);
    assert_eq!(woken.times(), 0);
    wakers.lock().pop().unwrap().wake();
    assert_eq!(woken.times(), 1);
}

#[test]
fn a_connection_that_never_rests_lets_others_have_their_turn() {
    let streams = Streams::default();
    let mut driver = driver(&streams, |cx| {
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    let (polled, woken) = poll(&mut driver);
    assert!(polled.is_pending());
    assert_eq!(woken.times(), 1, "it goes on later");
}

#[test]
fn a_panic_ends_its_stream_alone() {
    let (streams, ended) = (Streams::default(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&ended);
    streams.execute(async { panic!("a fault of ours") });
    streams.execute(async move {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    streams.execute(pending::<()>());
    let mut driver = driver(&streams, |_| Poll::Pending);
    assert!(poll(&mut driver).0.is_pending());
    assert_eq!((ended.load(Ordering::SeqCst), driver.open.len()), (1, 1));
}

#[test]
fn the_end_of_a_connection_ends_its_streams() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (streams, dropped) = (Streams::default(), Arc::new(AtomicUsize::new(0)));
    let guard = Dropped(Arc::clone(&dropped));
    streams.execute(async move {
        let _guard = guard;
        pending::<()>().await;
    });
    let mut driver = driver(&streams, |_| Poll::Ready(()));
    assert!(poll(&mut driver).0.is_ready());
    drop(driver);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_stream_woken_by_a_timer_goes_on() {
    let streams = Streams::default();
    let done = CancellationToken::new();
    let told = done.clone();
    streams.execute(async move {
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        told.cancel();
    });
    let mut driver = driver(&streams, |_| Poll::Pending);
    let finished = poll_fn(|cx| {
        let _pending = Pin::new(&mut driver).poll(cx);
        if done.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::time::timeout(std::time::Duration::from_secs(10), finished).await.unwrap();
}
