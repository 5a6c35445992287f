"""`python -m lowtide`: the program `lowtide`."""

from lowtide.cli.main import app

app(prog_name="lowtide")
