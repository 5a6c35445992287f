"""Which words of a text are its writer's, and how hashtags are read: what `warn` looks at, here and
in a browser.

Quoted lines and code are left out, since others wrote them or nobody speaks like that. A hashtag
that the model does not know and that is written #LikeThis is read as its words. The language of a
text is told by its small words, which is enough to say that it is another than that of the texts
that a model was fitted on.
"""

import re
from collections.abc import Container, Iterable
from itertools import pairwise
from typing import NamedTuple

from lowtide.texts.cleaning import cleaner
from lowtide.texts.terms import Term, TermOptions, find_words, join_words

_FENCE = re.compile(r" {0,3}(```|~~~)")
_QUOTED = re.compile(r" {0,3}>")
_INLINE = re.compile(r"`[^`\n]+`")
_HASHES = "#＃"
_LONGEST_TAG = 100  # characters
_NEGATIONS = (
    "no not nor none never neither nobody nothing nowhere cannot without ain't",
    "non ne pas jamais rien sans nunca nada ni sin mai niente senza não nem",
    "nicht kein keine keinen keiner keines nie niemals niemand nichts ohne niet geen nooit",
)
NEGATIONS = frozenset(word for line in _NEGATIONS for word in line.split())
_SMALL_WORDS = {
    "English": (
        "the of and to in is that for it with as was on be at by this are not have from they you "
        "his her she he we will my one all would there their what about which when who if out so "
        "your has its into than them our me an been"
    ),
    "German": (
        "der die das und ist nicht ich sie es ein eine zu den mit sich auf für dem von wir ihr "
        "aber wie auch als im war noch nach bei aus wenn nur oder einen werden durch über sind "
        "haben wird kein mehr uns mich dass hat"
    ),
    "French": (
        "le la les de des et est un une je il elle nous vous que qui dans pour pas sur ce cette "
        "avec plus au par ne se sont mais ou où son sa ses aux être fait comme tout leur très été "
        "même aussi du ont mon ma"
    ),
    "Spanish": (
        "el la los las de que y en un una es por con para no se lo su al como más pero sus le ya "
        "o este sí porque esta entre cuando muy sin sobre también me hasta hay donde quien desde "
        "todo nos durante está son"
    ),
    "Italian": (
        "il lo la gli le di che e è un una per non si con del della sono da al come più ma anche "
        "alla nel nella ha questo questa mi ti ci io loro dei delle ho molto cosa se quando "
        "essere perché suo sua"
    ),
    "Portuguese": (
        "o os as de que e do da em um uma para com não se na no por mais dos das como mas foi ao "
        "ele ela seu sua ou ser quando muito há nos já está eu também só pelo pela até isso são "
        "você"
    ),
    "Dutch": (
        "de het een en van in is dat op te zijn voor met niet aan er om hij ze wij ook als maar "
        "dan nog bij uit naar heeft deze dit wat wordt geen meer over door worden hebben ik je "
        "mijn zo"
    ),
    "Swedish": (
        "och att det i en på är som för med av den till inte har de ett om var jag vi du han hon "
        "men från så kan när sig mot ska nu eller efter alla vid mycket här dig mig"
    ),
    "Polish": (
        "i w nie na się z do to że jest o jak po co tak za od ale dla czy był przez już być może "
        "tylko jego jej ich ten ta te są przed oraz mnie bardzo kiedy gdy"
    ),
    "Turkish": (
        "ve bir bu da de için ile çok ne daha gibi ama o ben sen biz siz var yok mi olarak olan "
        "kadar sonra en her değil şey ki diye nasıl zaman"
    ),
    "Russian": (
        "и в не на я что он с как это по но они мы все она так его за был от же вы из у к бы "
        "только или ещё мне было вот для уже когда если нет"
    ),
}
SMALL_WORDS = {name: tuple(dict.fromkeys(words.split())) for name, words in _SMALL_WORDS.items()}
"""Frequent words of each language."""

_LEAST = 3  # small words of a language that a text must have before it is said to be in it
_OWN = 8  # and a vocabulary


class SplitTag(NamedTuple):
    """A hashtag `text[start:end]` that is read as several words."""

    start: int
    end: int
    words: tuple[str, ...]


