"""Which patches of a picture show a smile, a release without them, and what attackers still read.
Needs PyTorch.
"""

import numpy as np

from lowtide import audit, plan, release, scan, worlds

world = worlds.drawn_faces(
    size=16
)  # drawn, so that no person is shown; `scan("faces/", "smile")` reads a folder
drawn, smile = world.sample(240, seed=0)
faces = np.rint(255 * world.images(drawn)).astype(np.uint8)

print(scan(faces, smile, patch=4, steps=20, progress=False))  # the mouth reveals most
made = plan(
    faces, smile, patch=4, kept=0.75, steps=20, progress=False
)  # one mask for all, a quarter of the pixels
shared = release(faces, made, progress=False)
print(f"{(shared.data == faces).mean():.0%} of the pixels are as they were")
print(audit(shared.data, faces, smile, attackers=["edges"], progress=False).verdict)
