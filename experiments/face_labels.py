"""Write the labels of GENKI-4K or CelebA, as they are distributed, as the `metadata.csv` that every
verb reads.

The table goes beside the images: `lowtide reproduce face_labels --data DIR`, then `lowtide scan DIR
--secret smile`.
"""

from __future__ import annotations

from lowtide.errors import LowtideError
from lowtide.report.console import parse_arguments
from paper.layouts import write_metadata


def main() -> None:
    """Write the table."""
    options = parse_arguments(__doc__ or "")
    if options.data is None:
        raise LowtideError("name the folder of the images with --data")
    print(f"written: {write_metadata(options.data)}")


if __name__ == "__main__":
    main()
