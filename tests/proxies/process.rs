//! Proxy processes, which end with the test.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A running proxy. It is killed when it is dropped, and also when the test is killed: the shell that started it kills it when
/// standard input closes.
pub(crate) struct Proxy {
    shell: Child,
}

impl Proxy {
    /// Runs nginx with the given content of its `http` block, and waits until it listens.
    pub(crate) fn nginx(http: &str, listening: SocketAddr) -> Self {
        let directory = directory(listening);
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("    {kind}_temp_path {kind};\n"))
            .concat();
        let configuration = format!(
            "daemon off;\nmaster_process off;\nerror_log stderr error;\npid nginx.pid;\n\
             events {{}}\nhttp {{\n    access_log off;\n{temporary}{http}}}\n"
        );
        fs::write(directory.join("proxy.conf"), configuration).unwrap();
        Self::start(&directory, listening, &["nginx", "-e", "stderr", "-p", ".", "-c", "proxy.conf"])
    }

    /// Runs HAProxy with the given sections, and waits until it listens.
    pub(crate) fn haproxy(sections: &str, listening: SocketAddr) -> Self {
        let directory = directory(listening);
        let configuration = format!(
            "defaults\n    timeout connect 10s\n    timeout client 10s\n    timeout server 10s\n\n{sections}"
        );
        fs::write(directory.join("proxy.conf"), configuration).unwrap();
        Self::start(&directory, listening, &["haproxy", "-db", "-f", "proxy.conf"])
    }

    /// Runs Prometheus in a directory that has its configuration, `prometheus.yml`, and waits until it listens.
    pub(crate) fn prometheus(directory: &PathBuf, listening: SocketAddr) -> Self {
        let address = format!("--web.listen-address={listening}");
        let arguments = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"];
        Self::start(directory, listening, &[&["prometheus", &address], &arguments[..]].concat())
    }

    fn start(directory: &PathBuf, listening: SocketAddr, command: &[&str]) -> Self {
        let log = directory.join("log");
        // Debian installs them in a directory that is not in every user's path.
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
        let mut shell = Command::new("sh")
            .args(["-c", SHELL])
            .args(command)
            .current_dir(directory)
            .env("PATH", path)
            .env("DIRECTORY", directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let end = Instant::now() + LONGEST_START;
        while TcpStream::connect(listening).is_err() {
            if shell.try_wait().unwrap().is_some() || Instant::now() > end {
                let log = fs::read_to_string(&log).unwrap_or_default();
                end_with(&mut shell);
                panic!("{command:?} does not start; `cargo xtask test --all tools` installs it. {log}");
            }
            thread::sleep(Duration::from_millis(5));
        }
        Self { shell }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        end_with(&mut self.shell);
    }
}

/// Returns an address of the loopback with a free port.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap()
}

pub(crate) fn directory(listening: SocketAddr) -> PathBuf {
    let name = format!("portcullis-proxy-{}-{}", std::process::id(), listening.port());
    let directory = std::env::temp_dir().join(name);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Closes the shell's standard input and waits for the shell, which waits for the proxy.
fn end_with(shell: &mut Child) {
    drop(shell.stdin.take());
    let _: io::Result<_> = shell.wait();
}

/// Runs `$0 "$@"` until it ends by itself or standard input closes.
const SHELL: &str = r#"exec 3<&0
"$0" "$@" </dev/null 3<&- &
server=$!
{ read -r _ <&3; kill -KILL $server; } 2>/dev/null &
reader=$!
wait $server
kill $reader 2>/dev/null
cd / && rm -rf "$DIRECTORY""#;
const LONGEST_START: Duration = Duration::from_secs(10);
