# the CLI
