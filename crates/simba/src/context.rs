//! Who is running: user code that the library has started knows by a task-local which client it runs for, so that
//! it does not wait for itself.

use std::{future::Future, panic::AssertUnwindSafe, pin::pin, sync::Arc, task::Poll};

tokio::task_local! {
    static INSIDE: Arc<Inside>;
}

struct Inside {
    client: u64,
    outer: Option<Arc<Self>>,
}

fn inner(client: u64) -> Arc<Inside> {
    Arc::new(Inside { client, outer: INSIDE.try_with(Arc::clone).ok() })
}

/// Whether the caller is a callback or leader work of this client.
pub(crate) fn is_inside(client: u64) -> bool {
    INSIDE
        .try_with(|inside| {
            let mut at = Some(inside);
            while let Some(inside) = at {
                if inside.client == client {
                    return true;
                }
                at = inside.outer.as_ref();
            }
            false
        })
        .unwrap_or(false)
}

/// Runs a future of the user's as part of this client.
pub(crate) fn within<F: Future>(client: u64, future: F) -> impl Future<Output = F::Output> {
    INSIDE.scope(inner(client), future)
}

/// Runs a function of the user's as part of this client.
pub(crate) fn within_sync<T>(client: u64, function: impl FnOnce() -> T) -> T {
    INSIDE.sync_scope(inner(client), function)
}

/// What a panic carried.
pub(crate) type Panic = Box<dyn std::any::Any + Send>;

/// A panic as text.
pub(crate) fn panic_text(panic: &Panic) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

/// A future of which a panic becomes an error.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Panic> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        // After a panic the future is not polled again, only dropped.
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

/// A function of which a panic becomes an error.
pub(crate) fn caught_sync<T>(function: impl FnOnce() -> T) -> Result<T, Panic> {
    std::panic::catch_unwind(AssertUnwindSafe(function))
}
