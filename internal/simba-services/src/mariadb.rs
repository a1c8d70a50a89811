//! MariaDB.

use rustix::process::Signal;

use crate::{
    Folder, Process, free_port,
    process::{run, try_run, wait_until},
    programs::program,
};

const USER: Option<&str> = Some("mysql");

/// A MariaDB server with the user `simba`, whose password is `simba`, and `root`, who has none.
#[derive(Debug)]
pub struct MariaDb {
    folder: Folder,
    port: u16,
    settings: Vec<String>,
    process: Option<Process>,
}

impl MariaDb {
    /// Starts one.
    ///
    /// # Panics
    /// If it does not come up; with what it printed.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with further settings, such as `--sysdate-is-now`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        let folder = Folder::new(USER);
        let data = format!("--datadir={}", folder.text("data"));
        let user = if rustix::process::geteuid().is_root() { "--user=mysql" } else { "--skip-name-resolve" };
        let auth = "--auth-root-authentication-method=normal";
        // Each removes what it takes for its own leftovers from the folder for temporary files.
        let tmp = folder.make("tmp");
        let tmp = format!("--tmpdir={tmp}");
        let init =
            [&program("mariadb-install-db"), "--no-defaults", user, &data, auth, &tmp, "--skip-test-db"];
        run(&init.map(str::to_owned), None);
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut server = Self { folder, port: free_port(), settings, process: None };
        server.start_again();
        for host in ["127.0.0.1", "localhost"] {
            let user = format!("create user simba@'{host}' identified by 'simba'");
            let rights = format!("grant all on *.* to simba@'{host}'");
            assert_eq!(server.sql("mysql", &format!("{user}; {rights}")), "");
        }
        server
    }

    /// Starts it again, on the same port and with what it has kept.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) {
        let folder = &self.folder;
        let mut command = vec![
            program("mariadbd"),
            "--no-defaults".to_owned(),
            format!("--datadir={}", folder.text("data")),
            format!("--port={}", self.port),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--socket={}", folder.text("s.sock")),
            format!("--pid-file={}", folder.text("pid")),
            format!("--tmpdir={}", folder.text("tmp")),
            "--skip-name-resolve".to_owned(),
        ];
        command.extend(self.settings.iter().cloned());
        let process = Process::start(&command, USER, &folder.join("log"));
        let port = format!("-P{}", self.port);
        let ping = [&program("mariadb-admin"), "--no-defaults", "-h127.0.0.1", &port, "-uroot", "ping"];
        let ping = ping.map(str::to_owned);
        wait_until("MariaDB is ready", || {
            assert!(process.is_running(), "MariaDB did not start:\n{}", process.log());
            try_run(&ping, None).is_ok()
        });
        self.process = Some(process);
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

    /// The URL of a database, which [`create_database`](Self::create_database) has made.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("mysql://simba:simba@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements as root by the store's own prompt, and answers what they print.
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
        let port = format!("-P{}", self.port);
        let client = program("mariadb");
        let to =
            [&client, "--no-defaults", "-h127.0.0.1", &port, "-uroot", "-N", "-B", "-D", database, "-e", sql];
        let command = to.map(str::to_owned);
        move || run(&command, None)
    }

    /// Makes an empty database.
    ///
    /// # Panics
    /// If there is one of that name.
    pub fn create_database(&self, name: &str) {
        assert_eq!(self.sql("mysql", &format!("create database `{name}`")), "");
    }
}
