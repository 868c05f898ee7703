"""The subcommands of `atlas`, by topic: each is a function `NAME_command(argv) -> int`."""
