//! Rules in files and in stores.

codes! {
    /// Changed rules have mistakes. The last good ones, of this generation, stay.
    RULES_REFUSED = "PC501" Error "each time",
        "new rules of the rate limiter are refused",
        "Correct what `findings` says, or the lines of PC502 that follow. `portcullis check FILE` shows them with their lines of the file. Mistakes of `the remote rules` are in the signed document: correct what `portcullis rules push` has sent.";

    /// One of several mistakes in changed rules or descriptor files, with its place.
    FINDING = "PC502" Error "each time, at most 100 lines",
        "",
        "Correct the file at the place that the line begins with. The last good rules stay until then.";

    /// There are more mistakes than the log has lines for.
    MORE_FINDINGS = "PC503" Error "each time",
        "more findings are not logged",
        "Run `portcullis check FILE`, which has all of them.";

    /// Changed descriptor files of Envoy have mistakes. The last good ones apply.
    DESCRIPTORS_REFUSED = "PC504" Error "each time",
        "changed descriptor files are refused, and the last good ones apply",
        "Correct what `findings` says, or the lines of PC502 that follow. `portcullis check FOLDER` shows them with their lines of the file.";

    /// The folder has no descriptor files, so that nothing is limited. The service is not ready until there are some.
    NO_DESCRIPTORS = "PC505" Warn "once, at the start",
        "the folder has no descriptor files, so that nothing is limited",
        "Put the files there, or correct the path: `folder` is the one that was read.";

    /// The rules apply, and some of them probably do not do what is meant, as the line says. `place` and `field` say where.
    RULES_WARNING = "PC506" Warn "each, at the start",
        "",
        "Do what `help` says, if there is one. `portcullis check FILE` shows it with the lines of the file.";

    /// The reader of the files has ended by a mistake in the program. Changes of the files do not apply.
    RULES_UNWATCHED = "PC507" Error "once",
        "the files of the rules are watched no more",
        "Restart the service, and report what was printed before this line.";

    /// The system does not say when files change, as on some network drives. Changes apply at the next look, by default within some seconds.
    NO_FILE_EVENTS = "PC508" Warn "once, until it works again",
        "changes of rules are found by reading the files at intervals",
        "Nothing, if that is soon enough. On Linux raise `fs.inotify.max_user_watches` if `error` speaks of a limit; `--poll` of `portcullis \
         serve` sets the interval.";

    /// The signed document cannot be read from its store. The rules that apply stay: after a start these are the rules of the files alone.
    REMOTE_RULES_UNREADABLE = "PC509" Warn "once, until it works again",
        "remote rules cannot be read: the rules that apply stay",
        "Check the store: `error` says how it fails. The user of Redis needs the right to read the key of the document.";

    /// A quota that was set by hand ends, because the rules have changed since. `by_hand` and `now` are the two quotas.
    HAND_SET_QUOTA_ENDED = "PC510" Warn "each time",
        "changed rules end the quota that was set by hand",
        "Nothing, if the quota of the rules is meant. Otherwise write the other one into the rules.";

    /// The files were changed so that the signed document does not fit them any more. The whole document is discarded: limits that it had
    /// made lower are as high as in the files again.
    DOCUMENT_DISCARDED = "PC511" Error "each time",
        "the signed document does not fit the files, whose values apply",
        "Push a document that fits the files as they are now, or change the files back. `findings` says what does not fit.";
}
