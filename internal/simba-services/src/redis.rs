//! Redis: alone, with a replica and Sentinels, as a Cluster.

use std::fs;

use rustix::process::Signal;

use crate::{
    Certificates, Folder, Process, free_port,
    process::{run, try_run, wait_until},
    programs::program,
};

/// A Redis server.
#[derive(Debug)]
pub struct Redis {
    folder: Folder,
    port: u16,
    settings: Vec<String>,
    process: Option<Process>,
    /// Whether the port speaks TLS.
    tls: Option<String>,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

impl Redis {
    /// Starts one that keeps nothing on a disk.
    ///
    /// # Panics
    /// If it does not come up; with what it printed.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts one that keeps everything on a disk.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_durable() -> Self {
        Self::start_with(&["--save", "", "--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts one with these settings.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        Self::launch(settings, None)
    }

    /// Starts one whose port speaks TLS. The certificates are read from their files, which have to last as long.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with_tls(certificates: &Certificates) -> Self {
        let [ca, cert, key] = [certificates.ca(), certificates.cert(), certificates.key()]
            .map(|path| path.display().to_string());
        let tls = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        let more = ["--tls-auth-clients", "no", "--save", "", "--appendonly", "no"];
        Self::launch(&[&tls[..], &more].concat(), Some(ca.clone()))
    }

    fn launch(settings: &[&str], tls: Option<String>) -> Self {
        let (folder, port) = (Folder::new(None), free_port());
        let mut server = Self { folder, port, settings: words(settings), process: None, tls };
        server.start_again();
        server
    }

    /// Starts it again, on the same port and with what it has kept.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) {
        let port = self.port.to_string();
        let at = if self.tls.is_some() {
            ["--port", "0", "--tls-port", &port]
        } else {
            ["--port", &port, "--tls-port", "0"]
        };
        let mut command = words(&[&program("redis-server")]);
        command.extend(words(&at));
        command.extend(words(&["--bind", "127.0.0.1", "--dir", &self.folder.text("")]));
        command.extend(self.settings.iter().cloned());
        let process = Process::start(&command, None, &self.folder.join("log"));
        self.process = Some(process);
        wait_until("Redis is ready", || {
            assert!(self.process().is_running(), "Redis did not start:\n{}", self.process().log());
            self.try_cli(&["ping"]).is_ok_and(|answer| answer == "PONG")
        });
    }

    /// Kills it, as a loss of power would.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Stops it in order.
    pub fn stop(&self) {
        self.process().stop(Signal::TERM);
    }

    /// The process.
    ///
    /// # Panics
    /// Never: it is there from the start.
    #[must_use]
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("it was started")
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.tls {
            None => format!("redis://127.0.0.1:{}", self.port),
            Some(ca) => format!("rediss://127.0.0.1:{}?ca={ca}", self.port),
        }
    }

    /// Runs a command by the store's own prompt.
    ///
    /// # Panics
    /// If it fails.
    #[must_use]
    pub fn cli(&self, command: &[&str]) -> String {
        self.try_cli(command).unwrap_or_else(|error| panic!("redis-cli {command:?}: {error}"))
    }

    fn try_cli(&self, command: &[&str]) -> Result<String, String> {
        let port = self.port.to_string();
        let mut whole = words(&[&program("redis-cli"), "-h", "127.0.0.1", "-p", &port]);
        if let Some(ca) = &self.tls {
            whole.extend(words(&["--tls", "--cacert", ca]));
        }
        whole.extend(words(command));
        try_run(&whole, None)
    }
}

/// A master, a replica, and three Sentinels that watch them under the name `main`.
#[derive(Debug)]
pub struct Sentinels {
    servers: [Redis; 2],
    sentinels: Vec<(u16, Process)>,
    _folder: Folder,
}

impl Sentinels {
    /// Starts all five, and waits until the replica follows.
    ///
    /// # Panics
    /// If they do not come up.
    #[must_use]
    pub fn start() -> Self {
        let master = Redis::start();
        let port = master.port.to_string();
        let replica =
            Redis::start_with(&["--save", "", "--appendonly", "no", "--replicaof", "127.0.0.1", &port]);
        wait_until("the replica follows", || {
            replica.cli(&["info", "replication"]).contains("master_link_status:up")
        });
        let folder = Folder::new(None);
        let sentinels = (0..3).map(|number| sentinel(&folder, number, &port)).collect();
        let all = Self { servers: [master, replica], sentinels, _folder: folder };
        wait_until("the Sentinels know each other", || {
            all.sentinels.iter().all(|(port, _)| {
                let text = ask_sentinel(*port, &["info", "sentinel"]);
                text.contains("slaves=1") && text.contains("sentinels=3")
            })
        });
        all
    }

