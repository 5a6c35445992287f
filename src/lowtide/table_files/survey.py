"""A real survey to try Lowtide on: the 1996 American National Election Study, which ships with
statsmodels.
"""

from pathlib import Path

import pyarrow as pa

from lowtide.errors import LowtideError
from lowtide.table_files.writing import Writer

# The 1996 American National Election Study: who would vote for Clinton (0) or Dole (1).
_NAMES = {
    "TVnews": "tv_news",
    "selfLR": "own_place",
    "ClinLR": "clinton_place",
    "DoleLR": "dole_place",
    "PID": "party",
}
_LEFT_OUT = ("logpopul",)  # a copy of another column


def write_survey(path: Path) -> None:
    """Write the survey to a table file, with a column `person` that tells rows apart."""
    table = load_survey()
    table = table.append_column("person", pa.array(range(1, len(table) + 1)))
    with Writer(path, table.schema) as writer:
        writer.write(table)


def load_survey() -> pa.Table:
    """The survey that ships with statsmodels."""
    try:
        from statsmodels.datasets import anes96  # an extra
    except ImportError as error:
        raise LowtideError(
            "the demo needs statsmodels, which is not there: pip install 'lowtide[demo]'"
        ) from error
    frame = anes96.load_pandas().data.drop(columns=list(_LEFT_OUT)).rename(columns=_NAMES)
    whole = [name for name in frame.columns if (frame[name] == frame[name].round()).all()]
    return pa.Table.from_pandas(frame.astype(dict.fromkeys(whole, "int64")), preserve_index=False)
