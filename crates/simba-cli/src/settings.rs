//! The settings: flag, environment, `./simba.toml`, the user's file, `/etc/simba.toml`, default; in this order.
//!
//! Every fault is found, each with its source, before anything is done.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use simba::{Drift, NodeLabel, Timing, backend::Namespace};

use crate::{
    args::Global,
    duration,
    exit::{CONFIG, Exit, USAGE},
};

/// One setting that there is.
struct Key {
    name: &'static str,
    env: &'static str,
    flag: &'static str,
    given: fn(&Global) -> Option<&String>,
}

const KEYS: &[Key] = &[
    Key { name: "url", env: "SIMBA_URL", flag: "--url", given: |g| g.url.as_ref() },
    Key { name: "url_file", env: "SIMBA_URL_FILE", flag: "--url-file", given: |g| g.url_file.as_ref() },
    Key { name: "node", env: "SIMBA_NODE", flag: "--node", given: |g| g.node.as_ref() },
    Key { name: "namespace", env: "SIMBA_NAMESPACE", flag: "--namespace", given: |g| g.namespace.as_ref() },
    Key {
        name: "connect_timeout",
        env: "SIMBA_CONNECT_TIMEOUT",
        flag: "--connect-timeout",
        given: |g| g.connect_timeout.as_ref(),
    },
    Key {
        name: "session.lease_duration",
        env: "SIMBA_SESSION__LEASE_DURATION",
        flag: "--lease",
        given: |g| g.lease.as_ref(),
    },
    Key {
        name: "session.renew_interval",
        env: "SIMBA_SESSION__RENEW_INTERVAL",
        flag: "--renew",
        given: |g| g.renew.as_ref(),
    },
    Key { name: "session.drift", env: "SIMBA_SESSION__DRIFT", flag: "--drift", given: |g| g.drift.as_ref() },
    Key {
        name: "session.margin",
        env: "SIMBA_SESSION__MARGIN",
        flag: "--margin",
        given: |g| g.margin.as_ref(),
    },
    Key { name: "session.retry_jitter", env: "SIMBA_SESSION__RETRY_JITTER", flag: "", given: |_| None },
    Key { name: "session.min_backoff", env: "SIMBA_SESSION__MIN_BACKOFF", flag: "", given: |_| None },
];

/// Where a value comes from, in the words of the person who wrote it.
type Origin = String;

/// A value as it was written.
#[derive(Clone, Debug)]
struct Written {
    text: String,
    origin: Origin,
}

/// A setting for people: its name, its value (without secrets), where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Shown {
    /// The name, as in a file.
    pub(crate) key: &'static str,
    /// The value.
    pub(crate) value: String,
    /// Where it comes from.
    pub(crate) origin: String,
}

/// The settings in effect.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The store.
    pub(crate) url: String,
    /// Whether nobody chose the store.
    pub(crate) url_is_default: bool,
    /// What this node is called.
    pub(crate) node: NodeLabel,
    /// The namespace.
    pub(crate) namespace: Option<Namespace>,
    /// The timing of leases.
    pub(crate) timing: Timing,
    /// How long to try to reach the store.
    pub(crate) connect_timeout: Duration,
    /// All of them, for `config show`.
    pub(crate) shown: Vec<Shown>,
}

impl Settings {
    /// Finds every setting.
    ///
    /// # Errors
    /// All faults at once, each with its source.
    pub(crate) fn load(global: &Global) -> Result<Self, Exit> {
        let mut faults = Faults::default();
        let layers = layers(global, &mut faults);
        let found = |name: &str| layers.iter().find_map(|layer| layer.get(name));
        let settings = Self::from_written(&found, &mut faults);
        match (faults.into_exit(), settings) {
            (None, Some(settings)) => Ok(settings),
            (Some(exit), _) => Err(exit),
            (None, None) => Err(Exit::new(USAGE, "the settings cannot be read")),
        }
    }

