"""Attackers, fixed and retrained, and what their success proves."""
