"""Several samples of one person tell what the law says they tell together, and no more where they
repeat each other.
"""

import numpy as np
import pytest
from scipy.stats import binom

from lowtide import LowtideError
from lowtide.attack.panel import attack
from lowtide.attack.together import read_posts, told_together

PERSONS = 240
POSTS = 9
FLIP = 0.3


def persons_with_posts(flip=FLIP, repeated=False, seed=0):
    """A fair bit for each person, and posts that show it flipped with a probability; some have no
    tenth post.
    """
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(PERSONS), POSTS)
    secret = rng.integers(0, 2, PERSONS)
    flipped = rng.random(PERSONS)[who] < flip if repeated else rng.random(len(who)) < flip
    return np.where(flipped, 1 - secret[who], secret[who])[:, None].astype(float), secret[who], who


def attacked(x, s, who):
    return attack(x, s, groups=who, attackers="logistic regression", progress=False)


def majority(m, flip=FLIP):
    """How often the majority of m odd posts is right."""
    return float(binom.cdf((m - 1) // 2, m, flip))


def information(m, flip=FLIP):
    """Nats that m posts tell about the bit."""
    right = np.array([binom.pmf(k, m, flip) for k in range(m + 1)])
    mean = (right + right[::-1]) / 2
    return float((right * np.log(right / mean)).sum())


def test_right_guesses_and_information_are_those_of_the_law():
    x, s, who = persons_with_posts()
    found = told_together(attacked(x, s, who), who, (1, 5, 9, 10))
    assert found.too_long == (10,)
    assert found.mixed == 0
    for one in found.told:
        assert one.persons == PERSONS
        assert one.accuracy.low <= majority(one.samples) <= one.accuracy.high
        assert one.information.low <= information(one.samples) <= one.information.high
    assert found.told[2].accuracy.low > found.told[0].accuracy.high, "nine posts tell more than one"
    assert "9" in found.table("vote", "posts").rows[-1][0]


def test_posts_that_repeat_each_other_tell_no_more_than_one():
    x, s, who = persons_with_posts(repeated=True)
    one, nine = told_together(attacked(x, s, who), who, (1, 9)).told
    assert abs(nine.accuracy.value - one.accuracy.value) < 0.02
    assert nine.scale < 0.3, "nine equal answers count as about one"
    assert nine.information.value > 0.5 * information(1), "not misled by its own certainty"


def test_posts_that_tell_nothing_tell_nothing_together():
    x, s, who = persons_with_posts(flip=0.5)
    nine = told_together(attacked(x, s, who), who, (9,)).told[0]
    assert nine.accuracy.low < nine.blind + 0.05
    assert nine.information.low < 0.01


def test_persons_whose_posts_differ_in_the_secret_are_left_out():
    x, s, who = persons_with_posts()
    report = attacked(x, s, who)
    merged = np.where(who < 20, who // 2, who)
    assert told_together(report, merged, (5,)).mixed == sum(
        s[POSTS * 2 * k] != s[POSTS * (2 * k + 1)] for k in range(10)
    )


def test_numbers_of_posts_are_read():
    assert read_posts("1, 10,5") == (1, 5, 10)
    assert read_posts([3, 3]) == (3,)
    assert read_posts(4) == (4,)
    for wrong in ("0,5", "many", "", "1.5", -1):
        with pytest.raises(LowtideError, match="whole numbers from 1"):
            read_posts(wrong)