    fn from_written<'a>(found: &impl Fn(&str) -> Option<&'a Written>, faults: &mut Faults) -> Option<Self> {
        let mut shown = Vec::new();
        let url = find_url(found, faults);
        let node = found("node").cloned();
        let label = match &node {
            Some(written) => faults.take(written, NodeLabel::new(&written.text).map_err(|e| e.to_string())),
            None => Some(NodeLabel::sanitized(&host_name())),
        };
        let namespace = found("namespace").cloned();
        let space = match &namespace {
            Some(written) => {
                faults.take(written, Namespace::new(&written.text).map_err(|e| e.to_string())).map(Some)
            }
            None => Some(None),
        };
        let connect = found("connect_timeout").cloned();
        let connect_timeout = match &connect {
            Some(written) => faults.take(written, duration::parse(&written.text)),
            None => Some(Duration::from_secs(5)),
        };
        let timing = find_timing(found, faults);
        let (url, url_origin) = url?;
        let (node_label, space, connect_timeout, timing) = (label?, space?, connect_timeout?, timing?);
        let by_default =
            |written: &Option<Written>| written.as_ref().map_or("default".to_owned(), |w| w.origin.clone());
        let mut show = |key, value: String, origin: String| shown.push(Shown { key, value, origin });
        show("url", without_password(&url), url_origin.clone().unwrap_or_else(|| "default".to_owned()));
        show("node", node_label.to_string(), by_default(&node));
        show("namespace", space.as_ref().map_or("-".to_owned(), ToString::to_string), by_default(&namespace));
        show("connect_timeout", format!("{connect_timeout:?}"), by_default(&connect));
        for (key, value) in [
            ("session.lease_duration", format!("{:?}", timing.lease())),
            ("session.renew_interval", format!("{:?}", timing.renew())),
            ("session.drift", timing.drift().to_string()),
            ("session.margin", format!("{:?}", timing.margin())),
            ("session.retry_jitter", format!("{:?}", timing.retry_jitter())),
            ("session.min_backoff", format!("{:?}", timing.min_backoff())),
        ] {
            show(key, value, by_default(&found(key).cloned()));
        }
        Some(Self {
            url,
            url_is_default: url_origin.is_none(),
            node: node_label,
            namespace: space,
            timing,
            connect_timeout,
            shown,
        })
    }
}

/// The store's URL, and where it comes from unless nobody chose it.
fn find_url<'a>(
    found: &impl Fn(&str) -> Option<&'a Written>,
    faults: &mut Faults,
) -> Option<(String, Option<Origin>)> {
    match (found("url"), found("url_file")) {
        (Some(url), Some(file)) => {
            let (url, file) = (&url.origin, &file.origin);
            faults.add(USAGE, format!("two stores are named, by {url} and by {file}; leave one of them out"));
            None
        }
        (Some(url), None) => Some((url.text.clone(), Some(url.origin.clone()))),
        (None, Some(file)) => {
            let read = fs::read_to_string(&file.text)
                .map_err(|error| format!("{:?} cannot be read: {error}", file.text))
                .map(|text| text.lines().next().unwrap_or_default().trim().to_owned());
            faults.take(file, read).map(|url| (url, Some(format!("{} ({})", file.origin, file.text))))
        }
        (None, None) => match default_store() {
            Ok(path) => Some((format!("sqlite:{}", path.display()), None)),
            Err(exit) => {
                faults.add(exit.code, exit.message);
                None
            }
        },
    }
}

fn find_timing<'a>(found: &impl Fn(&str) -> Option<&'a Written>, faults: &mut Faults) -> Option<Timing> {
    let before = faults.0.len();
    let mut builder = Timing::builder();
    let mut span = |key: &str| found(key).and_then(|w| faults.take(w, duration::parse(&w.text)));
    if let Some(lease) = span("session.lease_duration") {
        builder = builder.lease(lease);
    }
    if let Some(renew) = span("session.renew_interval") {
        builder = builder.renew(renew);
    }
    if let Some(margin) = span("session.margin") {
        builder = builder.margin(margin);
    }
    if let Some(jitter) = span("session.retry_jitter") {
        builder = builder.retry_jitter(jitter);
    }
    if let Some(backoff) = span("session.min_backoff") {
        builder = builder.min_backoff(backoff);
    }
    let drift = found("session.drift")
        .and_then(|w| faults.take(w, w.text.parse::<Drift>().map_err(|error| error.to_string())));
    if let Some(drift) = drift {
        builder = builder.drift(drift);
    }
    if faults.0.len() > before {
        return None;
    }
    match builder.build() {
        Ok(timing) => Some(timing),
        Err(error) => {
            let code = match error {
                simba::TimingError::OutOfRange { .. } => USAGE,
                simba::TimingError::TwoRenewals { .. } | simba::TimingError::NoValidity { .. } => CONFIG,
            };
            faults.add(code, error.to_string());
            None
        }
    }
}

