//! A fleet for tests: its server, the keys of its document, and the head of its files.

use portcullis_servers::RedisServer;

use crate::rules::{Folder, portcullis};

pub(crate) struct Fleet {
    pub(crate) folder: Folder,
    redis: RedisServer,
    /// The table of the files, which trust the documents of `rules.key` and not those of `other.key`.
    pub(crate) table: String,
}

impl Fleet {
    pub(crate) fn start(name: &str) -> Self {
        let (folder, redis) = (Folder::new(name), RedisServer::start().unwrap());
        let [verify_key, _] =
            ["rules.key", "other.key"].map(|key| portcullis(&["rules", "keygen", &folder.path(key)]).1);
        let table = format!("[remote]\nverify_key = '{}'\npoll = '20ms'\n", verify_key.trim_end());
        Self { folder, redis, table }
    }

    /// The URL of the services, which may read the document and not write it.
    pub(crate) fn store(&self) -> String {
        self.redis.url()
    }

    /// Writes a document, in place of the present one, that sets the limit of the policy `all`.
    pub(crate) fn push(&self, key: &str, number: u64, limit: u64) {
        self.redis.cli(&["DEL", "portcullis-rules"]).unwrap();
        let changes = self.folder.write("changes.toml", &format!("[policy.all]\nlimit = {limit}\n"));
        let (key, url, number) = (self.folder.path(key), self.redis.admin_url(), number.to_string());
        let push = ["rules", "push", &changes, "--key", &key, "--store", &url, "--at-least", &number];
        let pushed = portcullis(&push);
        assert_eq!(pushed, (0, format!("portcullis-rules has number {number}\n"), String::new()));
    }
}
