"""Settings shared by all tests."""

from hypothesis import settings

# The machine decides how long an example takes; a slow one is not a wrong one.
settings.register_profile("lowtide", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("lowtide")
