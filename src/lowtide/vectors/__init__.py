"""Densities of a secret that is a vector of numbers, for the paper's synthetic table. Nothing else imports this."""
