"""Small data of each kind, always the same: what the golden outputs are recorded from."""

import csv

import numpy as np

from lowtide import worlds

WORDS = [
    "the",
    "a",
    "of",
    "to",
    "we",
    "and",
    "in",
    "is",
    "it",
    "on",
    "for",
    "they",
    "has",
    "was",
    "our",
    "this",
    "that",
    "with",
    "from",
    "at",
]
LEFT = ["climate", "union", "health", "equal", "justice"]
RIGHT = ["border", "tax", "freedom", "market", "faith"]
# What no page to publish may name: labels of the secret, or values of the data that are no ordinary
# words.
LABELS = {
    "people.csv": ("amber", "basil", "north", "south"),
    "survey.csv": ("north", "south"),
    "tweets.csv": ("climate", "freedom"),
    "faces.npz": (),
}


def write_table(path, rows=400, seed=3):
    """`town` and `age` tell the vote; `income` and `height` do not."""
    rng = np.random.default_rng(seed)
    vote = rng.integers(0, 2, rows)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("town", "age", "income", "height", "vote"))
        for s in vote:
            tells = rng.random() < 0.8
            town = (
                ("north", "south")[s] if tells else ("north", "south", "east")[int(rng.integers(3))]
            )
            age = int(np.clip(rng.normal(40 + 8 * s, 12), 18, 90))
            writer.writerow(
                (
                    town,
                    age,
                    round(float(rng.normal(3000, 500)), 2),
                    int(rng.normal(170, 9)),
                    "AB"[s],
                )
            )
    return path


def write_images(path, images=240, seed=4):
    """Drawn faces, whose mouth tells the smile."""
    x, s = worlds.drawn_faces(16).sample(images, seed)
    pixels = np.asarray(x).reshape(images, 16, 16, -1)
    np.savez(
        path,
        images=np.rint(255 * np.clip(pixels, 0, 1)).astype(np.uint8),
        smile=np.array(["no", "yes"])[s],
    )
    return path


def write_texts(path, texts=400, seed=5):
    """Twenty writers; five words each are of one party and seldom of the other."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "author", "party"))
        for i in range(texts):
            author = i % 20
            party = author % 2
            said = list(rng.choice(WORDS, 8))
            for _ in range(2):
                own = rng.random() < 0.8
                said.insert(
                    int(rng.integers(9)),
                    str(rng.choice((LEFT, RIGHT)[party if own else 1 - party])),
                )
            writer.writerow((" ".join(said), f"w{author}", "DR"[party]))
    return path


def write_people(path, rows=400, seed=6):
    """The table with an id for each row, and a column that follows another: `tax` is a fifth of
    `income`.
    """
    rng = np.random.default_rng(seed)
    vote = rng.integers(0, 2, rows)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("person", "town", "age", "income", "tax", "vote"))
        for person, s in enumerate(vote):
            tells = rng.random() < 0.8
            town = (
                ("north", "south")[s] if tells else ("north", "south", "east")[int(rng.integers(3))]
            )
            age = int(np.clip(rng.normal(40 + 8 * s, 12), 18, 90))
            income = round(float(rng.normal(3000, 500)))
            writer.writerow((person, town, age, income, round(income / 5), ("amber", "basil")[s]))
    return path
