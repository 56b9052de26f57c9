//! Prints what is wrong with files.

use std::io::{self, IsTerminal, Write};

use ariadne::{Config, IndexType, Label, Report, ReportKind};
use clap::ValueEnum;
use portcullis_config::{Diagnostic, Diagnostics, Location, Severity};
use portcullis_log::codes;
use serde_json::json;

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// With the lines of the file at fault.
    #[default]
    Text,
    /// A line for each finding: `file:line:column: severity: field: message`.
    Line,
    /// A JSON object for each finding, in a line of its own.
    Json,
}

/// Writes all findings to standard output. Text goes with colours if that is a terminal.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn print(findings: &Diagnostics, format: OutputFormat) -> io::Result<()> {
    write(io::stdout().lock(), findings, format)
}

/// Writes all findings to standard error, with the lines of the files, for commands whose output is data. With colours if it is a
/// terminal.
///
/// # Errors
///
/// If standard error cannot be written.
pub fn print_beside_output(findings: &Diagnostics) -> io::Result<()> {
    write(io::stderr().lock(), findings, OutputFormat::Text)
}

/// What was loaded, with its warnings or errors on standard error. `None` if there are errors.
///
/// # Errors
///
/// If standard error cannot be written.
pub fn usable<T>(
    loaded: Result<T, Diagnostics>,
    warnings: impl FnOnce(&T) -> &Diagnostics,
) -> io::Result<Option<T>> {
    print_beside_output(match &loaded {
        Ok(loaded) => warnings(loaded),
        Err(findings) => findings,
    })?;
    Ok(loaded.ok())
}

/// What a service has loaded, with its warnings in the log, a line for each. `None` if there are errors, which are lines on standard error:
/// the log goes there as well, and programs read it by lines.
///
/// # Errors
///
/// If standard error cannot be written.
pub fn usable_by_service<T>(
    loaded: Result<T, Diagnostics>,
    warnings: impl FnOnce(&T) -> &Diagnostics,
) -> io::Result<Option<T>> {
    match loaded {
        Ok(loaded) => {
            let warnings = warnings(&loaded);
            for one in warnings.iter() {
                let place = warnings.location(one).map(tracing::field::display);
                let (field, help) =
                    (Some(&*one.field).filter(|field| !field.is_empty()), one.help.as_deref());
                if one.severity == Severity::Note {
                    tracing::info!(place, field, help, "{}", one.message);
                } else {
                    tracing::warn!(code = %codes::RULES_WARNING, place, field, help, "{}", one.message);
                }
            }
            Ok(Some(loaded))
        }
        Err(findings) => {
            write(io::stderr().lock(), &findings, OutputFormat::Line)?;
            Ok(None)
        }
    }
}

/// Whether a terminal is to have colours.
pub fn has_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn write(mut out: impl Write + IsTerminal, findings: &Diagnostics, format: OutputFormat) -> io::Result<()> {
    let colours = out.is_terminal() && has_colours();
    match format {
        OutputFormat::Text => {
            findings.iter().try_for_each(|one| write_snippet(&mut out, findings, one, colours))
        }
        OutputFormat::Line if findings.iter().len() > 0 => writeln!(out, "{findings}"),
        OutputFormat::Line => Ok(()),
        OutputFormat::Json => findings.iter().try_for_each(|one| writeln!(out, "{}", object(findings, one))),
    }
}

fn object(findings: &Diagnostics, one: &Diagnostic) -> serde_json::Value {
    let place = findings.location(one);
    let end = one.span.map(|span| {
        let end = portcullis_config::Span { start: span.end, ..span };
        findings.sources().location(end)
    });
    let number = |place: &Option<Location>, get: fn(&Location) -> usize| place.as_ref().map(get);
    json!({
        "file": place.as_ref().map(|place| place.file.display().to_string()),
        "line": number(&place, |place| place.line),
        "column": number(&place, |place| place.column),
        "end_line": number(&end, |place| place.line),
        "end_column": number(&end, |place| place.column),
        "severity": name(one.severity),
        "field": one.field,
        "message": one.message,
        "help": one.help,
    })
}

fn write_snippet(
    out: &mut impl Write,
    findings: &Diagnostics,
    one: &Diagnostic,
    colours: bool,
) -> io::Result<()> {
    let source = one.span.and_then(|span| Some((span, findings.sources().get(span.file)?)));
    let Some((span, source)) = source else {
        writeln!(out, "{}: {}", name(one.severity), one.message)?;
        return one.help.iter().try_for_each(|help| writeln!(out, "  help: {help}"));
    };
    let file = source.name.display().to_string();
    let kind = match one.severity {
        Severity::Note => ReportKind::Advice,
        Severity::Warning => ReportKind::Warning,
        _ => ReportKind::Error,
    };
    let place = (file.clone(), span.start..span.end);
    let config = Config::default().with_index_type(IndexType::Byte).with_color(colours);
    let mut report = Report::build(kind, place.clone())
        .with_config(config)
        .with_message(&one.message)
        .with_label(Label::new(place).with_message(&one.field));
    if let Some(help) = &one.help {
        report.set_help(help);
    }
    report.finish().write(ariadne::sources([(file, &source.text)]), &mut *out)
}

const fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        _ => "error",
    }
}
