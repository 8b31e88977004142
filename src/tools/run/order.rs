//! File mutations happen in the order in which the model asked for them, by what a file really
//! is: a path, a symlink to it and a hard link are one file (tools#5).
//!
//! The caller takes a ticket for each call in call order, before any worker starts. A worker asks
//! its ticket for the files it will touch and waits until each earlier ticket has said which
//! files are its own, or is gone, and none of them is in the way. Earlier tickets never wait for
//! later ones, so nothing can wait in a circle; the workers must be started in call order too,
//! or a full pool could hold only tickets that wait for one that has no worker.

use super::cancel::Cancel;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Longest chain of symlinks that is followed.
const LINKS_MAX: usize = 40;

/// What a call does with its files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It looks at them: many may do so at once.
    Read,
    /// It changes them.
    Write,
}

/// What makes two paths the same file. A file that exists has both keys, so that one which a
/// call creates or replaces is known to the next under its path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    Path(PathBuf),
    Inode(u64, u64),
}

#[derive(Debug)]
struct Entry {
    claim: Option<(Access, Vec<Key>)>,
    wake: Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    live: BTreeMap<u64, Entry>,
}

impl State {
    fn wake_all(&self) {
        for entry in self.live.values() {
            let _ = entry.wake.try_send(());
        }
    }

    /// Whether an earlier ticket is in the way of this one.
    fn blocked(&self, number: u64) -> bool {
        let Some((access, keys)) = self.live.get(&number).and_then(|own| own.claim.as_ref()) else {
            return false;
        };
        self.live.range(..number).any(|(_, other)| match &other.claim {
            None => true,
            Some((Access::Read, _)) if *access == Access::Read => false,
            Some((_, others)) => others.iter().any(|key| keys.contains(key)),
        })
    }
}

/// The order of all file calls of one batch or of a whole session.
#[derive(Clone, Debug, Default)]
pub struct FileOrder {
    state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileOrder {
    /// An order without tickets.
    #[must_use]
    pub fn new() -> FileOrder {
        FileOrder::default()
    }

    /// The next ticket: taken in call order, before the call's worker starts.
    #[must_use]
    pub fn take(&self) -> Ticket {
        let (wake, woken) = bounded(1);
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        state.live.insert(number, Entry { claim: None, wake });
        Ticket { number, woken, state: self.state.clone() }
    }
}

/// A call's place in the order. Dropping it gives the place up.
#[derive(Debug)]
pub struct Ticket {
    number: u64,
    woken: Receiver<()>,
    state: Arc<Mutex<State>>,
}

/// The wait was ended by a wish to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancelled;

impl Ticket {
    /// Claims the files and waits for its turn.
    ///
    /// # Errors
    /// [`Cancelled`] where the wish to stop came first; the claim is given up then.
    pub fn acquire(
        &self,
        paths: &[PathBuf],
        access: Access,
        cancel: &Cancel,
    ) -> Result<(), Cancelled> {
        let keys: Vec<Key> = paths.iter().flat_map(|path| keys(path)).collect();
        {
            let mut state = lock(&self.state);
            if let Some(entry) = state.live.get_mut(&self.number) {
                entry.claim = Some((access, keys));
            }
            state.wake_all();
        }
        loop {
            if cancel.is_cancelled() {
                self.release();
                return Err(Cancelled);
            }
            if !lock(&self.state).blocked(self.number) {
                return Ok(());
            }
            crossbeam_channel::select! {
                recv(self.woken) -> _ => {}
                recv(cancel.receiver()) -> _ => {}
            }
        }
    }

    /// Gives the place up before the ticket is dropped: a call that touches no file of its own
    /// account must not hold others up.
    pub fn release(&self) {
        let mut state = lock(&self.state);
        state.live.remove(&self.number);
        state.wake_all();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.release();
    }
}

fn keys(path: &Path) -> Vec<Key> {
    let real = real_path(path);
    let inode = std::fs::metadata(&real).ok().map(|meta| {
        use std::os::unix::fs::MetadataExt;
        Key::Inode(meta.dev(), meta.ino())
    });
    std::iter::once(Key::Path(real)).chain(inode).collect()
}

/// The path without symlinks and dots: that of the file itself where it exists, else the real
/// path of the deepest directory that does, and the rest. A symlink to nothing leads to where
/// its target would be.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    let mut at = path.to_path_buf();
    let mut rest: Vec<OsString> = Vec::new();
    let mut links = 0;
    loop {
        if let Ok(real) = std::fs::canonicalize(&at) {
            let whole = rest.iter().rev().fold(real, |base, name| base.join(name));
            return lexical(&whole);
        }
        if links < LINKS_MAX
            && let Ok(target) = std::fs::read_link(&at)
        {
            links += 1;
            at = at.parent().unwrap_or(Path::new("/")).join(target);
            continue;
        }
        let Some(last) = at.components().next_back() else { return lexical(path) };
        rest.push(last.as_os_str().to_owned());
        match at.parent() {
            Some(parent) => at = parent.to_path_buf(),
            None => return lexical(path),
        }
    }
}

fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Rng;
    use std::{fs, os::unix::fs::symlink, thread, time::Duration};

    fn paths(list: &[&Path]) -> Vec<PathBuf> {
        list.iter().map(|path| path.to_path_buf()).collect()
    }

    #[test]
    fn real_paths_see_through_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(root.join("d")).unwrap();
        symlink("d", root.join("l")).unwrap();
        symlink("later", root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(real_path(&root.join("l/x/../y")), root.join("d/y"));
        assert_eq!(real_path(&root.join("dangling")), root.join("later"));
        assert_eq!(real_path(&root.join("new/a/./b")), root.join("new/a/b"));
        assert!(real_path(&root.join("loop")).starts_with(&root));
    }

    /// tools#5. B025: three edits of one file run in call order, whatever thread comes first,
    /// and under whatever name the file goes; each has a result.
    #[test]
    fn b025_one_file_is_changed_in_call_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "").unwrap();
        symlink(&file, dir.path().join("soft")).unwrap();
        fs::hard_link(&file, dir.path().join("hard")).unwrap();
        let names = ["f", "soft", "hard", "./f", "f"].map(|name| dir.path().join(name));
        let mut rng = Rng(3);
        for _ in 0..20 {
            let order = FileOrder::new();
            let log = Mutex::new(Vec::new());
            let cancel = Cancel::new();
            let mut jobs: Vec<(usize, Ticket)> =
                (0..names.len()).map(|i| (i, order.take())).collect();
            thread::scope(|scope| {
                while !jobs.is_empty() {
                    let (i, ticket) = jobs.swap_remove(rng.below(jobs.len() as u64) as usize);
                    let (log, cancel, path) = (&log, &cancel, names[i].clone());
                    scope.spawn(move || {
                        ticket.acquire(&[path], Access::Write, cancel).unwrap();
                        log.lock().unwrap().push(i);
                        thread::yield_now();
                        log.lock().unwrap().push(i);
                    });
                }
            });
            assert_eq!(log.into_inner().unwrap(), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
        }
    }

    #[test]
    fn different_files_and_readers_do_not_wait() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&a, "").unwrap();
        let order = FileOrder::new();
        let cancel = Cancel::new();
        let (one, two, three) = (order.take(), order.take(), order.take());
        one.acquire(&paths(&[&a]), Access::Read, &cancel).unwrap();
        two.acquire(&paths(&[&b]), Access::Write, &cancel).unwrap();
        three.acquire(&paths(&[&a]), Access::Read, &cancel).unwrap();
        let four = order.take();
        assert!(!lock(&order.state).blocked(four.number), "no claim yet");
        drop((one, two, three, four));
        assert!(lock(&order.state).live.is_empty());
    }

    /// A file that an earlier call creates is the same file to a later one.
    #[test]
    fn new_files_are_known_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new");
        let order = FileOrder::new();
        let cancel = Cancel::new();
        let (first, second) = (order.take(), order.take());
        first.acquire(&paths(&[&file]), Access::Write, &cancel).unwrap();
        fs::write(&file, "x").unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                second.acquire(&paths(&[&file]), Access::Write, &cancel).unwrap();
                fs::read_to_string(&file).unwrap()
            });
            thread::sleep(Duration::from_millis(20));
            fs::write(&file, "done").unwrap();
            first.release();
            assert_eq!(waiting.join().unwrap(), "done");
        });
    }

    #[test]
    fn tickets_without_a_claim_block_until_they_are_dropped() {
        let order = FileOrder::new();
        let cancel = Cancel::new();
        let (idle, late) = (order.take(), order.take());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                late.acquire(&paths(&[Path::new("/tmp/x")]), Access::Read, &cancel).unwrap();
                std::time::Instant::now()
            });
            thread::sleep(Duration::from_millis(20));
            let before = std::time::Instant::now();
            drop(idle);
            assert!(waiting.join().unwrap() >= before);
        });
    }

    #[test]
    fn a_wish_to_stop_ends_the_wait_and_frees_the_place() {
        let order = FileOrder::new();
        let (held, waits, last) = (order.take(), order.take(), order.take());
        let free = Cancel::new();
        let path = paths(&[Path::new("/tmp/x")]);
        held.acquire(&path, Access::Write, &free).unwrap();
        let cancel = Cancel::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waits.acquire(&path, Access::Write, &cancel));
            thread::sleep(Duration::from_millis(20));
            cancel.cancel();
            assert_eq!(waiting.join().unwrap(), Err(Cancelled));
        });
        drop(held);
        last.acquire(&path, Access::Write, &free).unwrap();
    }
}
