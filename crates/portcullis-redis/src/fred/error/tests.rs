//! The classification of errors.

use super::*;
use crate::transport::ConnectError;

fn sorted(text: &'static str) -> CallError {
    call_error(&Error::new(ErrorKind::Unknown, text), false)
}

#[test]
fn errors_are_classified_by_what_may_have_happened() {
    assert!(sorted("NOSCRIPT No matching script.").is_no_script());
    for moving in [
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "MOVED 0 127.0.0.1:1",
        "ASK 0 127.0.0.1:1",
        "Too many redirections.",
    ] {
        assert!(matches!(sorted(moving), CallError::Moving(_)), "{moving}");
    }
    assert!(matches!(sorted("NOPERM this user has no permissions"), CallError::Denied(_)));
    for undone in ["Failed to route command.", "LOADING Redis is loading", "BUSY Redis is busy"] {
        assert!(matches!(sorted(undone), CallError::Unavailable(_)), "{undone}");
    }
    for unknown in ["CLUSTERDOWN The cluster is down", "Too many failed write attempts.", "channel closed"] {
        assert!(sorted(unknown).fate_unknown(), "{unknown}");
    }
    assert!(!sorted("OOM command not allowed").fate_unknown());
}

#[test]
fn clusterdown_did_nothing_for_the_next_call_in_flight() {
    let error = Error::new(ErrorKind::Cluster, "CLUSTERDOWN The cluster is down");
    let [next, behind] = [true, false].map(|next| call_error(&error, next));
    assert!(next.is_cluster_down() && behind.is_cluster_down());
    assert!(!next.fate_unknown() && behind.fate_unknown());
}

#[test]
fn a_broken_connection_has_a_readable_message() {
    let broken = std::io::Error::from_raw_os_error(104);
    let words = call_error(&Error::from(broken), false).to_string();
    assert!(words.contains("Connection reset by peer") && !words.contains("Os {"), "{words}");
}

#[test]
fn a_full_server_error_names_the_fix() {
    let words = sorted("OOM command not allowed when used memory > 'maxmemory'.").to_string();
    assert!(words.contains("raise its `maxmemory`"), "{words}");
    // Any eviction policy drops active limits; a warning at start-up is about that.
    assert!(!words.contains("maxmemory-policy"), "{words}");
}

#[test]
fn only_a_refusal_of_the_command_refuses_the_command() {
    for refused in [
        "NOPERM this user has no permissions to run the 'script|load' command",
        "NOPERM User limits has no permissions to run the 'eval' command",
        "NOPERM this user has no permissions to run the 'script' command or its subcommand",
        "ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' 'return 1' ",
        "ERR unknown subcommand 'LOAD'. Try SCRIPT HELP.",
    ] {
        assert!(sorted(refused).refuses_command(), "{refused}");
    }
    for ran in [
        "NOPERM No permissions to access a key",
        "NOAUTH Authentication required.",
        "ERR The user executing the script can't run this command or subcommand script: 1a, on @user_script:1.",
        "ERR ACL failure in script: User u has no permissions to run the 'set' command script: 1a, on @user_script:1.",
        "ERR Unknown Redis command called from script script: 1a, on @user_script:1.",
        "ERR Could not find scripting engine 'lua'",
        "LOADING Redis is loading",
    ] {
        assert!(!sorted(ran).refuses_command(), "{ran}");
    }
}

#[test]
fn two_refusals_name_both_commands_and_a_permission_first() {
    let [load, eval] = ["'script|load'", "'eval'"]
        .map(|command| CallError::Denied(format!("NOPERM no permissions to run the {command} command")));
    let [no_script, no_eval] = ["'SCRIPT'", "'EVAL'"].map(|command| {
        CallError::Server(format!("ERR unknown command {command}, with args beginning with: "))
    });
    for (load, eval, words) in [
        (&load, &eval, ["'script|load'", "'eval'"]),
        (&load, &no_eval, ["'script|load'", "'EVAL'"]),
        (&no_script, &eval, ["'SCRIPT'", "'eval'"]),
    ] {
        let CallError::Denied(reply) = CallError::neither(load.clone(), eval.clone()) else { panic!() };
        assert!(words.iter().all(|word| reply.contains(word)), "{reply}");
        let error = ConnectError::from_reply("redis://a", &reply).unwrap();
        assert!(matches!(error, ConnectError::Permission { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains("+evalsha +script|load") && error.contains("+evalsha +eval"), "{error}");
    }
    let CallError::Server(reply) = CallError::neither(no_script, no_eval) else { panic!() };
    let error = ConnectError::from_reply("redis://a", &reply);
    assert!(matches!(error, Some(ConnectError::Scripting { .. })), "{error:?}");
}
