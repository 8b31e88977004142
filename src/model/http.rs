//! The HTTP worker (spec/model.md M14 to M18): the only file that names `ureq`.
//!
//! ```text
//! pool --lend--> agent --request--> answer --16 KiB reads--> decoder --> events --> End
//!   ^                                                                      |
//!   +------------------ unless the call was stopped -----------------------+
//! ```
//!
//! One agent serves one call at a time, because an agent's `shutdown` ends all its requests. A
//! stopped agent is thrown away; the others keep their connections for the next call. `HTTP_PROXY`
//! and its kin are honoured, as `ureq` does by default.

use super::call::{CallHandle, ModelEvent};
use super::wire::openai::{Decoder, Ended, Meta, Progress};
use super::wire::{Delta, End, errors, excerpt};
use crate::base::{FailKind, Failure, Millis};
use crate::config::Secret;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use ureq::Agent;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport as net;

/// Resolving a name, and connecting, TLS included, take at most this long each.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// The engine has the clocks; this one only frees a thread that everybody forgot.
const SILENCE_MAX: Duration = Duration::from_secs(15 * 60);
/// How long the tail behind the last word of a stream is waited for, to reuse the connection.
const TAIL_MAX: Duration = Duration::from_millis(50);
/// Most bytes of that tail.
const TAIL_BYTES_MAX: usize = 4_096;
/// Most bytes of an error's body.
const ERROR_BYTES_MAX: u64 = 64 * 1024;
/// Bytes taken in one read.
const READ_BYTES: usize = 16 * 1024;
/// Idle agents that are kept; each holds at most one connection a host.
const IDLE_MAX: usize = 16;

/// One request to a model.
#[derive(Clone, Debug, Default)]
pub struct HttpCall {
    /// Where: the full address of the completions endpoint.
    pub url: String,
    /// Sent as `authorization: Bearer …`.
    pub api_key: Option<Secret>,
    /// More headers; they may hold credentials too.
    pub headers: Vec<(String, Secret)>,
    /// The encoded request.
    pub body: Vec<u8>,
    /// The provider's id, for the message.
    pub provider: String,
    /// The model's id, for the message.
    pub model: String,
}

/// The agents that are lent to calls.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Mutex<Vec<Lent>>,
}

/// An agent and the flag that makes its reads impatient.
#[derive(Debug)]
struct Lent {
    agent: Agent,
    hurry: Arc<AtomicBool>,
    /// The address it served last: it may hold a connection there.
    url: String,
}

impl Pool {
    /// An empty pool. Agents are made when they are needed.
    #[must_use]
    pub fn new() -> Pool {
        Pool::default()
    }

    /// Sends the request and reports the reply; returns when the call is over. `clock` gives the
    /// time that the reply is stamped with.
    pub fn call(
        &self,
        job: &HttpCall,
        handle: &CallHandle,
        clock: &dyn Fn() -> Millis,
        sink: &mut dyn FnMut(ModelEvent),
    ) {
        let meta = Meta { provider: job.provider.clone(), model: job.model.clone() };
        let decoder = Decoder::new(meta);
        let lent = self.take(&job.url);
        let agent = lent.agent.clone();
        if !handle.arm(Box::new(move || agent.shutdown())) {
            let why = Ended::Aborted(handle.aborted().unwrap_or_default());
            let end = decoder.finish(why, clock(), &mut Vec::new());
            return sink(ModelEvent::End(Box::new(end)));
        }
        let tail = run(&lent, job, decoder, handle, clock, sink);
        if let Some(mut tail) = tail {
            lent.hurry.store(true, Ordering::Relaxed);
            drain(&mut tail);
        }
        if handle.disarm() {
            self.put(lent);
        }
    }

    fn take(&self, url: &str) -> Lent {
        let known = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            match idle.iter().rposition(|lent| lent.url == url) {
                Some(at) => Some(idle.swap_remove(at)),
                None => idle.pop(),
            }
        };
        let mut lent = known.unwrap_or_else(Lent::new);
        url.clone_into(&mut lent.url);
        lent.hurry.store(false, Ordering::Relaxed);
        lent
    }

    fn put(&self, lent: Lent) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(lent);
        }
    }
}

