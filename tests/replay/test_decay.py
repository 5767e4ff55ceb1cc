"""Decay laws and the half-life of the sampling weight."""

import math

import numpy as np
import pytest

from freshper.config.replay import DecayConfig
from freshper.replay.decay import decay, is_clock_invariant, log_decay, log_sampling_decay, sampling_half_life
from tests.replay.helpers import LAWS, PLACEMENTS, brute_decay


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("tau", [1.0, 37.5, 1e9])
def test_weights_follow_the_definition(law, tau):
    config = DecayConfig(law=law, tau=tau, power=1.7)
    ages = np.array([0, 1, 2, 36, 37, 38, 500])
    expected = [brute_decay(config, age) for age in ages]
    np.testing.assert_allclose(decay(config, ages), expected, rtol=1e-14)


def test_window_includes_its_edge():
    assert decay(DecayConfig(law="window", tau=3), [2, 3, 4]).tolist() == [1, 1, 0]


def test_logarithm_survives_ages_whose_weight_underflows():
    assert log_decay(DecayConfig(tau=1), 1e6) == -1e6


@pytest.mark.parametrize("ages", [[-1.0], [0.0, math.nan]])
def test_impossible_ages_are_refused(ages):
    with pytest.raises(ValueError, match="ages must be >= 0"):
        decay(DecayConfig(), ages)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("alpha", [0.3, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("law", ["exponential", "polynomial"])
def test_half_life_halves_the_sampling_weight(law, alpha, placement):
    config = DecayConfig(law=law, tau=500, power=2.0, placement=placement)
    half_life = sampling_half_life(config, alpha)
    assert np.exp(log_sampling_decay(config, alpha, half_life)) == pytest.approx(0.5, rel=1e-12)


def test_half_life_closed_forms():
    assert sampling_half_life(DecayConfig(tau=500), 0.6) == pytest.approx(500 * math.log(2) / 0.6)
    assert sampling_half_life(DecayConfig(tau=500, placement="outside_alpha"), 0.6) == pytest.approx(500 * math.log(2))
    assert sampling_half_life(DecayConfig(law="window", tau=7), 0.6) == 7
    assert sampling_half_life(DecayConfig(law="none"), 0.6) == math.inf
    assert sampling_half_life(DecayConfig(), 0.0) == math.inf
    assert sampling_half_life(DecayConfig(law="polynomial", power=1e-9), 1.0) == math.inf


def test_closed_window_stays_closed_at_alpha_zero():
    assert log_sampling_decay(DecayConfig(law="window", tau=3), 0.0, [3, 4]).tolist() == [0, -math.inf]


def test_only_laws_with_a_common_factor_ignore_the_clock():
    assert [is_clock_invariant(DecayConfig(law=law)) for law in LAWS] == [True, True, False, False]
