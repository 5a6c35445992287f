"""The same batch callable over many processes or machines."""
