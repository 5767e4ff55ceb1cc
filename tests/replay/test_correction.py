"""Importance-sampling weights against the formula w = (N P)^-beta."""

import numpy as np
import pytest

from freshper.config.replay import CorrectionConfig
from freshper.replay.correction import annealed_beta, correction_metrics, importance_weights


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_batch_normalisation(beta):
    p = np.array([0.5, 0.01, 0.2, 0.01])
    raw = (7 * p) ** -beta
    np.testing.assert_allclose(importance_weights(p, beta), raw / raw.max(), rtol=1e-14)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_buffer_normalisation_divides_by_a_weight_outside_the_batch(beta):
    everyone = np.array([0.5, 0.3, 0.15, 0.05])
    raw = (4 * everyone) ** -beta
    np.testing.assert_allclose(importance_weights(everyone[:2], beta, 0.05), raw[:2] / raw.max(), rtol=1e-14)


def test_impossible_draws_are_refused():
    with pytest.raises(ValueError, match="entry 1"):
        importance_weights(np.array([0.5, 0.0]), 0.4)
    with pytest.raises(ValueError, match="beta"):
        importance_weights(np.array([0.5]), 1.1)


def test_beta_is_linear_and_clamped():
    config = CorrectionConfig(beta=0.4, beta_final=1.0)
    assert [annealed_beta(config, step, 10) for step in (-5, 0, 10, 11, 10**9)] == [0.4, 0.4, 1.0, 1.0, 1.0]
    assert annealed_beta(config, 5, 10) == pytest.approx(0.7)
    assert annealed_beta(CorrectionConfig(beta=0.9, beta_final=0.1), 99, 10) == 0.1
    assert annealed_beta(config, 0, 0) == 1.0


def test_metrics():
    assert correction_metrics(np.array([0.5, 1.0])) == {
        "is_weight_min": 0.5,
        "is_weight_mean": 0.75,
        "is_lr_factor": 0.75,
    }