    /// The two servers: the first master, and its replica.
    #[must_use]
    pub const fn servers(&self) -> &[Redis; 2] {
        &self.servers
    }

    /// The ports of the Sentinels.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(|(port, _)| *port).collect()
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/main", hosts.join(","))
    }

    /// The port of the present master, as the first Sentinel has it.
    #[must_use]
    pub fn master_port(&self) -> Option<u16> {
        let text = ask_sentinel(self.sentinels[0].0, &["sentinel", "get-master-addr-by-name", "main"]);
        text.lines().nth(1)?.trim().parse().ok()
    }
}

fn sentinel(folder: &Folder, number: u32, master: &str) -> (u16, Process) {
    let port = free_port();
    let conf = folder.text(&format!("{number}.conf"));
    let text = format!(
        "port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\ndir {}\n",
        folder.text("")
    );
    fs::write(&conf, text).expect("a folder of ours");
    let process = Process::start(&words(&[&program("redis-sentinel"), &conf]), None, &folder.join("log"));
    wait_until("the Sentinel is ready", || {
        assert!(process.is_running(), "the Sentinel did not start:\n{}", process.log());
        ask_sentinel(port, &["ping"]) == "PONG"
    });
    (port, process)
}

fn ask_sentinel(port: u16, command: &[&str]) -> String {
    let port = port.to_string();
    let to = [&program("redis-cli"), "-h", "127.0.0.1", "-p", &port];
    try_run(&words(&[&to[..], command].concat()), None).unwrap_or_default()
}

/// A Cluster of three masters with a replica each.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Redis>,
}

impl Cluster {
    /// Starts all six, and waits until every replica follows.
    ///
    /// # Panics
    /// If they do not come up.
    #[must_use]
    pub fn start() -> Self {
        let servers: Vec<Redis> = (0..6)
            .map(|_| {
                let bus = free_port().to_string();
                let cluster = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"];
                let more = ["--cluster-port", &bus, "--cluster-node-timeout", "1500"];
                Redis::start_with(&[&cluster[..], &more, &["--save", "", "--appendonly", "no"]].concat())
            })
            .collect();
        let mut create = words(&[&program("redis-cli"), "--cluster", "create"]);
        create.extend(servers.iter().map(|server| format!("127.0.0.1:{}", server.port)));
        create.extend(words(&["--cluster-replicas", "1", "--cluster-yes"]));
        run(&create, None);
        let whole = Self { servers };
        wait_until("the Cluster is whole", || {
            let state = |server: &Redis| server.cli(&["cluster", "info"]).contains("cluster_state:ok");
            let roles: Vec<String> = whole.servers.iter().map(|s| s.cli(&["info", "replication"])).collect();
            let following = roles.iter().filter(|role| role.contains("master_link_status:up")).count();
            whole.servers.iter().all(state) && following == 3
        });
        whole
    }

    /// The servers, masters and replicas.
    #[must_use]
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// The URL: three of the servers, from which the others are found.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().take(3).map(|s| format!("127.0.0.1:{}", s.port)).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The present master of a key's slot.
    #[must_use]
    pub fn master_of(&self, key: &str) -> Option<&Redis> {
        let alive: Vec<&Redis> = self.servers.iter().filter(|s| s.process().is_running()).collect();
        let slot: u32 = alive.first()?.try_cli(&["cluster", "keyslot", key]).ok()?.parse().ok()?;
        alive.into_iter().find(|server| {
            let nodes = server.try_cli(&["cluster", "nodes"]).unwrap_or_default();
            nodes.lines().filter(|line| line.contains("myself,master")).any(|line| {
                line.split_whitespace().skip(8).any(|range| {
                    let (from, to) = range.split_once('-').unwrap_or((range, range));
                    matches!((from.parse::<u32>(), to.parse::<u32>()), (Ok(a), Ok(b)) if (a..=b).contains(&slot))
                })
            })
        })
    }
}
