"""The frozen result for texts: what to hide or draw anew, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.raw_past import RawPast, is_raw_past
from lowtide.disclose.row_keys import keys_of
from lowtide.disclose.saved import Hider, Parts, Tensors, reading
from lowtide.errors import LowtideError
from lowtide.texts.contexts import ContextLaw
from lowtide.texts.encoder import TextEncoder, as_texts
from lowtide.texts.policies import FixedTerms, TermPolicy
from lowtide.texts.redraw_policy import RedrawWords
from lowtide.texts.rewriting import ReleasedTexts, Rewriter, rewritten, text_ids
from lowtide.texts.terms import Vocabulary

_POLICIES: dict[str, Callable[..., TermPolicy]] = {
    policy.name: policy.read for policy in (FixedTerms, RedrawWords)
}


@dataclass(frozen=True, eq=False)
class TextHider(Hider):
    """Hides in texts what a policy says.

    Attributes:
        policy: what to hide.
        mechanism: what becomes of it.
        card: what is known of the release it was rehearsed with.
    """

    kind: ClassVar[str] = "texts"
    policy: TermPolicy
    mechanism: Rewriter
    card: ReleaseCard

    @property
    def names(self) -> tuple[str, ...]:
        """The terms."""
        return self.mechanism.encoder.vocabulary.terms

    @property
    def draws(self) -> bool:
        """Whether a release draws random numbers."""
        return self.mechanism.draws or isinstance(self.policy, RedrawWords)

    def transform(
        self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None
    ) -> ReleasedTexts:
        """Hide in texts.

        Args:
            x: n texts, as a list or a column.
            noise: where substitutes are drawn from, if words are replaced.
            ids: (n,) one value per text that stays with it, which substitutes are keyed by; by
                default what it says.
        """
        if isinstance(self.policy, RedrawWords):
            raise LowtideError(
                "redraw needs the secret of every text: release texts that have it, with redraw()"
            )
        listed = as_texts(x)
        numbers = None
        if self.mechanism.draws:
            numbers = text_ids(listed) if ids is None else row_ids(ids, len(listed))
        return self.mechanism.write(listed, self.policy, noise=noise, ids=numbers)

    def redraw(
        self, x: Any, secret: Iterable[Any], *, noise: KeyedNoise | None, ids: Any = None
    ) -> ReleasedTexts:
        """Redraw words of texts.

        Args:
            x: n texts, as a list or a column.
            secret: their secret.
            noise: where draws come from.
            ids: (n,) one value per text that stays with it, which draws are keyed by; by default
                what it says.
        """
        if not isinstance(self.policy, RedrawWords):
            raise LowtideError(
                f"the policy {self.policy.name!r} draws nothing anew; call transform()"
            )
        if noise is None:
            raise LowtideError(
                "redraw draws random numbers, and there is no key to draw them with; give a key"
                " file"
            )
        listed = as_texts(x)
        values = list(secret)
        if len(values) != len(listed):
            raise LowtideError(
                f"there are {len(listed)} texts and {len(values)} values of the secret; give one"
                " each"
            )
        numbers = keys_of(text_ids(listed)) if ids is None else row_ids(ids, len(listed))
        placed, codes = self.policy.draw(listed, values, noise=noise, ids=numbers)
        return rewritten(listed, placed, codes, self.policy.vocabulary)

    def flags(
        self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None
    ) -> sparse.csr_array:
        """Which terms are hidden of each text, (n, m) sparse booleans; noise does not matter."""
        texts = as_texts(x)
        vocabulary = self.mechanism.encoder.vocabulary
        found = [
            np.array([column for column, _ in vocabulary.find(text)], dtype=np.intp)
            for text in texts
        ]
        hidden = [
            np.unique(columns[flags])
            for columns, flags in zip(found, self.policy.flags(texts, found), strict=True)
        ]
        columns = np.concatenate([np.zeros(0, dtype=np.intp), *hidden])
        ends = np.cumsum([0, *(len(terms) for terms in hidden)])
        return sparse.csr_array(
            (np.ones(len(columns), bool), columns, ends), shape=(len(texts), len(vocabulary))
        )

    def mechanism_parts(self) -> Parts:
        """The rewriter as plain JSON and tensors; the terms are in it."""
        rewriter = self.mechanism
        arrays = {"rewriter.hidden": rewriter.hidden, "rewriter.tokens": rewriter.tokens}
        arrays["similar"] = rewriter.encoder.similar
        plain: dict[str, Any] = {
            "how": rewriter.how,
            "mark": rewriter.mark,
            "encoder": rewriter.encoder.to_config(),
        }
        if rewriter.fill is not None:
            plain["fill"] = "redraw"
            arrays |= {f"fill.{name}": array for name, array in rewriter.fill.arrays().items()}
        return plain, {name: np.array(array) for name, array in arrays.items()}

    @classmethod
    def from_parts(
        cls, config: Mapping[str, Any], tensors: Tensors, where: str | Path
    ) -> TextHider:
        """Rebuild what `parts` took apart; `where` it came from is for the error message."""
        with reading(where):
            plain = config["mechanism"]
            encoder = TextEncoder.from_config(plain["encoder"], tensors["similar"])
            arrays = tensors["rewriter.hidden"], tensors["rewriter.tokens"]
            policy = _read_policy(config["policy"], tensors, encoder.vocabulary, where)
            card = ReleaseCard.from_json(config["card"])
            fill = None
            if "fill" in plain:
                own = {name: array for name, array in tensors.items() if name.startswith("fill.")}
                fill = ContextLaw.of_arrays(
                    {name.removeprefix("fill."): array for name, array in own.items()}
                )
            return cls(policy, Rewriter(encoder, plain["how"], *arrays, plain["mark"], fill), card)


def _read_policy(
    config: Mapping[str, Any], tensors: Tensors, vocabulary: Vocabulary, where: Any
) -> TermPolicy:
    if is_raw_past(config):
        return RawPast.read(config, tensors, len(vocabulary), where)
    return _POLICIES[config["name"]](config, tensors, vocabulary, where)