class OwnWords(NamedTuple):
    """The writer's own words.

    Attributes:
        words: in reading order; those of a hashtag that is read in parts stand within it.
        terms: the words and, where the vocabulary has such terms, runs of them, in the order of
            `find_terms`.
        others: how many words stand in quoted lines and code.
        tags: the hashtags that are read in parts.
    """

    words: list[Term]
    terms: list[Term]
    others: int
    tags: tuple[SplitTag, ...]


def read_writing(text: str, known: Container[str], options: TermOptions) -> OwnWords:
    """Find the words that the writer of a text has chosen.

    Args:
        text: any text.
        known: terms that the model knows; a hashtag among them is one term.
        options: what counts as a term.
    """
    found = find_words(text, options)
    spans = quoted_spans(text)
    words: list[Term] = []
    tags: list[SplitTag] = []
    others = at = 0
    for term in found:
        while at < len(spans) and spans[at][1] <= term.start:
            at += 1
        if at < len(spans) and spans[at][0] <= term.start:
            others += 1
            continue
        parts = (
            []
            if term.text in known
            else _tag_words(text[term.start : term.end], term.start, options)
        )
        if parts:
            tags.append(SplitTag(term.start, term.end, tuple(part.text for part in parts)))
        words.extend(parts or [term])
    return OwnWords(words, join_words(words, options.ngrams), others, tuple(tags))


def quoted_spans(text: str) -> list[tuple[int, int]]:
    """Where quoted lines (`> …`), fenced code and `code` in a line stand, in order and apart."""
    spans: list[tuple[int, int]] = []
    fence = ""
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        opening = _FENCE.match(line)
        if fence or opening or _QUOTED.match(line):
            spans.append((start, end))
            if opening and (not fence or opening[1] == fence):
                fence = "" if fence else opening[1]
        else:
            spans.extend(
                (start + code.start(), start + code.end()) for code in _INLINE.finditer(line)
            )
        start = end + 1
    return spans


def _tag_words(piece: str, start: int, options: TermOptions) -> list[Term]:
    """The words of a hashtag such as `#ActNow`, where they stand; none where it is not of
    several.
    """
    if piece[0] not in _HASHES or len(piece) > _LONGEST_TAG:
        return []
    written = cleaner(options).written
    cuts = _cuts(piece)
    parts = [(first, last) for first, last in pairwise(cuts) if piece[first] != "_"]
    if len(parts) < 2:
        return []
    words = [Term(written[piece[first:last]], start + first, start + last) for first, last in parts]
    return [word for word in words if word.text]


def _cuts(piece: str) -> list[int]:
    """Where the words of a hashtag begin, and its end: before a capital that begins a word, and
    around `_`.
    """
    small = [sign.isalpha() and sign.lower() == sign for sign in piece]
    large = [sign.lower() != sign for sign in piece]
    if not any(small):
        return []
    cuts = [1]
    for at in range(2, len(piece)):
        follows = not large[at - 1] or (at + 1 < len(piece) and small[at + 1])
        beside = (piece[at] == "_") != (piece[at - 1] == "_")
        if beside or (large[at] and follows):
            cuts.append(at)
    return [*cuts, len(piece)]


def is_negation(term: str) -> bool:
    """Whether a word turns a sentence into its opposite; such a word is never replaced, nor left
    out lightly.
    """
    return term in NEGATIONS or term.endswith("n't")


def vocabulary_language(terms: Container[str]) -> str | None:
    """The language of a vocabulary: the one most of whose small words it has; `None` where it has
    few of any.
    """
    scores = {
        name: sum(word in terms for word in words) / len(words)
        for name, words in SMALL_WORDS.items()
    }
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] * len(SMALL_WORDS[best]) >= _OWN else None


def other_language(words: Iterable[str], own: str | None) -> str | None:
    """The language of a text where it is another than `own`; `None` where that is not clear."""
    if own is None:
        return None
    said = list(words)
    scores = {name: sum(word in small for word in said) for name, small in SMALL_WORDS.items()}
    mine = scores.pop(own, 0)
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] >= _LEAST and scores[best] > 2 * mine else None
