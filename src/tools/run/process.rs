//! One command from start to end: its output, its limits, and how it is ended (tools#7).
//!
//! Three threads: the caller's waits for whatever comes first (output, the end of the shell, the
//! wish to stop, the time limit); one reads the pipe, and can be told to read what is there and
//! leave; one waits for the shell without reaping it, so that its id stays its own until the
//! last signal was sent.

use super::{Cancel, Progress, kill};
use crate::tools::text::{Capture, Captured};
use crate::transcript::ToolOutput;
use crossbeam_channel::{Receiver, Sender, after, bounded, never, select, tick};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use std::{
    io::{self, PipeReader, Read},
    os::fd::AsRawFd,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Characters of output that are kept (extensions 1.7).
const OUTPUT_CHARS_MAX: usize = 200_000;
/// Between the wish that a process ends and its end by force.
const GRACE: Duration = Duration::from_millis(250);
/// After the end by force: how long the shell may take to vanish.
const END_WAIT: Duration = Duration::from_secs(2);
/// Most bytes that are still read from the pipe once the shell has ended. More than a pipe can
/// hold, so that nothing is lost that was written before; a bound, since a process that was left
/// behind may write for ever.
const DRAIN_BYTES_MAX: usize = 1 << 20;
/// A reader that cannot be told to leave is left after this.
const DRAIN_WAIT: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 64 * 1024;
const UPDATE_EVERY: Duration = Duration::from_secs(1);
const UPDATE_CHARS_MAX: usize = 2_000;

/// Why the wait for a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The shell ended by itself.
    Exited,
    /// The time was up.
    TimedOut,
    /// It was stopped.
    Aborted,
}

/// A command that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) end: End,
    /// None where the shell could not be waited for.
    pub(super) status: Option<ExitStatus>,
    pub(super) output: Captured,
    pub(super) took: Duration,
}

/// Runs a prepared command to its end. `id` is the value of its marker variable.
pub(super) fn run(
    mut command: Command,
    id: &str,
    limit: Option<Duration>,
    cancel: &Cancel,
    progress: &mut dyn FnMut(Progress),
) -> io::Result<Finished> {
    let began = Instant::now();
    let (reader, writer) = io::pipe()?;
    let mut pump = Pump::start(reader)?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command holds ends of the pipe: the pipe ends only when they are gone.
    drop(command);
    let leader = Pid::from_child(&child);
    progress(Progress::Process { pgid: child.id(), started: kill::start_time(child.id()) });
    let exited = watch(leader).inspect_err(|_| kill::signal(leader, Signal::KILL))?;
    let mut capture = Capture::new(OUTPUT_CHARS_MAX);
    let deadline = limit.map_or_else(never, after);
    let end = wait(&mut pump, &mut capture, &exited, cancel, &deadline, progress);
    if end != End::Exited {
        terminate(leader, id, &mut pump, &mut capture, &exited);
    }
    let status = reap(&mut child, end);
    pump.drain(&mut capture);
    Ok(Finished { end, status, output: capture.finish(), took: began.elapsed() })
}

/// Tells when the process has ended, without reaping it.
fn watch(leader: Pid) -> io::Result<Receiver<()>> {
    let (tell, told) = bounded(1);
    thread::Builder::new().spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(leader), options) {}
        let _ = tell.send(());
    })?;
    Ok(told)
}

fn wait(
    pump: &mut Pump,
    capture: &mut Capture,
    exited: &Receiver<()>,
    cancel: &Cancel,
    deadline: &Receiver<Instant>,
    progress: &mut dyn FnMut(Progress),
) -> End {
    let ticks = tick(UPDATE_EVERY);
    let mut fresh = false;
    loop {
        select! {
            recv(pump.output) -> bytes => fresh |= pump.take(bytes.ok(), capture),
            recv(exited) -> _ => return End::Exited,
            recv(cancel.receiver()) -> _ => return End::Aborted,
            recv(deadline) -> _ => return End::TimedOut,
            recv(ticks) -> _ => if std::mem::take(&mut fresh) {
                let text = capture.tail(UPDATE_CHARS_MAX);
                progress(Progress::Update(ToolOutput::text(text)));
            }
        }
    }
}