/// Everything that is wrong.
#[derive(Default)]
struct Faults(Vec<(u8, String)>);

impl Faults {
    fn add(&mut self, code: u8, text: impl Into<String>) {
        self.0.push((code, text.into()));
    }

    fn take<T>(&mut self, written: &Written, parsed: Result<T, String>) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(why) => {
                self.add(USAGE, format!("{}: {why}", written.origin));
                None
            }
        }
    }

    fn into_exit(self) -> Option<Exit> {
        let code = self.0.first()?.0;
        let texts: Vec<String> = self.0.into_iter().map(|(_, text)| text).collect();
        Some(Exit::new(code, texts.join("\n")))
    }
}

/// One source of settings.
#[derive(Default)]
struct Layer(Vec<(&'static str, Written)>);

impl Layer {
    fn get(&self, name: &str) -> Option<&Written> {
        self.0.iter().find(|(key, _)| *key == name).map(|(_, written)| written)
    }
}

/// The sources, the strongest first. A source that names the store in one way hides the other way in weaker ones.
fn layers(global: &Global, faults: &mut Faults) -> Vec<Layer> {
    let mut layers = vec![flags(global), environment(faults)];
    for path in files(global) {
        match fs::read_to_string(&path) {
            Ok(text) => layers.push(file(&path, &text, faults)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && global.config.is_none() => {}
            Err(error) => faults.add(USAGE, format!("{} cannot be read: {error}", path.display())),
        }
    }
    if let Some(first) = layers.iter().position(|l| l.get("url").is_some() || l.get("url_file").is_some()) {
        for layer in &mut layers[first + 1..] {
            layer.0.retain(|(key, _)| *key != "url" && *key != "url_file");
        }
    }
    layers
}

fn flags(global: &Global) -> Layer {
    let written = |key: &Key| {
        (key.given)(global)
            .map(|text| (key.name, Written { text: text.clone(), origin: key.flag.to_owned() }))
    };
    Layer(KEYS.iter().filter_map(written).collect())
}

fn environment(faults: &mut Faults) -> Layer {
    let mut layer = Layer::default();
    for key in KEYS {
        match env::var(key.env) {
            Ok(text) if text.is_empty() => {}
            Ok(text) => layer.0.push((key.name, Written { text, origin: key.env.to_owned() })),
            Err(env::VarError::NotPresent) => {}
            Err(env::VarError::NotUnicode(_)) => faults.add(USAGE, format!("{} is not valid UTF-8", key.env)),
        }
    }
    layer
}

fn files(global: &Global) -> Vec<PathBuf> {
    if let Some(path) = global.config.clone().or_else(|| env::var_os("SIMBA_CONFIG").map(PathBuf::from)) {
        return vec![path];
    }
    let user = env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".config")));
    let mut files = vec![PathBuf::from("simba.toml")];
    files.extend(user.map(|folder| folder.join("simba/config.toml")));
    files.push(PathBuf::from("/etc/simba.toml"));
    files
}

