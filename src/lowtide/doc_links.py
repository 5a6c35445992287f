"""Where scikit-learn's diagrams of our estimators link to: their entry in the documentation."""

from importlib import metadata

_PAGE = "reference/api.html#{estimator_module}.{estimator_name}"


def site() -> str | None:
    """The address of the documentation that the installed distribution names as its project URL
    `Documentation`.
    """
    try:
        named = metadata.metadata("lowtide").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    addresses = dict(line.split(", ", 1) for line in named)
    return addresses.get("Documentation")


class Documented:
    """A mixin of estimators, before `BaseEstimator`: the link of their diagrams, none where no site
    is named.
    """

    _doc_link_module = "lowtide"

    @property
    def _doc_link_template(self) -> str:
        address = site()
        return "" if address is None else f"{address.rstrip('/')}/{_PAGE}"
