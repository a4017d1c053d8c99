//! Go's spellings of flags, and older ones, as the command line parser knows them.

use std::ffi::OsString;

/// Spells each flag of `args` that is in `known` (long names) the way the parser takes it: `-flag` and `--someFlag`
/// become `--flag` and `--some-flag`, and `--flag=` is left out, as an empty value is the reference's default. A word
/// after one dash is taken for a flag too, so that the parser can name the nearest. Everything else, and all after
/// `--`, stays as it is.
pub fn spelled(args: impl IntoIterator<Item = OsString>, known: &[String]) -> Vec<OsString> {
    let mut literal = false;
    let spell = |arg: OsString| {
        literal |= arg == "--";
        match arg.to_str().filter(|_| !literal).and_then(|arg| long(arg, known)) {
            Some(flag) if flag.ends_with('=') => None,
            Some(flag) => Some(flag.into()),
            None => Some(arg),
        }
    };
    args.into_iter().filter_map(spell).collect()
}

/// The flag with two dashes and in kebab case; none when `arg` is not to be changed.
fn long(arg: &str, known: &[String]) -> Option<String> {
    let flag = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'))?;
    let end = flag.find('=').unwrap_or(flag.len());
    let (name, value) = flag.split_at_checked(end)?;
    let name = kebab(name);
    let word = !arg.starts_with("--")
        && name.len() > 2
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    // A single letter is a short flag, which the parser knows itself.
    (word || (name.len() > 1 && known.contains(&name))).then(|| format!("--{name}{value}"))
}

/// `refreshMetricsInterval` as `refresh-metrics-interval`.
fn kebab(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spell(args: &[&str]) -> Vec<String> {
        let known = ["grpc-port", "pool-name", "v"].map(str::to_owned);
        let args = args.iter().map(OsString::from);
        spelled(args, &known).into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn one_dash_and_camel_case_become_two_dashes_and_kebab_case() {
        assert_eq!(
            spell(&[
                "-grpc-port",
                "1",
                "-poolName=aB",
                "--grpcPort=2",
                "-v=4",
                "-v",
                "3",
                "--pool-name="
            ]),
            ["--grpc-port", "1", "--pool-name=aB", "--grpc-port=2", "-v=4", "-v", "3"]
        );
    }

    #[test]
    fn what_is_no_known_flag_stays() {
        let args = ["--nonSense", "-v4", "-n5", "-5", "value", "--", "-grpc-port"];
        assert_eq!(spell(&args), args);
    }
}
