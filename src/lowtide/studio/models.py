"""What REST takes and gives, as pydantic models; OpenAPI is made from them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from lowtide.studio.store import StoredFile, StoredJob

Verb = Literal["scan", "plan", "release", "audit"]
State = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
Kind = Literal["tables", "images", "texts"]
Identity = Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Names = Annotated[list[Name], Field(max_length=2000)]
Options = Annotated[
    dict[str, Any],
    Field(max_length=50, description="of the kind of data, by name; see `options` of a file"),
]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Steps = Annotated[int | None, Field(ge=40, le=1_000_000)]
Amount = float | Annotated[str, StringConstraints(max_length=40)] | None


class _Taken(BaseModel):
    """A request: a field that nobody knows is refused, not passed over."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ScanRequest(_Taken):
    """What leaks: how much the data tells about the secret, and which features tell it."""

    data: Identity = Field(description="a file")
    secret: Names = Field(
        min_length=1, description="column to protect; several are one secret, their product"
    )
    kind: Kind | None = None
    seed: Seed = 0
    steps: Steps = Field(None, description="training steps of the networks")
    options: Options = Field(default_factory=dict)


class PlanRequest(ScanRequest):
    """What to hide or redraw for a budget, at little damage; and the whole trade-off curve."""

    budget: Amount = Field(
        None,
        description=(
            'nats, "0.03bits", or, with the policy `fixed`, "65%", the share an attacker may guess'
            " right"
        ),
    )
    kept: float | None = Field(
        None,
        gt=0,
        le=1,
        description="a share to keep, in place of a budget; of tables with the policy `fixed`",
    )
    policy: Literal["fixed", "redraw", "sequential"] | None = None
    past: Literal["disclosed", "raw"] | None = Field(
        None, description="what the policy sequential goes by"
    )
    mechanism: Name | None = None
    certify: float | None = Field(None, gt=0, lt=1)
    epsilon: float | None = None
    delta: float | None = None
    lam: float | None = None
    utility: Name | None = None
    keep: Names = Field(default_factory=list)
    hide: Names = Field(default_factory=list)


class ReleaseRequest(_Taken):
    """Write the hidden data and its card."""

    data: Identity = Field(description="a file of the layout the plan was made for")
    plan: Identity = Field(description="a job that planned")
    ids: Name | None = Field(
        None,
        description=(
            "column that tells rows apart, where a plan draws; without it a row is recognised by"
            " its content"
        ),
    )
    options: Options = Field(default_factory=dict)


class AuditRequest(_Taken):
    """Attack a release with freshly retrained attackers, and say plainly what is left."""

    release: Identity = Field(description="a job that released, or a file")
    reference: Identity = Field(description="the file before, the same samples", alias="data")
    secret: Names = Field(min_length=1)
    kind: Kind | None = None
    utility: Name | None = None
    known: Names = Field(
        default_factory=list, description="columns that the attacker has of everybody anyway"
    )
    accept: Names = Field(default_factory=list, description="columns that nobody judges")
    attackers: Names | None = None
    fail_above: Amount = None
    epsilon: float | None = Field(0.1, ge=0, le=20)
    seed: Seed = 0
    options: Options = Field(default_factory=dict)

    model_config = ConfigDict(populate_by_name=True)


class WarnRequest(_Taken):
    """Which words of one text give its writer away, before it is posted."""

    text: str = Field(max_length=20_000)
    model: Name = Field(description="a scan of texts, or a model of the project")
    budget: Amount = Field(
        0.5, description='what the text may tell about any class: nats, or "0.7bits"'
    )


class ReviewRequest(_Taken):
    """A reviewer's decision about a release."""

    name: Name
    decision: Literal["approve", "approve with changes", "approve-with-changes", "reject"]
    comment: str = Field("", max_length=2000)
    until: str | None = Field(
        None, max_length=10, description="the last day on which an approval holds, YYYY-MM-DD"
    )


class Problem(BaseModel):
    """What is wrong, as RFC 9457 has it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    field: str | None = None


class Progress(BaseModel):
    """How far a job is."""

    done: int
    total: int = Field(description="0 where nobody knows")
    what: str


class File(BaseModel):
    """A file or folder that jobs read."""

    id: str
    name: str
    kind: str
    bytes: int
    source: Literal["upload", "project", "demo"]

    @classmethod
    def of(cls, stored: StoredFile) -> "File":
        """As it is kept."""
        return cls(
            id=stored.id,
            name=stored.name,
            kind=stored.kind,
            bytes=stored.bytes,
            source=stored.source,
        )


class DescribedColumn(BaseModel):
    """A column of a table, or a label of images."""

    name: str
    type: str
    distinct: int
    missing: int
    example_count: int


class Described(BaseModel):
    """What a file holds."""

    file: File
    rows: int
    columns: list[DescribedColumn]
    preview: list[list[Any]]
    suggested: dict[str, Any]
    options: list[dict[str, Any]]
    thumbnails: int = 0
    notes: list[str] = []


class Job(BaseModel):
    """Work that takes its time."""

    id: str
    verb: Verb
    kind: str
    state: State
    progress: Progress | None
    created: float
    started: float | None
    ended: float | None
    request: dict[str, Any]
    error: Problem | None

    @classmethod
    def of(cls, stored: StoredJob) -> "Job":
        """As it is kept."""
        return cls.model_validate(stored, from_attributes=True)


class Demo(BaseModel):
    """Data that comes with Lowtide."""

    id: str
    title: str
    kind: str


class Model(BaseModel):
    """A fitted model of texts."""

    id: str
    name: str


class Project(BaseModel):
    """What there is to work with."""

    name: str
    version: str
    files: list[File]
    demos: list[Demo]
    models: list[Model]
    limits: dict[str, int]
    torch: bool = Field(description="whether this process has loaded PyTorch")


class Output(BaseModel):
    """A file that a job wrote."""

    name: str
    bytes: int
    what: str = Field(description="data, card, plan, model, report, result, or private")


class Script(BaseModel):
    """What does the same as a job, for a terminal and for Python, run in the project's folder."""

    shell: str
    python: str


class Health(BaseModel):
    """Whether the service runs."""

    status: Literal["ok"] = "ok"
    version: str