fn file(path: &Path, text: &str, faults: &mut Faults) -> Layer {
    let mut layer = Layer::default();
    let shown = path.display();
    let table = match toml::de::DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            faults.add(
                USAGE,
                format!("{shown} is not valid TOML: {}", error.to_string().trim_end().replace('\n', "\n  ")),
            );
            return layer;
        }
    };
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let mut entries = Vec::new();
    for (key, value) in table.get_ref() {
        match value.get_ref() {
            toml::de::DeValue::Table(inner) => {
                for (name, value) in inner {
                    entries.push((
                        format!("{}.{}", key.get_ref(), name.get_ref()),
                        value,
                        line(name.span().start),
                    ));
                }
            }
            _ => entries.push((key.get_ref().to_string(), value, line(key.span().start))),
        }
    }
    for (name, value, line) in entries {
        let origin = format!("{shown}:{line}");
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            let near = nearest(&name).map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            faults.add(USAGE, format!("{origin}: {name:?} is not a setting{near}"));
            continue;
        };
        let text = match value.get_ref() {
            toml::de::DeValue::String(text) => text.to_string(),
            toml::de::DeValue::Integer(number) => number.to_string(),
            toml::de::DeValue::Float(number) => number.to_string(),
            _ => {
                faults.add(USAGE, format!("{origin}: {name:?} must be a text in quotes, like \"15s\""));
                continue;
            }
        };
        layer.0.push((key.name, Written { text, origin }));
    }
    layer
}

/// The setting whose name is nearest, if any is near at all.
fn nearest(name: &str) -> Option<&'static str> {
    let last = |text: &str| text.rsplit('.').next().unwrap_or_default().to_owned();
    KEYS.iter()
        .map(|key| (distance(name, key.name).min(distance(&last(name), &last(key.name))), key.name))
        .min()
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, name)| name)
}

/// How many letters must be changed, added or taken away (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let change = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// The URL with a password, if there is one, made unreadable.
#[must_use]
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => match rest[..at].find(':') {
            Some(colon) => format!("{scheme}://{}:***{}", &rest[..colon], &rest[at..]),
            None => url.to_owned(),
        },
        None => url.to_owned(),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The file that is the store when nobody named one. Its folder is made by whoever makes the file.
fn default_store() -> Result<PathBuf, Exit> {
    let state =
        env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(|| {
            env::var_os("HOME").filter(|home| !home.is_empty()).map(|h| Path::new(&h).join(".local/state"))
        });
    let Some(state) = state else {
        let text = "no store is named, and there is no home folder to keep one in; use --url sqlite:/path/to.db, or \
                    set SIMBA_URL or HOME";
        return Err(Exit::new(USAGE, text));
    };
    Ok(state.join("simba").join("simba.db"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://app:s3cret@db/app", "postgres://app:***@db/app"),
            ("postgres://app:s3:cr@et@db/app", "postgres://app:***@db/app"),
            ("postgres://app@db/app", "postgres://app@db/app"),
            ("sqlite:/a/b.db", "sqlite:/a/b.db"),
            ("redis://:s3cret@host", "redis://:***@host"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn every_fault_of_a_file_is_found_with_its_line() {
        let text = "node = \"a/b\"\nurll = \"x\"\n[session]\nlease_duration = 5\nmargin = [1]\n";
        let mut faults = Faults::default();
        let layer = file(Path::new("simba.toml"), text, &mut faults);
        let found = |name: &str| layer.get(name);
        Settings::from_written(&found, &mut faults);
        let exit = faults.into_exit().expect("faults");
        assert_eq!(exit.code, USAGE);
        for part in [
            "simba.toml:2: \"urll\" is not a setting; did you mean \"url\"?",
            "simba.toml:1: \"a/b\" cannot be a node label",
            "simba.toml:4: \"5\" is not a duration: the unit is missing",
            "simba.toml:5: \"session.margin\" must be a text in quotes",
        ] {
            assert!(exit.message.contains(part), "{part} in {}", exit.message);
        }
    }

    #[test]
    fn contradictions_have_their_own_code() {
        let text = "[session]\nlease_duration = \"5s\"\nrenew_interval = \"4s\"\n";
        let mut faults = Faults::default();
        let layer = file(Path::new("simba.toml"), text, &mut faults);
        find_timing(&|name: &str| layer.get(name), &mut faults);
        let exit = faults.into_exit().expect("a fault");
        assert_eq!(exit.code, CONFIG);
        assert!(exit.message.contains("2 x 4s > 5s"), "{}", exit.message);
    }
}
