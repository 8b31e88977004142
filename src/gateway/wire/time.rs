//! What is due when, and what happens then (H13 to H15).

use super::fault::{Fault, Late, Refused};
use super::frames;
use super::limits::{
    BODY_BYTES_PER_SECOND, BODY_MS, GRACE_MS, IDLE_MS, PING_MS, PONG_MS, REASON_BYTES_MAX, STALL_MS,
};
use super::{Event, Incoming, Out, Phase, Pulse, SocketState, Wire};
use crate::base::Millis;

/// The close code of a handshake that does not come (original: a bad handshake).
const HANDSHAKE_CODE: u16 = 1008;

impl Wire {
    /// When [`Wire::poll`] has something to do if nothing happens before, and why.
    #[must_use]
    pub fn due(&self) -> Option<(Millis, Late)> {
        let stall = (!self.out.is_empty()).then(|| (self.moved.plus(STALL_MS), Late::Stall));
        let phase = match &self.phase {
            // While an answer is on its way, nobody is idle.
            Phase::Head(waiting) if waiting.late == Late::Idle && !self.out.is_empty() => None,
            Phase::Head(waiting) => Some((waiting.until, waiting.late)),
            Phase::Body(incoming) => Some((incoming.until(), Late::Body)),
            Phase::Socket(socket) => match socket.state {
                SocketState::Early(until) => Some((until, Late::Handshake)),
                SocketState::Closing(until) => Some((until, Late::Grace)),
                SocketState::Open(Pulse { next, out: None, .. }) => Some((next, Late::Ping)),
                // A sign of life could not be seen while nothing is read.
                SocketState::Open(pulse) if !self.is_full() => {
                    pulse.since.map(|since| (since.plus(PONG_MS), Late::Pong))
                }
                SocketState::Open(_) => None,
            },
            Phase::Leaving(until) => until.map(|until| (until, Late::Grace)),
            Phase::Asked(_) | Phase::Over => None,
        };
        [stall, phase].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Does what is due.
    pub(super) fn expire(&mut self, now: Millis) -> Option<Event> {
        let (_, late) = self.due().filter(|(at, _)| *at <= now)?;
        match late {
            Late::Ping => {
                self.ping(now);
                return None;
            }
            Late::Idle => self.finish(),
            Late::Grace => self.drop_out(),
            Late::Pong => self.drop_out(),
            Late::Stall => {
                let told = matches!(self.phase, Phase::Leaving(_) | Phase::Over);
                self.drop_out();
                if told {
                    return None;
                }
            }
            Late::Head | Late::Body => self.answer_fault(now, &Refused::Slow),
            Late::Handshake if matches!(self.phase, Phase::Head(_)) => self.finish(),
            Late::Handshake => {
                let words = late.to_string();
                self.put(now, &frames::close(Some(HANDSHAKE_CODE), &words, REASON_BYTES_MAX));
                self.leave(Some(now.plus(GRACE_MS)));
            }
        }
        let blamed = !matches!(late, Late::Idle | Late::Grace);
        blamed.then_some(Event::Broken(Fault::Late(late)))
    }

    fn ping(&mut self, now: Millis) {
        self.put(now, &frames::ping());
        let end = self.out.end();
        if let Phase::Socket(socket) = &mut self.phase
            && let SocketState::Open(pulse) = &mut socket.state
        {
            *pulse = Pulse { next: now.plus(PING_MS), out: Some(end), since: None };
        }
    }

    /// Bytes were written; `full`: before that nothing was read.
    pub(super) fn on_written(&mut self, now: Millis, full: bool) {
        let (empty, written, resumed) =
            (self.out.is_empty(), self.out.written(), full && !self.is_full());
        match &mut self.phase {
            Phase::Head(waiting) if waiting.late == Late::Idle && empty => {
                waiting.until = now.plus(IDLE_MS);
            }
            Phase::Leaving(until @ None) if empty => *until = Some(now.plus(GRACE_MS)),
            Phase::Socket(socket) => {
                if let SocketState::Open(pulse) = &mut socket.state
                    && pulse.out.is_some_and(|end| end <= written)
                    && (pulse.since.is_none() || resumed)
                {
                    pulse.since = Some(now);
                }
            }
            _ => {}
        }
    }

    /// The peer takes nothing more: what waits is given up.
    fn drop_out(&mut self) {
        Out::clear(&mut self.out);
        self.finish();
    }
}

impl Incoming {
    /// When the body is late: its bytes buy time.
    fn until(&self) -> Millis {
        let bought = self.body.read().saturating_mul(1_000) / BODY_BYTES_PER_SECOND;
        self.from.plus(BODY_MS).plus(bought)
    }
}
