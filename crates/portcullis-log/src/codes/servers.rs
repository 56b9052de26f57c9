//! The servers of the command `portcullis`: `serve` and `proxy`.

codes! {
    /// A second signal came while requests were being finished. The service ends without them.
    SECOND_SIGNAL = "PC701" Warn "once, at the end",
        "a second signal has arrived: the service ends at once",
        "Nothing if it was you. Otherwise give the service more time to end, such as `terminationGracePeriodSeconds` of Kubernetes.";

    /// The system lets the process open fewer files than its connections may need. Connections beyond are not opened.
    FEW_DESCRIPTORS = "PC702" Warn "once, at the start",
        "the process may open .. files, and with ",
        "Raise the hard limit by `ulimit -Hn`, `LimitNOFILE=` of systemd or `docker run --ulimit nofile=`, or lower `--max-connections`.";

    /// The number of files that the process may open cannot be read or raised. If it is too low, connections are not opened.
    DESCRIPTORS_UNKNOWN = "PC703" Warn "once, at the start",
        "the limit of open files cannot be raised",
        "Compare `ulimit -n` with the number in the line, and raise it for the service.";

    /// Connections had requests in progress when the time to end was over. Their clients got no response.
    REQUESTS_CUT_OFF = "PC704" Warn "once, at the end",
        "requests in progress were cut off",
        "Raise `--drain-timeout`, and what ends the process after that, such as `terminationGracePeriodSeconds` of Kubernetes.";

    /// The system opens no more connections for the service, which tries again twice a second.
    CANNOT_ACCEPT = "PC705" Warn "twice a second while it lasts",
        "cannot accept connections",
        "Most often the process has as many files open as it may: raise the limit as for PC702, or lower `--max-connections`.";

    /// The upstream of `portcullis proxy` gives no response. Clients get 502 or 504; `reason` says why.
    UPSTREAM_FAILED = "PC706" Warn "once in ten seconds",
        "requests got no response of the upstream",
        "Check the upstream, and the URL in `--upstream`. If it is only slow, raise `--connect-timeout` or `--response-timeout`.";

    /// Envoy asks about a domain that no descriptor file has. Such calls are allowed: nothing limits them.
    UNKNOWN_DOMAIN = "PC707" Warn "once a minute",
        "no file has the domain of a call, so that nothing limits it",
        "Compare `domain` of the filter in Envoy's configuration with `domain` of the files.";

    /// The router of the check endpoint is served without the addresses of its peers. Checks get 500.
    CHECK_WITHOUT_PEER = "PC708" Error "each time",
        "the check endpoint finds no address of its peer",
        "Serve the router by `into_make_service_with_connect_info::<SocketAddr>()`.";

    /// A peer that is not among the trusted networks asked for a check, and got 403.
    CHECK_UNTRUSTED = "PC709" Warn "once a minute",
        "a peer that is not trusted asked for a check, and got 403",
        "If it is a proxy of yours, name its network by `--trust`, in code by `CheckEndpoint::trust`. Otherwise keep the port from others.";

    /// A proxy asks for checks in a form that cannot be read, as the line says. They get 400.
    CHECK_MALFORMED = "PC710" Warn "once a minute",
        "a proxy sends malformed checks: ",
        "Compare the configuration of the proxy with the one of its page in \"Ask from a gateway\": a header that describes the request is missing.";
}