impl Lent {
    fn new() -> Lent {
        let hurry = Arc::new(AtomicBool::new(false));
        // The TLS configuration is made with the first https request of an agent, not here.
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .no_delay(true)
            .user_agent(concat!("stepclaw/", env!("CARGO_PKG_VERSION")))
            .accept("text/event-stream, application/json")
            .input_buffer_size(READ_BYTES)
            .output_buffer_size(READ_BYTES)
            .max_idle_connections(2)
            .max_idle_connections_per_host(1)
            .max_idle_age(Duration::from_secs(30))
            .timeout_resolve(Some(CONNECT_MAX))
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_per_read(Some(SILENCE_MAX))
            .timeout_per_write(Some(SILENCE_MAX))
            .build();
        let connector = Patience { inner: net::DefaultConnector::default(), hurry: hurry.clone() };
        let agent = Agent::with_parts(config, connector, Addresses::default());
        Lent { agent, hurry, url: String::new() }
    }
}

/// Hosts that are addresses are taken as they are: the library's resolver would start a thread for
/// them, to be able to give up in time.
#[derive(Debug, Default)]
struct Addresses(DefaultResolver);

impl Resolver for Addresses {
    fn resolve(
        &self,
        uri: &ureq::http::Uri,
        config: &ureq::config::Config,
        timeout: net::NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port =
            uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        match host.parse::<std::net::IpAddr>() {
            Ok(ip) => {
                let mut one = self.empty();
                one.push(std::net::SocketAddr::new(ip, port));
                Ok(one)
            }
            Err(_) => self.0.resolve(uri, config, timeout),
        }
    }
}

/// One call from request to end. Gives back the rest of the answer where it is worth reading to
/// its end, so that the connection can serve again.
fn run(
    lent: &Lent,
    job: &HttpCall,
    decoder: Decoder,
    handle: &CallHandle,
    clock: &dyn Fn() -> Millis,
    sink: &mut dyn FnMut(ModelEvent),
) -> Option<ureq::BodyReader<'static>> {
    let mut request = lent.agent.post(&job.url).header("content-type", "application/json");
    for (name, value) in &job.headers {
        request = request.header(name.as_str(), value.expose());
    }
    if let Some(key) = &job.api_key {
        request = request.header("authorization", format!("Bearer {}", key.expose()));
    }
    let answer = match request.send(&job.body[..]) {
        Ok(answer) => answer,
        Err(error) => {
            let end = fail(decoder, hide(failure_of(&error), job), handle, clock());
            sink(ModelEvent::End(Box::new(end)));
            return None;
        }
    };
    let status = answer.status().as_u16();
    if !answer.status().is_success() {
        let now = clock();
        let failure = refusal(status, answer, now);
        sink(ModelEvent::End(Box::new(fail(decoder, hide(failure, job), handle, now))));
        return None;
    }
    let mut reader = answer.into_body().into_reader();
    let (end, complete) = stream(&mut reader, decoder, handle, clock, sink);
    let end = match end {
        End::Failed(failure, mut message) => {
            let failure = hide(failure, job);
            message.error_message = Some(failure.message.clone());
            End::Failed(failure, message)
        }
        done @ End::Done(_) => done,
    };
    sink(ModelEvent::End(Box::new(end)));
    complete.then_some(reader)
}

/// Reads the answer until the reply is decided. The flag says that bytes may be left.
fn stream(
    reader: &mut dyn Read,
    mut decoder: Decoder,
    handle: &CallHandle,
    clock: &dyn Fn() -> Millis,
    sink: &mut dyn FnMut(ModelEvent),
) -> (End, bool) {
    let mut buffer = vec![0; READ_BYTES];
    let mut deltas = Vec::new();
    let (why, complete) = loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => break (Ended::Closed, false),
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let text = format!("The connection broke while the model was answering: {error}");
                break (Ended::Cut(text), false);
            }
        };
        let progress = decoder.feed(&buffer[..count], &mut deltas);
        if deltas.is_empty() {
            sink(ModelEvent::Alive);
        }
        report(&mut deltas, sink);
        if progress == Progress::Complete {
            break (Ended::Closed, true);
        }
    };
    // A cut socket reads as an end or as an error; the handle knows which of them was our doing.
    let why = handle.aborted().map_or(why, Ended::Aborted);
    let end = decoder.finish(why, clock(), &mut deltas);
    report(&mut deltas, sink);
    (end, complete)
}

