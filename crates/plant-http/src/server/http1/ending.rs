//! When the server ends a connection: the client has exceeded a deadline, or the connection is idle in the drain.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::server::http1::state::ConnectionState;

pub(super) struct Ending {
    state: Rc<ConnectionState>,
    /// Ready when the connection is to end as soon as it is idle; `None` after that.
    closed: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// Wakes the connection when the client may be late. The timer is reset only after it fires or when it would fire
    /// too late, so it costs almost nothing for clients that are in time.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Ending {
    /// Once `closed` is ready, the connection ends as soon as it is idle.
    pub(super) fn new(
        state: &Rc<ConnectionState>,
        closed: impl Future<Output = ()> + 'static,
    ) -> Self {
        let state = Rc::clone(state);
        let waiting = Rc::clone(&state);
        let closed = async move {
            closed.await;
            waiting.grace_for_first_bytes().await;
        };
        Self { state, closed: Some(Box::pin(closed)), alarm: None }
    }

    /// Whether the connection is idle and is to end. A busy one asks again when it is idle.
    pub(super) fn is_due(&mut self, context: &mut Context<'_>) -> bool {
        if self.state.is_idle()
            && let Some(closed) = &mut self.closed
            && closed.as_mut().poll(context).is_ready()
        {
            self.closed = None;
        }
        self.closed.is_none() && self.state.is_idle()
    }

    /// Ready when the client has exceeded its deadline.
    pub(super) fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(deadline) = self.state.deadline() {
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if alarm.deadline() > deadline {
                alarm.as_mut().reset(deadline);
            }
            match alarm.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if Instant::now() >= deadline => return Poll::Ready(()),
                Poll::Ready(()) => self.alarm = None,
            }
        }
        Poll::Pending
    }
}
