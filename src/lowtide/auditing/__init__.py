"""Judging a release: attacks with controls, what was changed, what it is still good for, the
verdict in words.
"""
