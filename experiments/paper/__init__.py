"""The paper's recipe, networks and data sets as it has them, to reproduce its tables. Not part of
the library.
"""
