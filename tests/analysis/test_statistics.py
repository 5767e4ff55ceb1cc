"""Statistics against closed forms, scipy, and the formulas of rliable (Agarwal et al. 2021) written out."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import curves
from analysis.findings import AnalysisError
from analysis.statistics import (
    bootstrap_interval,
    difference,
    interval,
    iqm,
    mean,
    median,
    performance_profile,
    probability_of_improvement,
    t_interval,
)
from analysis.student import t_probability, t_quantile

SCORES = st.lists(st.floats(-100, 100), min_size=1, max_size=12)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4.7, 9, 30.5, 250])
def test_student_quantiles(degrees):
    for probability in (0.55, 0.9, 0.975, 0.9995):
        assert t_quantile(probability, degrees) == pytest.approx(scipy.stats.t.ppf(probability, degrees), rel=1e-9)
    for t in (-3.0, 0.0, 0.4, 12.0):
        assert t_probability(t, degrees) == pytest.approx(scipy.stats.t.cdf(t, degrees), abs=1e-13)


def test_a_t_interval_by_hand():
    found = t_interval([1.0, 2.0, 3.0])
    half = 4.302652729911275 * 1.0 / math.sqrt(3)  # t of two degrees of freedom, deviation 1
    assert (found.value, found.n) == (2.0, 3)
    assert (found.low, found.high) == (pytest.approx(2 - half), pytest.approx(2 + half))
    assert found.contains(2 + half - 1e-6) and not found.contains(2 + half + 1e-6)


def test_one_run_has_no_interval():
    for found in (t_interval([0.3]), bootstrap_interval([np.array([0.3])]), interval([0.3], "bootstrap", "iqm")):
        assert (found.value, found.low, found.high, found.n) == (pytest.approx(0.3), None, None, 1)
        assert found.contains(0.3) is None


@settings(max_examples=100, deadline=None)
@given(SCORES)
def test_iqm_is_the_trimmed_mean(values):
    assert float(iqm([np.array(values)])) == pytest.approx(scipy.stats.trim_mean(values, 0.25), abs=1e-9)


def test_aggregates_over_tasks_by_hand():
    groups = [np.array([1.0, 3.0]), np.array([10.0, 30.0, 50.0]), np.array([0.0])]
    assert mean(groups) == pytest.approx((2 + 30 + 0) / 3)
    assert median(groups) == pytest.approx(2.0)
    pooled = [0.0, 1.0, 3.0, 10.0, 30.0, 50.0]
    assert iqm(groups) == pytest.approx(np.mean(pooled[1:5]))
    assert median([np.array([1.0, 2.0, 9.0])]) == 2.0


def test_the_bootstrap_is_stratified_and_percentile():
    """Two runs per task and a linear aggregate: the mean of task means is one of few values, of known probability."""
    groups = [np.array([0.0, 1.0]), np.array([10.0, 10.0])]
    found = bootstrap_interval(groups)
    # The first task's mean is 0, 1/2 or 1 with probability 1/4, 1/2, 1/4; were tasks mixed, means below 5 would appear.
    assert (found.value, found.low, found.high) == (5.25, 5.0, 5.5)


def test_bootstrap_intervals_cover():
    """A percentile interval of 30 normal values contains the mean in about 93 of 100 cases."""
    rng = np.random.default_rng(1)
    hits = sum(bool(bootstrap_interval([rng.normal(size=30)]).contains(0.0)) for _ in range(300))
    assert 0.89 <= hits / 300 <= 0.98


def test_bootstrap_agrees_with_scipys_standard_error():
    values = np.random.default_rng(0).normal(size=40)
    found = bootstrap_interval([values], replicates=20_000)
    reference = scipy.stats.bootstrap((values,), np.mean, method="percentile", n_resamples=20_000, rng=1)
    assert found.low == pytest.approx(reference.confidence_interval.low, abs=0.01)
    assert found.high == pytest.approx(reference.confidence_interval.high, abs=0.01)


def test_intervals_do_not_depend_on_anybodys_generator():
    values = np.arange(7.0)
    np.random.seed(0)
    one = bootstrap_interval([values], iqm)
    np.random.rand(1000)
    assert bootstrap_interval([values], iqm) == one
    code = (
        "import numpy as np\nfrom analysis.statistics import *\nv = np.arange(7.0)\n"
        "print(bootstrap_interval([v], iqm), probability_of_improvement([v], [v + 1]))"
    )
    outputs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)}
    assert len(outputs) == 1 and str(one) in outputs.pop()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_probability_of_improvement_is_mann_whitney(x, y):
    x, y = np.array(x, float), np.array(y, float)
    found = probability_of_improvement([x], [y])
    u = scipy.stats.mannwhitneyu(x, y, alternative="greater").statistic
    assert found.value == pytest.approx(u / (len(x) * len(y)))
    if len(x) > 1 or len(y) > 1:
        assert found.low <= found.value <= found.high


def test_probability_of_improvement_over_tasks():
    found = probability_of_improvement([np.array([1.0, 2.0]), np.array([0.0])], [np.array([0.0]), np.array([0.0, 1.0])])
    assert found.value == pytest.approx((1.0 + 0.25) / 2)
    sure = probability_of_improvement([np.arange(5) + 10.0], [np.arange(5.0)])
    assert (sure.low, sure.high) == (1.0, 1.0)


def test_performance_profiles():
    groups = [np.array([0.1, 0.3]), np.array([0.5, 0.7, 0.9, 0.9])]
    profile, low, high = performance_profile(groups, np.array([0.0, 0.3, 0.6, 1.0]))
    np.testing.assert_allclose(profile, [1.0, 0.5, 0.375, 0.0])
    assert (low <= profile + 1e-12).all() and (profile <= high + 1e-12).all()
    assert np.isnan(performance_profile([np.array([1.0])], np.array([0.0]))[1]).all()


def test_differences_are_paired_where_seeds_agree():
    mine, other = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 0.0, 1: 1.5, 2: 3.0}
    found, paired = difference(mine, other)
    expected = t_interval([1.0, 0.5, 1.0])
    assert paired and found == expected


def test_differences_are_welchs_where_they_do_not():
    rng = np.random.default_rng(3)
    mine = {seed: float(v) for seed, v in enumerate(rng.normal(1, 1, 6))}
    other = {seed + 10: float(v) for seed, v in enumerate(rng.normal(0, 3, 4))}
    found, paired = difference(mine, other)
    reference = scipy.stats.ttest_ind(list(mine.values()), list(other.values()), equal_var=False).confidence_interval(
        0.95
    )
    assert not paired and found.n == 10
    assert (found.low, found.high) == (pytest.approx(reference.low), pytest.approx(reference.high))
    assert difference({0: 1.0}, {1: 0.0, 2: 0.0})[0].low is None


def test_statistics_of_a_curve():
    x, values = np.array([0.0, 10.0, 30.0]), np.array([0.2, 0.6, 0.4])
    assert [curves.statistic(name).of(x, values) for name in ("peak", "final", "last:2", "auc", "steps:0.5")] == [
        0.6, 0.4, pytest.approx(0.5), pytest.approx((4.0 + 10.0) / 30), 10.0,
    ]  # fmt: skip
    assert curves.steps_to(x, values, 0.7) == math.inf
    assert math.isnan(curves.last_mean(values, 4)) and math.isnan(curves.area(x[:1], values[:1]))
    assert [curves.value_at(x, values, limit) for limit in (0, 9.9, 10, 100)] == [0.2, 0.2, 0.6, 0.4]
    assert math.isnan(curves.value_at(x + 1, values, 0.5))
    assert curves.peak_at(x, np.array([0.1, 0.6, 0.6])) == 10.0


def test_a_recorded_nan_is_not_passed_over_except_by_the_peak():
    x, values = np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.7, math.nan])
    assert curves.peak(values) == 0.7 and curves.peak_at(x, values) == 1.0
    for name in ("final", "last:2", "auc"):
        assert math.isnan(curves.statistic(name).of(x, values))
    assert math.isnan(curves.peak(np.array([math.nan])))


@pytest.mark.parametrize("name", ["best", "last:0", "last:", "steps:x", "peak "])
def test_unknown_statistics(name):
    with pytest.raises(AnalysisError, match="expected peak, final"):
        curves.statistic(name)
