//! Stores: Redis, and the home store of regions.

codes! {
    /// The store does not decide. The failure mode of each policy applies, which `meanwhile` lists with the routes: by default each
    /// instance enforces the whole limit by itself.
    STORE_FAILED = "PC301" Warn "once per outage",
        "the store of the rate limiter cannot answer",
        "Look for PC304 or PC305 to PC313 near this line: they have the reason. Otherwise `error` has it. \"When the store fails\" \
         says what clients get meanwhile. No service needs a restart.";

    /// The outage lasts longer than the time for which these policies are open. Their requests are rejected from here on.
    STORE_STILL_FAILED = "PC302" Warn "once per outage and time",
        "the store of the rate limiter still cannot answer, for longer than a policy is open",
        "As for PC301. If requests have to pass meanwhile, `on_store_failure` of the policies decides.";

    /// More checks are made than the store answers in time. Those beyond get 503. This is no outage.
    STORE_OVERLOADED = "PC303" Warn "once a minute",
        "the store of the rate limiter is overloaded: requests are rejected with 503",
        "If one client causes it, limit it by address in front. Otherwise give Redis more CPU or use a cluster, raise its deadline, or let \
         policies with many requests for one key lease.";

    /// The connection to Redis, or to a node of its cluster, is gone or gets no replies. `reason` says why.
    REDIS_DOWN = "PC304" Warn "once per outage, at most once a second",
        ".. cannot answer",
        "Check the server and the network to it: `redis-cli -h HOST -p PORT PING` from the machine of the service. It is connected again by \
         itself.";

    /// Redis refuses the user or the password.
    REDIS_CREDENTIALS = "PC305" Error "once per outage, at most once a minute",
        ".. refused the credentials: ..",
        "Put the user and the password into the URL of the store, or correct them on the server by `ACL SETUSER`. After a restart the user \
         may be gone: keep users in an ACL file.";

    /// The user may not run a command, or not on these keys. The failure modes of the policies apply.
    REDIS_PERMISSION = "PC306" Error "once per outage, at most once a minute",
        ".. denied its user a command: ..",
        "Give the user the rights that the line names, by `ACL SETUSER`; `ACL LOG` on the server has what was denied.";

    /// Redis does not run Lua scripts, by which it decides.
    REDIS_SCRIPTING = "PC307" Error "once, or once per outage",
        ".. does not run lua scripts: ..",
        "Enable `EVALSHA`, and `SCRIPT LOAD` or `EVAL`, on the server; on Valkey load the module for Lua.";

    /// The server is older than Redis 5.0, in which scripts cannot write after they have read the clock.
    REDIS_OUTDATED = "PC308" Error "once",
        ".. is redis ..: its scripts cannot write after they have read the clock",
        "Update the server, best to 7.0 or later.";

    /// The server does not have the database whose number is in the URL.
    REDIS_DATABASE = "PC309" Error "once, or once per outage",
        ".. has no such database: ..",
        "Leave the number out of the URL of the store, or raise `databases` on the server.";

    /// Something else than Redis answers at this address.
    REDIS_PROTOCOL = "PC310" Error "once, or once per outage",
        ".. does not speak the redis protocol: ..",
        "Correct the host and the port in the URL of the store. If the server expects TLS, use `rediss://`.";

    /// The server is a node of a cluster, and the URL is for a single server.
    REDIS_CLUSTER_NODE = "PC311" Error "once",
        ".. is a node of a cluster, which has only some of the keys",
        "Use `redis-cluster://` or `rediss-cluster://` in the URL of the store.";

    /// The URL is for sentinels, and the server is none.
    REDIS_NOT_SENTINEL = "PC312" Error "once, or once per outage",
        ".. is not a sentinel: ..",
        "Give the port of the sentinels, by default 26379, or use `redis://`.";

    /// The URL is for a cluster, and the server is in none.
    REDIS_NOT_CLUSTER = "PC313" Error "once, or once per outage",
        ".. is not part of a cluster: ..",
        "Use `redis://` or `rediss://` in the URL of the store.";

    /// When the memory of Redis is full, it drops limits that count. Their clients get the full limit again.
    REDIS_EVICTS = "PC314" Warn "once, when Redis is connected",
        "when its memory of .. bytes is full, redis evicts active limits",
        "Set `maxmemory-policy` to `noeviction`, or keep limits on a server of their own.";

    /// The version of Redis is older than all versions with which this one was tested.
    REDIS_OLD = "PC315" Warn "once, when Redis is connected",
        "redis .. is older than the oldest tested version",
        "Update the server.";

    /// The region cannot buy from the home store, and admits its own share of each limit alone.
    HOME_SILENT = "PC316" Warn "once a minute",
        "the home store does not answer: the region has its share of each limit only",
        "Check the home store and the network between the regions: `error` says how it fails. Purchases go on by themselves.";

    /// The URL of the store cannot be read.
    REDIS_URL = "PC317" Error "at the start",
        ".. is not a redis url: ..",
        "Correct the URL: the line names its mistake and the schemes that there are.";

    /// The URL asks for TLS, and the program was built without it.
    REDIS_TLS_DISABLED = "PC318" Error "at the start",
        ".. needs tls: enable the feature ..",
        "Build the program with the feature `redis-tls` of `portcullis`. The command `portcullis` has it.";

    /// This machine has no certificates of authorities that TLS could trust.
    REDIS_TLS = "PC319" Error "at the start",
        "tls cannot be set up: ..",
        "Install the certificates of the system, such as the package `ca-certificates`, or give those of your authority by `--store-ca`, in \
         code by `root_certificate`.";

    /// The file with the certificate of your authority cannot be used.
    REDIS_ROOT_CERTIFICATE = "PC320" Error "at the start",
        "the root certificate cannot be used: ..",
        "Give a file in PEM by `--store-ca`, which begins with `-----BEGIN CERTIFICATE-----`.";
}
