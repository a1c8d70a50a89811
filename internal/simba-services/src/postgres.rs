//! PostgreSQL, a standby of it, and PgBouncer before it.

use std::fs;

use rustix::process::Signal;

use crate::{
    Certificates, Folder, Process, free_port,
    process::{run, try_run, wait_until},
    programs::program,
};

const USER: Option<&str> = Some("postgres");

/// A PostgreSQL server. Everybody on this host may enter, with any password.
#[derive(Debug)]
pub struct Postgres {
    folder: Folder,
    port: u16,
    settings: Vec<String>,
    process: Option<Process>,
    /// Where the files of TLS lie, if there are any.
    keys: Option<Folder>,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

impl Postgres {
    /// Starts one.
    ///
    /// # Panics
    /// If it does not come up; with what it printed.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with further settings, such as `max_connections=10`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        let folder = Folder::new(USER);
        let data = folder.text("data");
        let init = [&program("initdb"), "-D", &data, "-U", "postgres", "-A", "trust", "--no-sync"];
        run(&words(&[&init[..], &["-E", "UTF8", "--locale=C"]].concat()), USER);
        let mut server =
            Self { folder, port: free_port(), settings: words(settings), process: None, keys: None };
        server.start_again();
        server
    }

    /// Starts one that speaks TLS.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with_tls(certificates: &Certificates) -> Self {
        let folder = Folder::new(USER);
        // The server insists on a key file that is its own.
        let [cert, key] = ["server.crt", "server.key"].map(|name| folder.text(name));
        let file = |from: &std::path::Path, to: &str| {
            let text = fs::read(from).expect("a certificate's file");
            fs::write(to, text).expect("a folder of ours");
        };
        file(&certificates.cert(), &cert);
        file(&certificates.key(), &key);
        run(&words(&["chown", "postgres", &cert, &key]), None);
        run(&words(&["chmod", "600", &key]), None);
        let settings = ["ssl=on".to_owned(), format!("ssl_cert_file={cert}"), format!("ssl_key_file={key}")];
        let mut server = Self::start_with(&settings.each_ref().map(String::as_str));
        server.keys = Some(folder);
        server
    }

    /// Starts it again, on the same port and with what it has kept.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) {
        let port = self.port.to_string();
        let sockets = format!("unix_socket_directories={}", self.folder.text(""));
        let mut command = words(&[&program("postgres"), "-D", &self.folder.text("data"), "-p", &port]);
        command.extend(words(&["-c", "listen_addresses=127.0.0.1", "-c", &sockets]));
        for setting in &self.settings {
            command.extend(["-c".to_owned(), setting.clone()]);
        }
        let process = Process::start(&command, USER, &self.folder.join("log"));
        let ready = words(&[&program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", &port]);
        wait_until("PostgreSQL is ready", || {
            assert!(process.is_running(), "PostgreSQL did not start:\n{}", process.log());
            try_run(&ready, None).is_ok()
        });
        self.process = Some(process);
    }

    /// Kills it, as a loss of power would.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Stops it in order.
    pub fn stop(&self) {
        self.process().stop(Signal::INT);
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

    /// The URL of a database, which [`create_database`](Self::create_database) has made, or of `postgres`.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements by `psql`, and answers what they print, without decoration.
    ///
    /// # Panics
    /// If one fails.
    #[must_use]
    pub fn sql(&self, database: &str, sql: &str) -> String {
        self.prompt(database, sql)()
    }

    /// As [`sql`](Self::sql), when it is called, and without a hold on the server until then.
    ///
    /// # Panics
    /// The call does, if a statement fails.
    pub fn prompt(&self, database: &str, sql: &str) -> impl FnOnce() -> String + use<> {
        let port = self.port.to_string();
        let to = [&program("psql"), "-X", "-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-d", database];
        let command = words(&[&to[..], &["-v", "ON_ERROR_STOP=1", "-Atqc", sql]].concat());
        move || run(&command, None)
    }

    /// Makes an empty database.
    ///
    /// # Panics
    /// If there is one of that name.
    pub fn create_database(&self, name: &str) {
        assert_eq!(self.sql("postgres", &format!("create database \"{name}\"")), "");
    }

    /// Starts a standby that follows this server.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn standby(&self) -> Standby {
        let folder = Folder::new(USER);
        let port = self.port.to_string();
        let copy = [&program("pg_basebackup"), "-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
        let data = folder.text("data");
        run(&words(&[&copy[..], &["-D", &data, "-R", "-X", "stream", "-c", "fast"]].concat()), USER);
        let mut server =
            Self { folder, port: free_port(), settings: self.settings.clone(), process: None, keys: None };
        server.start_again();
        Standby(server)
    }
}

/// A server that follows another one.
#[derive(Debug)]
pub struct Standby(Postgres);

impl Standby {
    /// The server, which refuses writes.
    #[must_use]
    pub const fn server(&self) -> &Postgres {
        &self.0
    }

    /// Makes it the primary.
    ///
    /// # Panics
    /// If it does not become one.
    #[must_use]
    pub fn promote(self) -> Postgres {
        assert_eq!(self.0.sql("postgres", "select pg_promote(true, 30)"), "t");
        self.0
    }
}

/// PgBouncer in transaction mode.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    process: Process,
    _folder: Folder,
}

impl PgBouncer {
    /// Starts one before a server.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    pub fn start(server: &Postgres) -> Self {
        let folder = Folder::new(USER);
        let port = free_port();
        let ini = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr=127.0.0.1\n\
             listen_port={port}\nauth_type=any\npool_mode=transaction\ndefault_pool_size=4\nunix_socket_dir =\n\
             logfile={}\npidfile={}\nignore_startup_parameters=extra_float_digits\n",
            server.port,
            folder.text("log"),
            folder.text("pid")
        );
        fs::write(folder.join("ini"), ini).expect("a folder of ours");
        let command = words(&[&program("pgbouncer"), &folder.text("ini")]);
        let process = Process::start(&command, USER, &folder.join("out"));
        wait_until("PgBouncer is ready", || {
            assert!(process.is_running(), "PgBouncer did not start:\n{}", process.log());
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { port, process, _folder: folder }
    }

    /// The process.
    #[must_use]
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a database behind it.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}
