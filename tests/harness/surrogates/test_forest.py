"""Trees as arrays give what scikit-learn gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from harness.surrogates.forest import Forest
from harness.surrogates.gbdt import one_thread

pytestmark = pytest.mark.usefixtures("one_core")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6)).round(1)
CLASSES = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)


@pytest.fixture
def one_core() -> Iterator[None]:
    with one_thread():
        yield


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_classifier(n_classes: int) -> None:
    model = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(X, np.minimum(CLASSES, n_classes - 1))
    scores = Forest.of(model).scores(X)
    np.testing.assert_allclose(scores.squeeze(), model.decision_function(X), rtol=0, atol=1e-10)


def test_a_regression_and_its_copy_from_arrays() -> None:
    model = HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=7, random_state=0).fit(X, X[:, 2] * X[:, 3])
    forest = Forest.of(model)
    np.testing.assert_allclose(forest.scores(X)[:, 0], model.predict(X), rtol=0, atol=1e-10)
    arrays = {**forest.arrays("a"), **forest.arrays("ab")}
    assert (Forest.from_arrays("a", arrays).scores(X) == forest.scores(X)).all()


def test_a_row_does_not_depend_on_the_others_to_the_last_bit() -> None:
    model = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(X, CLASSES)
    forest = Forest.of(model)
    every = forest.scores(X)
    assert all((forest.scores(X[i : i + 1])[0] == every[i]).all() for i in range(0, 400, 40))
    assert forest.scores(X[:0]).shape == (0, 3)


def test_a_tree_without_a_split_is_its_leaf() -> None:
    model = HistGradientBoostingRegressor(max_iter=2).fit(np.zeros((30, 1)), np.arange(30.0))
    np.testing.assert_allclose(Forest.of(model).scores(np.ones((2, 1))), 14.5)