/// Ends the whole tree: first the group is asked, then it is killed, then everything that carries
/// the marker. Output is taken all the while, since a full pipe would hold a process up.
fn terminate(leader: Pid, id: &str, pump: &mut Pump, capture: &mut Capture, exited: &Receiver<()>) {
    kill::signal(leader, Signal::TERM);
    let gone = take_until(exited, GRACE, pump, capture);
    // The leader is not reaped yet: the id still belongs to this group alone.
    kill::signal(leader, Signal::KILL);
    kill::sweep(id);
    if !gone {
        take_until(exited, END_WAIT, pump, capture);
    }
}

/// Whether the process ended in time.
fn take_until(
    exited: &Receiver<()>,
    time: Duration,
    pump: &mut Pump,
    capture: &mut Capture,
) -> bool {
    let deadline = after(time);
    loop {
        select! {
            recv(pump.output) -> bytes => { pump.take(bytes.ok(), capture); }
            recv(exited) -> _ => return true,
            recv(deadline) -> _ => return false,
        }
    }
}

fn reap(child: &mut Child, end: End) -> Option<ExitStatus> {
    match end {
        End::Exited => child.wait().ok(),
        // One that hangs in the kernel must not hold the call.
        End::TimedOut | End::Aborted => child.try_wait().ok().flatten(),
    }
}

/// The reader of the pipe.
struct Pump {
    output: Receiver<Vec<u8>>,
    /// The pipe has ended.
    ended: bool,
    stop: Arc<AtomicBool>,
    waker: mio::Waker,
}

const PIPE: mio::Token = mio::Token(0);
const WAKE: mio::Token = mio::Token(1);

impl Pump {
    fn start(reader: PipeReader) -> io::Result<Pump> {
        let flags = rustix::fs::fcntl_getfl(&reader)?;
        rustix::fs::fcntl_setfl(&reader, flags | rustix::fs::OFlags::NONBLOCK)?;
        let poll = mio::Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKE)?;
        let fd = reader.as_raw_fd();
        poll.registry().register(&mut mio::unix::SourceFd(&fd), PIPE, mio::Interest::READABLE)?;
        let (give, output) = bounded(16);
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        thread::Builder::new().spawn(move || pump(reader, poll, &told, &give))?;
        Ok(Pump { output, ended: false, stop, waker })
    }

    /// Puts bytes into the capture; at the end of the pipe nothing more will come.
    fn take(&mut self, bytes: Option<Vec<u8>>, capture: &mut Capture) -> bool {
        match bytes {
            Some(bytes) => capture.push(&bytes),
            None => {
                self.output = never();
                self.ended = true;
                return false;
            }
        }
        true
    }

    /// Takes what is in the pipe now and lets the reader go.
    fn drain(self, capture: &mut Capture) {
        if self.ended {
            return;
        }
        self.stop.store(true, Ordering::Release);
        let _ = self.waker.wake();
        let deadline = Instant::now() + DRAIN_WAIT;
        while let Ok(bytes) = self.output.recv_deadline(deadline) {
            capture.push(&bytes);
        }
    }
}

/// Reads until the pipe ends, or until it is told to stop and has read what was there.
fn pump(mut reader: PipeReader, mut poll: mio::Poll, stop: &AtomicBool, give: &Sender<Vec<u8>>) {
    let mut events = mio::Events::with_capacity(2);
    let mut buffer = vec![0; READ_BYTES];
    let mut drained = 0;
    loop {
        let last = stop.load(Ordering::Acquire);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    if give.send(buffer[..count].to_vec()).is_err() {
                        return;
                    }
                    if stop.load(Ordering::Acquire) {
                        drained += count;
                    }
                    if drained > DRAIN_BYTES_MAX {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
        if last {
            return;
        }
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            _ => {}
        }
    }
}
