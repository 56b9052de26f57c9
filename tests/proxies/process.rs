//! Proxy processes, which end with the test.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
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

    /// Runs Envoy with this configuration, and waits until it listens.
    pub(crate) fn envoy(configuration: &str, listening: SocketAddr) -> Self {
        let directory = directory(listening);
        fs::write(directory.join("proxy.yaml"), configuration).unwrap();
        let envoy = std::env::var("PORTCULLIS_ENVOY");
        let envoy = envoy
            .expect("PORTCULLIS_ENVOY is the path of Envoy: `cargo xtask test --all proxies` fetches it");
        let arguments =
            ["-c", "proxy.yaml", "--disable-hot-restart", "--log-level", "error", "--concurrency", "1"];
        Self::start(&directory, listening, &[&[envoy.as_str()], &arguments[..]].concat())
    }

    /// Runs HAProxy with these files, of which the first is its configuration, and waits until it listens.
    pub(crate) fn haproxy_files(files: &[(&str, &str)], listening: SocketAddr) -> Self {
        let directory = directory(listening);
        for (name, content) in files {
            fs::write(directory.join(name), content).unwrap();
        }
        Self::start(&directory, listening, &["haproxy", "-db", "-f", files[0].0])
    }

    /// Runs Caddy with a Caddyfile, and waits until it listens.
    pub(crate) fn caddy(caddyfile: &str, listening: SocketAddr) -> Self {
        let directory = directory(listening);
        fs::write(directory.join("Caddyfile"), caddyfile).unwrap();
        let caddy = std::env::var("PORTCULLIS_CADDY").unwrap_or_else(|_| {
            panic!("PORTCULLIS_CADDY is not set; `cargo xtask test --all` fetches Caddy and sets it")
        });
        Self::start(
            &directory,
            listening,
            &[&caddy, "run", "--config", "Caddyfile", "--adapter", "caddyfile"],
        )
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
            // Where Caddy keeps what it has to remember.
            .env("XDG_CONFIG_HOME", directory)
            .env("XDG_DATA_HOME", directory)
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

/// Returns an address of the loopback with a free port, another one each time. It is below the ports that the system gives to clients and
/// above those of the Redis servers, so that nothing takes it before the proxy listens.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id().wrapping_mul(7_919);
    let mut addresses = (0..COUNT).map(|_| {
        let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let offset = u16::try_from(first.wrapping_add(next) % u32::from(COUNT)).unwrap();
        SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + offset))
    });
    addresses.find(|address| TcpListener::bind(address).is_ok()).expect("a port is free")
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
const LONGEST_START: Duration = Duration::from_secs(60);
/// The first port of proxies, and how many there are.
const FIRST: u16 = 31_001;
const COUNT: u16 = 1_700;
