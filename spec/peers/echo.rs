//! An echo server made from the gateway's `Wire`, for conformance suites (`autobahn.sh`). One
//! thread a connection; the port is the argument. No part of the product.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stepclaw::base::Millis;
use stepclaw::gateway::wire::{Event, Limits, Response, Wire};

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(9001);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            if let Err(error) = serve(stream) {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut wire = Wire::new(now(), Limits::default());
    let mut buffer = vec![0; 64 * 1024];
    let mut shut = false;
    loop {
        while let Some(event) = wire.poll(now()) {
            answer(&mut wire, event);
        }
        while wire.buffered() > 0 {
            let n = stream.write(wire.out().next().unwrap_or_default())?;
            wire.written(now(), n);
        }
        if wire.done() {
            return Ok(());
        }
        if wire.said_all() && !shut {
            stream.shutdown(Shutdown::Write)?;
            shut = true;
        }
        let wait = wire.due().map_or(60_000, |(at, _)| at.since(now()).max(1));
        stream.set_read_timeout(Some(Duration::from_millis(wait)))?;
        match stream.read(&mut buffer) {
            Ok(0) => wire.end_of_input(),
            Ok(n) => wire.feed(&buffer[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
    }
}

fn answer(wire: &mut Wire, event: Event) {
    match event {
        Event::Upgrade(_) => {
            wire.accept(now());
            wire.hello(now());
        }
        Event::Text(text) => {
            wire.text(now(), &[text.into_bytes().into()], b"");
        }
        Event::Request(request) => {
            let response = Response::new(200).header("Content-Type", "application/octet-stream");
            wire.respond(now(), &response.body(request.body));
        }
        Event::Head(_) | Event::Ended | Event::Closed { .. } => {}
        Event::Broken(fault) => eprintln!("{fault}"),
    }
}
