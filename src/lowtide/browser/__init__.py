"""A model of texts in a browser: as one page, and as an extension; nothing that is typed leaves
it.
"""
