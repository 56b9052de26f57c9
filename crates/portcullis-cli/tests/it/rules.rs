//! `portcullis rules` as processes, with a real server.

use std::path::PathBuf;
use std::process::Command;

use portcullis_servers::RedisServer;

/// The exit code, and what is written to standard output and standard error.
pub(crate) fn portcullis(arguments: &[&str]) -> (i32, String, String) {
    portcullis_with(&[], arguments)
}

/// As [`portcullis`], with variables of the environment.
fn portcullis_with(variables: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_remove("SEARCH_LIMIT").env_remove("PORTCULLIS_STORE").envs(variables.iter().copied());
    let output = command.args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The files of one test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file, and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn document_is_signed_pushed_and_shown() {
    let (folder, redis) = (Folder::new("push"), RedisServer::start().unwrap());
    // Limiters may only read documents: operators push as another user.
    let (key, url) = (folder.path("rules.key"), redis.admin_url());
    let (code, out, _) = portcullis(&["rules", "keygen", &key]);
    let verify_key = out.trim_end();
    assert_eq!((code, verify_key.len()), (0, 64), "{out}");

    let show = |verify_key: &str| portcullis(&["rules", "show", "--store", &url, "--verify-key", verify_key]);
    let (code, _, error) = show(verify_key);
    assert!(code == 2 && error.contains("portcullis-rules does not exist"), "{error}");

    let changes =
        folder.write("changes.toml", "[policy.search]\nlimit = \"${SEARCH_LIMIT}\"\nmode = \"shadow\"\n");
    let push = ["rules", "push", &changes, "--store", &url, "--key", &key];
    // The variable has to have a value here: instances do not resolve it.
    let (code, out, _) = portcullis(&push);
    assert!(code == 1 && out.contains("SEARCH_LIMIT is not set"), "{out}");
    for number in ["1", "2"] {
        let pushed = portcullis(&[&push[..], &["--env", "SEARCH_LIMIT=50"]].concat());
        assert_eq!(pushed, (0, format!("portcullis-rules has number {number}\n"), String::new()));
    }
    let (code, out, _) = show(verify_key);
    assert!(code == 0 && out.starts_with("number 2\n"), "{out}");
    assert!(out.contains("50") && out.contains("shadow") && !out.contains("SEARCH_LIMIT"), "{out}");

    // A document of another key does not verify by the first.
    let (_, out, _) = portcullis(&["rules", "keygen", &folder.path("other.key")]);
    let (code, _, error) = show(out.trim_end());
    assert!(code == 2 && !error.is_empty(), "{error}");
    let other = folder.path("other.key");
    let foreign = ["rules", "push", &changes, "--store", &url, "--key", &other, "--env", "SEARCH_LIMIT=50"];
    let (code, _, error) = portcullis(&foreign);
    assert!(code == 2 && !error.is_empty(), "{error}");
    assert!(show(verify_key).1.starts_with("number 2\n"));
}

#[test]
fn documents_are_pushed_where_services_are() {
    let (folder, redis) = (Folder::new("where"), RedisServer::start().unwrap());
    let (key, url) = (folder.path("rules.key"), redis.admin_url());
    assert_eq!(portcullis(&["rules", "keygen", &key]).0, 0);
    let changes = folder.write("changes.toml", "[policy.search]\nlimit = 5\n");
    let push = ["rules", "push", &changes, "--key", &key];
    for nowhere in [portcullis(&push), portcullis(&[&push[..], &["--store", "memory"]].concat())] {
        assert!(nowhere.0 == 2 && nowhere.2.contains("--store or PORTCULLIS_STORE"), "{}", nowhere.2);
    }
    let pushed = portcullis_with(&[("PORTCULLIS_STORE", &url)], &push);
    assert_eq!(pushed, (0, "portcullis-rules has number 1\n".to_owned(), String::new()));
    // A name that the services refuse is refused here as well.
    let named = [&push[..], &["--store", &url, "--namespace", "shop", "--name", "shop:rules"]].concat();
    let (code, _, error) = portcullis(&named);
    assert!(code == 2 && error.contains("is in the namespace"), "{error}");
    let authority = [&push[..], &["--store", &url, "--store-ca", "absent.pem"]].concat();
    let (code, _, error) = portcullis(&authority);
    assert!(code == 2 && error.contains("absent.pem"), "{error}");
}

#[test]
fn key_files_are_kept_and_private() {
    let folder = Folder::new("keygen");
    let key = folder.path("rules.key");
    assert_eq!(portcullis(&["rules", "keygen", &key]).0, 0);
    let before = std::fs::read_to_string(&key).unwrap();
    let (code, out, error) = portcullis(&["rules", "keygen", &key]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(error.contains("cannot create") && error.contains("rules.key"), "{error}");
    assert_eq!(std::fs::read_to_string(&key).unwrap(), before);
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&key).unwrap().permissions()) & 0o777,
        0o600
    );
}

#[test]
fn stores_and_keys_that_are_not_there_are_errors() {
    let folder = Folder::new("absent");
    let changes = folder.write("changes.toml", "[policy.search]\nlimit = 5\n");
    let (key, none) = (folder.path("rules.key"), "redis://127.0.0.1:1");
    let (code, _, error) = portcullis(&["rules", "push", &changes, "--store", none, "--key", &key]);
    assert!(code == 2 && error.contains("rules.key"), "{error}");
    assert_eq!(portcullis(&["rules", "keygen", &key]).0, 0);
    let (code, _, error) = portcullis(&["rules", "push", &changes, "--store", none, "--key", &key]);
    assert!(code == 2 && error.contains("is it running?"), "{error}");
    let (code, _, error) = portcullis(&["rules", "show", "--store", none, "--verify-key", "zz"]);
    assert!(code == 2 && error.contains("64 hexadecimal digits"), "{error}");
}
