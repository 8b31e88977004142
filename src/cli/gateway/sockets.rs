//! The sockets of the gateway, between the reactor and the pure connections.

use super::house::{House, sight};
use crate::gateway::Conn;
use crate::reactor::{Got, NetEvent, Reactor, ReactorError};

/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;
/// Reads of one connection in one pass: others have their turn too.
const READS_MAX: usize = 16;

impl House {
    /// Takes what has come over the sockets.
    pub fn net(&mut self, reactor: &mut Reactor) -> Result<(), ReactorError> {
        for event in reactor.take_net() {
            match event {
                NetEvent::Opened(conn, from) => {
                    if !self.gateway.open(conn, from, reactor.now()) {
                        reactor.net_drop(conn);
                    }
                    self.unread.insert(conn);
                }
                NetEvent::Ready(conn) => {
                    self.unread.insert(conn);
                    self.unwritten.insert(conn);
                }
            }
        }
        for conn in std::mem::take(&mut self.unread) {
            self.read(conn, reactor);
            // What one has asked for is done before the next one is read.
            self.settle(reactor)?;
        }
        if self.unread.iter().any(|conn| self.wants_bytes(*conn)) {
            reactor.keep_busy();
        }
        Ok(())
    }

    fn wants_bytes(&self, conn: Conn) -> bool {
        self.gateway.wire(conn).is_some_and(|wire| wire.wants_bytes())
    }

    fn read(&mut self, conn: Conn, reactor: &mut Reactor) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(READ_BYTES, 0);
        for _ in 0..READS_MAX {
            if !self.wants_bytes(conn) {
                break;
            }
            match reactor.net_read(conn, &mut buffer) {
                Got::Bytes(n) => self.gateway.bytes(conn, &buffer[..n], sight(reactor)),
                Got::Nothing => {
                    self.buffer = buffer;
                    return;
                }
                Got::End => {
                    self.gateway.end_of_input(conn, sight(reactor));
                    self.buffer = buffer;
                    return;
                }
                Got::Broken => {
                    self.gateway.lost(conn);
                    reactor.net_drop(conn);
                    self.buffer = buffer;
                    return;
                }
            }
        }
        self.buffer = buffer;
        // It was not read to its end: nobody will say again that there is more.
        if self.gateway.wire(conn).is_some() {
            self.unread.insert(conn);
        }
    }

    /// Writes what the connections have to say.
    pub fn write_sockets(&mut self, reactor: &mut Reactor) {
        let mut conns = std::mem::take(&mut self.unwritten);
        conns.extend(self.gateway.touched());
        for conn in conns {
            self.write_socket(conn, reactor);
        }
    }

    fn write_socket(&mut self, conn: Conn, reactor: &mut Reactor) {
        loop {
            let Some(wire) = self.gateway.wire(conn) else { return reactor.net_drop(conn) };
            if wire.done() {
                self.gateway.lost(conn);
                return reactor.net_drop(conn);
            }
            if wire.buffered() == 0 {
                if wire.said_all() {
                    reactor.net_shut(conn);
                }
                return;
            }
            match reactor.net_write(conn, wire.out()) {
                None => {
                    self.gateway.lost(conn);
                    return reactor.net_drop(conn);
                }
                Some(0) => return,
                Some(n) => self.gateway.written(conn, n, sight(reactor)),
            }
        }
    }
}
