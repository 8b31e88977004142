//! The listening socket and its connections. Reads and writes what it is told to, and knows nothing
//! of what the bytes mean.

use super::{Reactor, ReactorError, system};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};

/// The first token of a connection; those before are the loop's own.
const FIRST: usize = 16;
/// The listening socket.
const LISTEN: Token = Token(2);
/// Connections that one pass takes.
const ACCEPTED_MAX: usize = 64;
/// Pieces that one write takes.
const PIECES_MAX: usize = 64;

/// What happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetEvent {
    /// It was made, from this address.
    Opened(u32, IpAddr),
    /// There may be something to read, or room to write.
    Ready(u32),
}

/// What a read has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The other side says nothing more.
    End,
    /// The connection is broken.
    Broken,
}

#[derive(Debug)]
pub(super) struct Net {
    listener: TcpListener,
    /// The listener may have more.
    more: bool,
    streams: BTreeMap<u32, TcpStream>,
    next: u32,
    events: Vec<NetEvent>,
}

impl Net {
    /// Something happened to a socket.
    pub fn ready(&mut self, token: Token, registry: &Registry) {
        if token == LISTEN {
            self.more = true;
            return self.accept(registry);
        }
        let conn = token.0.checked_sub(FIRST).and_then(|n| u32::try_from(n).ok());
        if let Some(conn) = conn.filter(|conn| self.streams.contains_key(conn)) {
            self.events.push(NetEvent::Ready(conn));
        }
    }

    /// Takes connections that wait.
    pub fn accept(&mut self, registry: &Registry) {
        for _ in 0..ACCEPTED_MAX {
            if !self.more {
                return;
            }
            match self.listener.accept() {
                Ok((mut stream, from)) => {
                    self.next += 1;
                    let (conn, token) = (self.next, Token(FIRST + self.next as usize));
                    let both = Interest::READABLE | Interest::WRITABLE;
                    // A connection that cannot be watched is dropped: the peer tries again.
                    if registry.register(&mut stream, token, both).is_ok() {
                        let _ = stream.set_nodelay(true);
                        self.streams.insert(conn, stream);
                        self.events.push(NetEvent::Opened(conn, from.ip()));
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Also when there are too many open files: the next event tries again.
                Err(_) => self.more = false,
            }
        }
    }

    pub fn has_more(&self) -> bool {
        self.more || !self.events.is_empty()
    }
}

impl Reactor {
    /// Listens at an address. Gives the one that it got.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen(&mut self, at: SocketAddr) -> Result<SocketAddr, ReactorError> {
        let mut listener = TcpListener::bind(at).map_err(system("cannot listen"))?;
        let got = listener.local_addr().map_err(system("cannot listen"))?;
        let registry = self.poll.registry();
        registry
            .register(&mut listener, LISTEN, Interest::READABLE)
            .map_err(system("cannot listen"))?;
        let (streams, events) = (BTreeMap::new(), Vec::new());
        self.net = Some(Net { listener, more: false, streams, next: 0, events });
        Ok(got)
    }

    /// What happened to connections since the last time.
    pub fn take_net(&mut self) -> Vec<NetEvent> {
        self.net.as_mut().map(|net| std::mem::take(&mut net.events)).unwrap_or_default()
    }

    /// Reads what has come.
    pub fn net_read(&mut self, conn: u32, buffer: &mut [u8]) -> Got {
        let stream = self.net.as_mut().and_then(|net| net.streams.get_mut(&conn));
        let Some(stream) = stream else { return Got::Broken };
        loop {
            return match stream.read(buffer) {
                Ok(0) => Got::End,
                Ok(n) => Got::Bytes(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => Got::Nothing,
                Err(_) => Got::Broken,
            };
        }
    }

    /// Writes as much as the system takes; nothing if the connection is broken.
    pub fn net_write<'a>(
        &mut self,
        conn: u32,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<usize> {
        let stream = self.net.as_mut().and_then(|net| net.streams.get_mut(&conn))?;
        let pieces: Vec<IoSlice<'_>> = pieces.take(PIECES_MAX).map(IoSlice::new).collect();
        loop {
            return match stream.write_vectored(&pieces) {
                Ok(n) => Some(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => Some(0),
                Err(_) => None,
            };
        }
    }

    /// Our side of a connection says nothing more.
    pub fn net_shut(&mut self, conn: u32) {
        if let Some(stream) = self.net.as_mut().and_then(|net| net.streams.get_mut(&conn)) {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    /// A connection is let go.
    pub fn net_drop(&mut self, conn: u32) {
        let Some(net) = &mut self.net else { return };
        if let Some(mut stream) = net.streams.remove(&conn) {
            let _ = self.poll.registry().deregister(&mut stream);
        }
    }

    /// Nobody new is taken.
    pub fn stop_listening(&mut self) {
        if let Some(net) = &mut self.net {
            net.more = false;
            let _ = self.poll.registry().deregister(&mut net.listener);
        }
    }

    /// Wakes the loop from another thread.
    pub fn waking(&self) -> impl Fn() + Send + Sync + use<> {
        let (_, waker) = self.links.reporter();
        move || {
            // A loop that cannot be woken has ended.
            let _ = waker.wake();
        }
    }

    /// Runs some work on a worker; `false` if the system gave us no thread for it.
    pub fn aside(&self, work: impl FnOnce() + Send + 'static) -> bool {
        self.links.crew.spawn(work)
    }
}
