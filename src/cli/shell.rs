//! Help for shells: completions and the manual page, from the same table as the parser.

use std::io;

use clap::Args;
use clap_complete::Shell;

use crate::cli::say;

/// Prints the completions of a shell.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct CompletionsArgs {
    /// Which shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Writes the completions of `command` to standard output.
pub(super) fn completions(mut command: clap::Command, args: CompletionsArgs) -> io::Result<()> {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    say(&script)
}

/// Writes the manual page of `command` to standard output, in troff.
pub(super) fn man(command: clap::Command) -> io::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    say(&page)
}
