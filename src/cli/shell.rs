//! Help for shells: completions and manual pages, from the same table as the parser.

use std::io;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::cli::{USAGE, fail, say, told};

/// Prints the completions of a shell.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct CompletionsArgs {
    /// Which shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the manual page, in troff.
#[derive(Args, Clone, Debug)]
pub(super) struct ManArgs {
    /// The page of this subcommand, not that of `lodesman` itself.
    #[arg(value_name = "SUBCOMMAND")]
    subcommand: Option<String>,
}

/// Writes the completions of `command` to standard output.
pub(super) fn completions(command: clap::Command, args: CompletionsArgs) -> io::Result<()> {
    say(&script(command, args.shell))
}

/// Writes a manual page of `command` to standard output, in troff.
pub(super) fn man(command: clap::Command, args: &ManArgs) -> ExitCode {
    if let Some(page) = page(command, args.subcommand.as_deref()) {
        return told(page.and_then(|page| say(&page)));
    }
    let name = args.subcommand.as_deref().unwrap_or_default();
    fail(USAGE, &format!("there is no subcommand `{name}`: lodesman --help lists them"))
}

fn script(mut command: clap::Command, shell: Shell) -> Vec<u8> {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
}

/// None when there is no such subcommand.
fn page(mut command: clap::Command, subcommand: Option<&str>) -> Option<io::Result<Vec<u8>>> {
    let mut page = Vec::new();
    let man = if let Some(name) = subcommand {
        command.build();
        let found = command.find_subcommand(name)?.clone();
        clap_mangen::Man::new(found).title(format!("lodesman-{name}"))
    } else {
        clap_mangen::Man::new(command)
    };
    Some(man.render(&mut page).map(|()| page))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueEnum};

    use super::*;
    use crate::cli::Cli;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    fn names() -> Vec<String> {
        let names: Vec<_> =
            Cli::command().get_subcommands().map(|it| it.get_name().to_owned()).collect();
        assert!(names.iter().any(|name| name == "top"), "{names:?}");
        names
    }

    #[test]
    fn every_shell_completes_every_subcommand_and_its_flags() {
        for shell in Shell::value_variants() {
            let script = text(script(Cli::command(), *shell));
            for name in names() {
                assert!(script.contains(&name), "{shell} does not know {name}");
            }
        }
        let bash = text(script(Cli::command(), Shell::Bash));
        for command in Cli::command().get_subcommands() {
            let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
            for flag in flags.filter_map(|flag| flag.get_long()) {
                assert!(bash.contains(&format!("--{flag}")), "{} --{flag}", command.get_name());
            }
        }
    }

    #[test]
    fn the_manual_names_every_subcommand_and_each_has_a_page() {
        let whole = text(page(Cli::command(), None).unwrap().unwrap());
        for name in names() {
            let entry = format!("lodesman\\-{name}");
            assert!(whole.contains(&entry), "{name} is not in the manual");
            let own = text(page(Cli::command(), Some(&name)).unwrap().unwrap());
            assert!(own.contains(".SH SYNOPSIS") && own.contains(&name), "{own}");
        }
        let top = text(page(Cli::command(), Some("top")).unwrap().unwrap());
        assert!(top.contains("interval") && top.contains("Examples:"), "{top}");
        assert!(page(Cli::command(), Some("nonsense")).is_none());
    }
}
