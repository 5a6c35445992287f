"""Data that comes with Lowtide, to try it on: a survey, drawn faces, generated posts. A process of
its own makes it.

`python -m lowtide.demo_data NAME FOLDER` writes it there.
"""

import csv
import sys
from pathlib import Path
from typing import NamedTuple

from lowtide.errors import LowtideError
from lowtide.files import whole_path

_PEOPLE = 80
_POSTS_EACH = 12
_FACES = 600
_SIDE = 32


class DemoData(NamedTuple):
    """What a demo is called, and what it holds."""

    title: str
    kind: str
    file: str


DEMOS = {
    "election": DemoData(
        "A survey before an election: who would vote for whom (944 people)", "tables", "survey.csv"
    ),
    "faces": DemoData("Drawn faces: who smiles (600 images)", "images", "faces"),
    "posts": DemoData(
        "Posts of people from the coast and from the hills (960 posts)", "texts", "posts.csv"
    ),
}


def make_demo(name: str, folder: Path) -> Path:
    """Write a demo's data into a folder, and say where."""
    if name not in DEMOS:
        raise LowtideError(f"there is no demo {name!r}; there are {', '.join(DEMOS)}")
    place = folder / DEMOS[name].file
    {"election": _election, "faces": _faces, "posts": _posts}[name](place)
    return place


def _election(place: Path) -> None:
    from lowtide.table_files.survey import write_survey  # it imports pyarrow

    write_survey(place)


def _faces(place: Path) -> None:
    import numpy as np
    from PIL import Image

    from lowtide.worlds.faces import drawn_faces

    faces, smiles = drawn_faces(_SIDE).sample(_FACES, seed=0)
    pixels = (
        (np.clip(np.asarray(faces), 0, 1) * 255).astype(np.uint8).reshape(_FACES, _SIDE, _SIDE, 3)
    )
    with whole_path(place) as made:
        made.mkdir()
        with (made / "metadata.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["file_name", "smile"])
            for number, (image, smile) in enumerate(zip(pixels, smiles, strict=True), 1):
                name = f"face{number:04d}.png"
                Image.fromarray(image).save(made / name)
                rows.writerow([name, "yes" if smile else "no"])


_EVERYBODY = (
    "coffee first, then {thing}",
    "finally finished {thing}, so happy",
    "who else is tired of {thing} today",
    "long day, {thing} and then bed",
    "can somebody explain {thing} to me",
    "my sister says {thing} is overrated",
    "{thing} again, third time this week",
    "reading about {thing} all evening",
)
_HOME = (
    "walked {place} before work, {sight}",
    "best {food} in years, right {place}",
    "{sight} this morning {place}",
    "nothing beats {food} after a day {place}",
    "rain all day, still went {place}",
    "took the kids {place}, {sight}",
)
_THINGS = (
    "the tax forms", "my new bike", "the match", "that series", "gardening",
    "the bread recipe", "exams", "the meeting",
    "the concert", "a good book", "the dishes", "work", "chess", "the election",
    "my old laptop", "the neighbours",
)  # fmt: skip
_PLACES = {
    "coast": (
        "by the harbour",
        "on the beach",
        "down at the pier",
        "along the cliffs",
        "near the lighthouse",
    ),
    "hills": (
        "up the ridge",
        "on the old trail",
        "by the cabin",
        "through the pines",
        "near the summit",
    ),
}
_SIGHTS = {
    "coast": (
        "the tide was out",
        "gulls everywhere",
        "the ferry came late",
        "surf was high",
        "fog over the water",
    ),
    "hills": (
        "fresh snow",
        "deer in the meadow",
        "the valley in fog",
        "not a soul around",
        "frost on the grass",
    ),
}
_FOODS = {
    "coast": ("mussels", "fish soup", "grilled sardines", "ice cream"),
    "hills": ("dumplings", "mushroom stew", "goat cheese", "ice cream"),
}


def _posts(place: Path) -> None:
    """Posts by templates: most of them say nothing of where their writer lives, some do."""
    import numpy as np

    rng = np.random.default_rng(0)
    written: set[str] = set()

    def sentence(home: str) -> str:
        if rng.random() >= 0.9:  # people travel
            home = "hills" if home == "coast" else "coast"
        template = str(rng.choice(_HOME if rng.random() < 0.45 else _EVERYBODY))
        words = {
            "thing": _THINGS,
            "place": _PLACES[home],
            "sight": _SIGHTS[home],
            "food": _FOODS[home],
        }
        return template.format(
            **{name: str(rng.choice(choices)) for name, choices in words.items()}
        )

    def one(home: str) -> str:
        """Two sentences that nobody has written: copies would tie their writers to each other in
        every split.
        """
        while (text := f"{sentence(home)}. {sentence(home)}") in written:
            pass
        written.add(text)
        return text

    people = [(f"writer{person:02d}", ("coast", "hills")[person % 2]) for person in range(_PEOPLE)]
    posted = [(one(home), writer, home) for writer, home in people for _ in range(_POSTS_EACH)]
    with place.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["post", "author", "home"])
        rows.writerows(
            posted[k] for k in rng.permutation(len(posted))
        )  # in turn, their order would tell the home


if __name__ == "__main__":
    make_demo(sys.argv[1], Path(sys.argv[2]))
