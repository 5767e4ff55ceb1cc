"""Overrides are checked before Hydra: keys, groups, `+`, `++`, `~`, sweeps."""

from __future__ import annotations

import pytest

from freshper.config.errors import ConfigError
from freshper.config.overrides import check_overrides


def issue(*overrides, multirun=False):
    with pytest.raises(ConfigError) as caught:
        check_overrides(overrides, multirun)
    return [str(found) for found in caught.value.issues]


@pytest.mark.parametrize("prefix", ["", "+", "++", "~"])
def test_an_unknown_key_is_an_error_behind_every_prefix(prefix):
    (text,) = issue(f"{prefix}replay.decay.tua=3")
    assert "unknown key" in text and "replay.decay.tau" in text


def test_all_mistakes_are_told_at_once():
    found = issue("varient=freshper", "variant=freshpr", "env=frozenlak", "replay.capcity=3", "seed=1")
    assert len(found) == 4
    assert "did you mean variant" in found[0]
    assert "did you mean freshper" in found[1] and "standard_per" in found[1]
    assert "did you mean frozenlake" in found[2]
    assert "replay.capacity" in found[3]


def test_each_wrong_option_of_a_sweep_is_named():
    found = issue("variant=freshper,on_plicy,choice", multirun=True)
    assert ["on_policy" in text for text in found] == [True, True]


@pytest.mark.parametrize("sweep", ["seed=0,1", "seed=range(0,5)", "replay.decay.tau=choice(1,2)"])
def test_a_sweep_without_m_says_so(sweep):
    (text,) = issue(sweep)
    assert "-m" in text
    check_overrides([sweep], multirun=True)


def test_plus_is_explained():
    assert "without +" in issue("+replay.decay.tau=3")[0]
    assert "without +" in issue("+env=frozenlake")[0]
    assert "+experiment=smoke" in issue("experiment=smoke")[0]


@pytest.mark.parametrize(
    "override",
    ["++replay.decay.tau=3", "~env", "+experiment=smoke", "hydra.verbose=true", "hydra/launcher=basic", "+x@hydra.y=z"],
)
def test_what_hydra_can_do_stays_possible(override):
    if override.startswith("+x"):
        assert issue(override)  # a package does not make an unknown group known
    else:
        check_overrides([override], multirun=False)


def test_what_cannot_be_parsed_is_quoted():
    assert issue("seed")[0].startswith("seed: cannot be read")
