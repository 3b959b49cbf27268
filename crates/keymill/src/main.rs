//! The `keymill` binary: everything is in the library.

fn main() -> std::process::ExitCode {
    keymill::cli::main()
}
