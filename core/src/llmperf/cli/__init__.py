"""The command line: thin commands; small ones share a module."""
