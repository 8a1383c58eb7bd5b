from itertools import combinations, product

import numpy as np
import pytest

from fresh.metrics.overlap import measure_overlap


def test_overlaps_that_one_works_out_by_hand() -> None:
    first = [*(1, 1, 0, 0), *(0, 0, 1), *(0, 0), 0]
    second = [*(0, 1, 1, 1), *(1, 0, 0), *(0, 0), 1]
    shared, by_chance = measure_overlap(np.array(first) > 0, np.array(second) > 0, np.array([4, 3, 2, 1]))
    assert shared.tolist() == [1 / 4, 0, 1, 0]
    # Of 2 and 3 words of 4, either one or two are the same, both as often; one word of 3 is the other in a third.
    assert by_chance.tolist() == pytest.approx([(1 / 4 + 2 / 3) / 2, 1 / 3, 1, 0])


@pytest.mark.parametrize(("n_first", "n_second"), [(0, 2), (1, 1), (2, 2), (2, 4), (3, 5), (5, 6), (6, 6)])
def test_the_overlap_by_chance_is_the_mean_over_all_rationales(n_first: int, n_second: int) -> None:
    rationales = [[set(words) for words in combinations(range(6), size)] for size in (n_first, n_second)]
    shares = [len(one & other) / len(one | other) for one, other in product(*rationales)]
    places = np.arange(6)
    shared, [by_chance] = measure_overlap(places < n_first, places < n_second, np.array([6]))
    assert shared.tolist() == [n_first / n_second]
    assert by_chance == pytest.approx(np.mean(shares))
