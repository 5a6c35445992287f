"""The command line: thin verbs that call, and do not compute."""