fn report(deltas: &mut Vec<Delta>, sink: &mut dyn FnMut(ModelEvent)) {
    deltas.drain(..).for_each(|delta| sink(ModelEvent::Delta(delta)));
}

/// Reads the few bytes behind the last word; gives up when they do not come soon.
fn drain(tail: &mut dyn Read) {
    let mut buffer = [0; 512];
    let mut total = 0;
    while let Ok(count) = tail.read(&mut buffer) {
        total += count;
        if count == 0 || total > TAIL_BYTES_MAX {
            return;
        }
    }
}

/// The end of a call that failed outside of its reply, or was stopped there.
fn fail(decoder: Decoder, failure: Failure, handle: &CallHandle, now: Millis) -> End {
    match handle.aborted() {
        Some(reason) => decoder.finish(Ended::Aborted(reason), now, &mut Vec::new()),
        None => decoder.fail(failure, now),
    }
}

/// The failure that an answer with an error status stands for.
fn refusal(status: u16, answer: ureq::http::Response<ureq::Body>, now: Millis) -> Failure {
    let header = |name: &str| {
        let value = answer.headers().get(name).and_then(|v| v.to_str().ok());
        value.map(str::to_owned)
    };
    let (after, after_ms) = (header("retry-after"), header("retry-after-ms"));
    let mut body = Vec::new();
    // What cannot be read of an error's text is not worth a second error.
    let _ = answer.into_body().into_reader().take(ERROR_BYTES_MAX).read_to_end(&mut body);
    let hints = errors::RetryHints { after: after.as_deref(), after_ms: after_ms.as_deref() };
    errors::from_answer(status, hints, &body, now)
}

/// The failure that an error of the transport stands for.
fn failure_of(error: &ureq::Error) -> Failure {
    let text = error.to_string();
    let kind = match error {
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => FailKind::Tls,
        ureq::Error::Io(_) if text.contains("certificate") => FailKind::Tls,
        ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => {
            FailKind::Format
        }
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            FailKind::MalformedResponse
        }
        _ => FailKind::Network,
    };
    Failure::new(kind, format!("The model could not be reached: {}", excerpt(&text, 500)))
}

/// Takes the credentials of the call out of a text that the other side wrote.
fn hide(mut failure: Failure, job: &HttpCall) -> Failure {
    let headers = job.headers.iter().map(|(_, value)| value);
    for secret in job.api_key.iter().chain(headers) {
        let secret = secret.expose();
        if secret.len() >= 6 && failure.message.contains(secret) {
            failure.message = failure.message.replace(secret, "[redacted]");
        }
    }
    failure
}

/// Wraps the default connector so that reads can be made impatient while they run: the time
/// limits of a request are fixed when it starts, but the tail of a finished reply must not hold
/// its worker.
#[derive(Debug)]
struct Patience {
    inner: net::DefaultConnector,
    hurry: Arc<AtomicBool>,
}

impl net::Connector<()> for Patience {
    type Out = Impatient;

    fn connect(
        &self,
        details: &net::ConnectionDetails<'_>,
        chained: Option<()>,
    ) -> Result<Option<Impatient>, ureq::Error> {
        let inner = self.inner.connect(details, chained)?;
        Ok(inner.map(|inner| Impatient { inner, hurry: self.hurry.clone() }))
    }
}

#[derive(Debug)]
struct Impatient {
    inner: Box<dyn net::Transport>,
    hurry: Arc<AtomicBool>,
}

impl net::Transport for Impatient {
    fn buffers(&mut self) -> &mut dyn net::Buffers {
        self.inner.buffers()
    }

    fn transmit_output(
        &mut self,
        amount: usize,
        timeout: net::NextTimeout,
    ) -> Result<(), ureq::Error> {
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, mut timeout: net::NextTimeout) -> Result<bool, ureq::Error> {
        if self.hurry.load(Ordering::Relaxed) {
            timeout.after = TAIL_MAX.into();
        }
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

#[cfg(test)]
mod tests;
