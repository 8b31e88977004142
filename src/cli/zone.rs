//! The time zone of this machine, read from the one file that says so. The library's own search
//! lists the whole zone database first, which costs more than a turn of the offline model.

use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};

const LOCAL: &str = "/etc/localtime";
const DATABASE: &str = "/usr/share/zoneinfo";

/// The zone and its name; UTC where nothing better is known.
pub(super) fn local() -> (TimeZone, String) {
    let wanted = std::env::var("TZ").ok().filter(|tz| !tz.is_empty());
    let found = match wanted {
        Some(tz) => named(tz.trim_start_matches(':')),
        None => file(Path::new(LOCAL), name_of(&std::fs::read_link(LOCAL).unwrap_or_default())),
    };
    found.unwrap_or_else(|| (TimeZone::UTC, "UTC".to_owned()))
}

/// A zone by name, by path, or spelled out (`CET-1CEST`).
fn named(tz: &str) -> Option<(TimeZone, String)> {
    let path = if tz.starts_with('/') { PathBuf::from(tz) } else { Path::new(DATABASE).join(tz) };
    let inside = !tz.split('/').any(|part| part == "..");
    let found = if inside { file(&path, name_of(&path)) } else { None };
    found.or_else(|| TimeZone::posix(tz).ok().map(|zone| (zone, tz.to_owned())))
}

fn file(path: &Path, name: Option<String>) -> Option<(TimeZone, String)> {
    let small = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() < 1 << 20);
    let data = if small { std::fs::read(path).ok()? } else { return None };
    let name = name.unwrap_or_else(|| "local".to_owned());
    Some((TimeZone::tzif(&name, &data).ok()?, name))
}

/// `Europe/Berlin` of `/usr/share/zoneinfo/Europe/Berlin`.
fn name_of(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    text.rsplit_once("zoneinfo/").map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_spelled_out_or_refused() {
        let (_, name) = named("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        assert_eq!(name, "CET-1CEST,M3.5.0,M10.5.0/3");
        assert!(named("../../etc/passwd").is_none());
        assert_eq!(name_of(Path::new("/usr/share/zoneinfo/Asia/Tokyo")).unwrap(), "Asia/Tokyo");
    }
}
