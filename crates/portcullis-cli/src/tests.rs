//! Writes the page of all commands from their definitions.
//!
//! With `UPDATE_REFERENCE` in the environment the test writes the page instead of comparing it.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::Arguments;

#[test]
fn reference_page_has_all_commands() {
    portcullis_pages::compare("command.md", &page());
}

fn page() -> String {
    let mut command = Arguments::command();
    command.build();
    let mut page = INTRODUCTION.to_owned();
    page += "\n| command | does |\n|---|---|\n";
    let mut sections = String::new();
    for command in shown(&command) {
        list(&mut page, command);
        section(&mut sections, command, None);
    }
    page += &sections;
    page
}

/// The commands below, by name.
fn shown(command: &Command) -> Vec<&Command> {
    let mut shown: Vec<_> =
        command.get_subcommands().filter(|command| command.get_name() != "help").collect();
    shown.sort_by_key(|command| command.get_name());
    shown
}

fn list(page: &mut String, command: &Command) {
    let name = name(command);
    let about = command.get_about().map(sentence).unwrap_or_default();
    writeln!(page, "| [`{name}`](#{}) | {about} |", name.replace(' ', "-")).unwrap();
    for inner in shown(command) {
        list(page, inner);
    }
}

fn section(page: &mut String, command: &Command, parent: Option<&Command>) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let about = if about.ends_with('.') { about } else { about + "." };
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    write!(page, "\n## `{}`\n\n{about}\n\n```text\n{usage}\n```\n", name(command)).unwrap();
    let (rows, repeated) = rows(command, parent);
    let mut headings: Vec<&str> = rows.iter().map(|row| row.heading.as_str()).collect();
    headings.dedup();
    for heading in headings {
        write!(page, "\n| {heading} | default | what it does |\n|---|---|---|\n").unwrap();
        for row in rows.iter().filter(|row| row.heading == heading) {
            writeln!(page, "| `{}` | {} | {} |", row.name, row.default, row.about).unwrap();
        }
    }
    if let Some((other, rows)) = repeated {
        let names: Vec<_> = rows.iter().map(|row| format!("`{}`", row.name.replace("\\|", "|"))).collect();
        let other = name(other);
        let anchor = other.replace(' ', "-");
        write!(page, "\nIt has these options of [`{other}`](#{anchor}), too: {}.\n", names.join(", "))
            .unwrap();
    }
    for inner in shown(command) {
        section(page, inner, Some(command));
    }
}

#[derive(PartialEq)]
struct Row {
    heading: String,
    name: String,
    default: String,
    about: String,
}

/// The rows of a command, by their headings. Apart from them those that a command before it has, too, if they are many.
fn rows<'a>(command: &Command, parent: Option<&'a Command>) -> (Vec<Row>, Option<(&'a Command, Vec<Row>)>) {
    let all = |command: &Command| -> Vec<Row> {
        command.get_arguments().filter(|arg| is_own(arg, parent)).map(row).collect()
    };
    let mut rows = all(command);
    let mut headings: Vec<String> = Vec::new();
    for row in &rows {
        if !headings.contains(&row.heading) {
            headings.push(row.heading.clone());
        }
    }
    rows.sort_by_key(|row| headings.iter().position(|heading| *heading == row.heading));
    let before =
        parent.into_iter().flat_map(shown).take_while(|other| other.get_name() != command.get_name());
    for other in before {
        let known = all(other);
        if rows.iter().filter(|row| known.contains(row)).count() >= MANY {
            let (repeated, own) = rows.into_iter().partition(|row| known.contains(row));
            return (own, Some((other, repeated)));
        }
    }
    (rows, None)
}

/// Whether an argument is neither one of all commands, nor one that the command has from the one above.
fn is_own(arg: &Arg, parent: Option<&Command>) -> bool {
    let is_of_parent = |parent: &Command| parent.get_arguments().any(|other| other.get_id() == arg.get_id());
    let is_inherited = arg.is_global_set() && parent.is_some_and(is_of_parent);
    !matches!(arg.get_id().as_str(), "help" | "version") && !arg.is_hide_set() && !is_inherited
}

fn heading(arg: &Arg) -> String {
    let default = if arg.is_positional() { "argument" } else { "option" };
    arg.get_help_heading().unwrap_or(default).to_lowercase()
}

fn row(arg: &Arg) -> Row {
    let mut shown = Vec::new();
    shown.extend(arg.get_short().map(|short| format!("-{short}")));
    shown.extend(arg.get_long().map(|long| format!("--{long}")));
    let value = match arg.get_value_names() {
        Some(names) if !matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count) => names.join(" "),
        _ => String::new(),
    };
    let name = format!("{} {value}", shown.join(", ")).trim().replace('|', "\\|");
    let help = arg.get_long_help().or(arg.get_help()).map(sentence).unwrap_or_default();
    let values: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), one_line(help)),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count);
    let values =
        if values.is_empty() || is_flag { String::new() } else { format!(" One of {}.", values.join(", ")) };
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.display())).collect();
    let default = match defaults.is_empty() || is_flag {
        true if arg.is_required_set() => "required".to_owned(),
        true => String::new(),
        false => defaults.join(", "),
    };
    Row { heading: heading(arg), name, default, about: help + &values }
}

/// The name with those of the commands around it.
fn name(command: &Command) -> String {
    command.get_bin_name().unwrap_or(command.get_name()).trim_start_matches("portcullis ").to_owned()
}

/// A text for a cell of a table, which ends as a sentence: the definitions have lost their full stops.
fn sentence(text: &StyledStr) -> String {
    let text = one_line(text);
    if text.ends_with(['.', ':']) { text } else { text + "." }
}

/// A text for a cell of a table.
fn one_line(text: &StyledStr) -> String {
    text.to_string().split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The least number of rows that are not repeated.
const MANY: usize = 5;

const INTRODUCTION: &str = "\
# The command

<!-- generated by: UPDATE_REFERENCE=1 cargo test -p portcullis-cli --bin portcullis reference_page -->

Look up here what each command of `portcullis` does, and which arguments, options and exit codes it has.
`portcullis COMMAND --help` prints the same.

`cargo install --locked --path crates/portcullis-cli` installs the command from the sources.

| exit code | meaning |
|---|---|
| 0 | all is well |
| 1 | files have errors, a case differs, a server refuses, or a service could not finish its requests in time |
| 2 | the arguments are invalid, or a command could not begin |

Options of a command, such as `--json` of `admin`, also apply to the commands below it.

| environment variable | meaning |
|---|---|
| `PORTCULLIS_STORE` | the store of `serve` and `proxy`, in place of `--store`. Other users of the machine cannot see it |
| `PORTCULLIS_SECRET` | the secret of the fingerprints in Redis, for `serve` and `proxy`: an id, a colon, and 32 hexadecimal digits |
| `PORTCULLIS_ADMIN_TOKEN` | the token of `admin`, and of the admin API of `serve` and `proxy` |
| `SSL_CERT_FILE` | the certificates that `admin` trusts over `https`, in place of those of the system |
| `NO_COLOR` | no colours, if it is not empty |
";
