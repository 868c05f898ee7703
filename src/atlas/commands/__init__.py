"""One module a subcommand of `atlas`, each with `main(argv) -> int`."""
