//! The command `simba`.

fn main() -> std::process::ExitCode {
    simba_cli::main()
}
