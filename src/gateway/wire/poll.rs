//! Reading: what the bytes that came add up to.

use super::body::Length;
use super::fault::{Fault, Late, Refused};
use super::frames::{self, Got};
use super::head::{self, Head};
use super::limits::{GRACE_MS, HEAD_MS, REASON_BYTES_MAX};
use super::{Asked, Body, Event, Incoming, Method, Phase, Response, SocketState, Wire};
use crate::base::Millis;

/// What one look has brought.
enum Step {
    Event(Event),
    /// Something has changed: look again.
    Again,
    /// Nothing more without bytes, an answer, or time.
    Rest,
}

impl Wire {
    /// The next thing that happened, or nothing until there are bytes, an answer, or time.
    #[must_use]
    pub fn poll(&mut self, now: Millis) -> Option<Event> {
        loop {
            let step = match &mut self.phase {
                Phase::Head(_) => self.read_head(now),
                Phase::Body(_) => self.read_body(now),
                Phase::Asked(asked) if self.ended && !asked.told => {
                    asked.told = true;
                    Step::Event(Event::Ended)
                }
                Phase::Asked(_) | Phase::Over => Step::Rest,
                Phase::Socket(_) => self.read_frames(now),
                Phase::Leaving(_) if self.ended => {
                    self.finish();
                    Step::Again
                }
                Phase::Leaving(_) => Step::Rest,
            };
            match step {
                Step::Event(event) => return Some(event),
                Step::Again => {}
                Step::Rest => return self.expire(now),
            }
        }
    }

    fn read_head(&mut self, now: Millis) -> Step {
        let full = self.is_full();
        let Phase::Head(waiting) = &mut self.phase else { return Step::Rest };
        if full {
            return Step::Rest;
        }
        let bytes = self.inbox.rest();
        match waiting.scan.scan(bytes) {
            Err(refused) => self.refuse(now, refused),
            Ok(Some((start, end))) => {
                let head = head::parse(&bytes[start..end]);
                self.inbox.consume(end);
                match head {
                    Ok(head) => self.begin_request(now, head),
                    Err(refused) => self.refuse(now, refused),
                }
            }
            Ok(None) if self.ended => {
                let cut = !bytes.is_empty();
                self.finish();
                if cut { Step::Event(Event::Broken(Fault::CutOff)) } else { Step::Rest }
            }
            Ok(None) => {
                if waiting.late != Late::Head && !bytes.is_empty() {
                    let until = now.plus(HEAD_MS);
                    let first = waiting.late == Late::Handshake;
                    waiting.until = if first { until.min(waiting.until) } else { until };
                    waiting.late = Late::Head;
                }
                Step::Rest
            }
        }
    }

    fn begin_request(&mut self, now: Millis, head: Head) -> Step {
        let Head { request, length, expects, upgrade } = head;
        if length == Length::Known(0) {
            self.phase = Phase::Asked(Asked::new(&request, upgrade));
            let event = if upgrade { Event::Upgrade(request) } else { Event::Request(request) };
            return Step::Event(event);
        }
        let body = Body::new(length, self.limits.body_bytes);
        if let Err(refused) = body.check() {
            return self.refuse(now, refused);
        }
        let event = Event::Head(request.clone());
        let incoming = Incoming { request, body, from: now, expects, wanted: false };
        self.phase = Phase::Body(Box::new(incoming));
        Step::Event(event)
    }

    fn read_body(&mut self, now: Millis) -> Step {
        let Phase::Body(incoming) = &mut self.phase else { return Step::Rest };
        if !incoming.wanted {
            incoming.wanted = true;
            let (fits, expects) = (incoming.body.check(), incoming.expects);
            if let Err(refused) = fits {
                return self.refuse(now, refused);
            }
            if expects {
                self.put(now, b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            return Step::Again;
        }
        let taken = incoming.body.take(self.inbox.rest());
        let n = match taken {
            Ok(n) => n,
            Err(refused) => return self.refuse(now, refused),
        };
        self.inbox.consume(n);
        if !incoming.body.is_done() {
            if !self.ended {
                return Step::Rest;
            }
            self.finish();
            return Step::Event(Event::Broken(Fault::CutOff));
        }
        let asked = Phase::Asked(Asked::new(&incoming.request, false));
        let Phase::Body(incoming) = std::mem::replace(&mut self.phase, asked) else {
            return Step::Rest;
        };
        let Incoming { mut request, body, .. } = *incoming;
        request.body = body.into_data();
        Step::Event(Event::Request(request))
    }

    /// Lowers what the body may have whose head was the last event.
    pub fn body_max(&mut self, bytes: usize) {
        if let Phase::Body(incoming) = &mut self.phase {
            incoming.body.lower(bytes);
        }
    }

    fn refuse(&mut self, now: Millis, refused: Refused) -> Step {
        self.answer_fault(now, &refused);
        Step::Event(Event::Broken(Fault::Request(refused)))
    }

    /// Answers what no route has seen, and leaves.
    pub(super) fn answer_fault(&mut self, now: Millis, refused: &Refused) {
        let mut response = Response::new(refused.status())
            .header("Content-Type", "text/plain; charset=utf-8")
            .body(format!("{refused}\n").into_bytes());
        if *refused == Refused::UpgradeVersion {
            response = response.header("Sec-WebSocket-Version", "13");
            response = response.header("Upgrade", "websocket");
        }
        self.last_answer(now, &response);
    }

    fn read_frames(&mut self, now: Millis) -> Step {
        let full = self.is_full();
        let Phase::Socket(socket) = &mut self.phase else { return Step::Rest };
        let bytes = self.inbox.rest();
        let closing = matches!(socket.state, SocketState::Closing(_));
        if bytes.is_empty() && self.ended {
            self.finish();
            let cut = Step::Event(Event::Broken(Fault::CutOff));
            return if closing { Step::Rest } else { cut };
        }
        if bytes.is_empty() || full && !closing {
            return Step::Rest;
        }
        if let SocketState::Open(pulse) = &mut socket.state {
            (pulse.out, pulse.since) = (None, None);
        }
        let (n, got) = socket.reader.take(bytes);
        self.inbox.consume(n);
        match got {
            Ok(Some(Got::Close { .. })) | Err(_) if closing => self.finish(),
            Ok(Some(Got::Close { code, reason })) => {
                self.put(now, &frames::close(code, "", 0));
                self.finish();
                return Step::Event(Event::Closed { code, reason });
            }
            Err(wrong) => {
                let words = wrong.to_string();
                self.put(now, &frames::close(Some(wrong.code()), &words, REASON_BYTES_MAX));
                self.leave(Some(now.plus(GRACE_MS)));
                return Step::Event(Event::Broken(Fault::Frame(wrong)));
            }
            Ok(Some(Got::Text(text))) if !closing => return Step::Event(Event::Text(text)),
            Ok(Some(Got::Ping(payload))) if !closing => self.put(now, &frames::pong(&payload)),
            Ok(None | Some(Got::Text(_) | Got::Ping(_) | Got::Pong)) => {}
        }
        Step::Again
    }
}

impl Asked {
    fn new(request: &super::Request, upgrade: bool) -> Asked {
        let key = request.headers.get("sec-websocket-key").filter(|_| upgrade);
        Asked {
            head_only: request.method == Method::Head,
            // Behind an upgrade come no requests, whether it is accepted or not.
            keep_alive: request.keep_alive && !upgrade,
            minor: request.minor,
            key: key.map(Box::from),
            stream: None,
            told: false,
        }
    }
}
