"""Densities of a secret that is a vector of numbers, for the synthetic table of the paper. Nothing else imports this."""
