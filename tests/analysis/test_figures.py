"""Figures: what is drawn, what captions say, equal bytes, embedded fonts, nothing on top of anything else."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from analysis.__main__ import FIGURE_NAMES, main
from analysis.curves import statistic
from analysis.figures.bands import band, smooth
from analysis.figures.build import FIGURES, build_figures
from analysis.figures.curves import clock_series, learning
from analysis.figures.drawing import settings, write_drawing
from analysis.figures.factors import tau, tau_alpha
from analysis.figures.fits import fit_decay, fit_line, jackknife
from analysis.figures.options import FigureOptions
from analysis.figures.paper import beside, full_length_drawings, paper_drawings
from analysis.figures.staleness import ages, staleness
from analysis.figures.style import ROLES, arm_styles
from analysis.findings import AnalysisError
from analysis.load.study import load
from analysis.paper import reported
from analysis.statistics import t_interval
from tests.analysis.runs import curve_rows, write_arms, write_run

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = FigureOptions()


def legend_texts(drawing):
    legends = [*drawing.figure.legends, *(a.get_legend() for a in drawing.figure.axes if a.get_legend() is not None)]
    return [text.get_text() for legend in legends for text in legend.get_texts()]


def line_of(axis, role):
    """The line of a role that has most points: the mean, or the run."""
    lines = [line for line in axis.lines if line.get_color() == ROLES[role].colour and line.get_marker() != "x"]
    return max(lines, key=lambda line: len(line.get_xdata()))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Three arms by three seeds, two tau by two alpha, a dead run and a running one."""
    root = tmp_path_factory.mktemp("runs")
    write_arms(root)
    for value in (10, 30, 90):
        for alpha in (0.3, 1.0):
            if (value, alpha) != (90, 1.0):
                for seed in (0, 1, 2):
                    overrides = (f"replay.decay.tau={value}", f"replay.priority.alpha={alpha}")
                    write_run(root, "freshper", seed, overrides=overrides, gain=value / 300)
    return load([root], ages=True)


class TestNumbers:
    def test_curves_at_equal_x_are_averaged_point_by_point(self):
        x, values = np.arange(5.0), np.random.default_rng(0).random((4, 5))
        found = band([(x, row) for row in values])
        np.testing.assert_array_equal(found.x, x)
        for index in range(5):
            expected = t_interval(values[:, index])
            assert (found.mean[index], found.low[index], found.high[index]) == pytest.approx(
                (expected.value, expected.low, expected.high)
            )

    def test_nothing_is_continued_and_gaps_stay_gaps(self):
        one = (np.array([0.0, 10, 20]), np.array([0.0, 1, 2]))
        two = (np.array([5.0, 15, 40]), np.array([1.0, 1, 1]))
        found = band([one, two])
        assert found.x.tolist() == [5, 10, 15, 20] and found.low is None
        assert found.mean == pytest.approx([0.75, 1.0, 1.25, 1.5])
        broken = (one[0], np.array([0.0, math.nan, 2]))
        assert np.isnan(band([broken, broken, broken]).mean).tolist() == [False, True, False]
        assert band([]) is None and band([one, (np.array([50.0]), np.array([1.0]))]) is None

    def test_no_band_below_three_runs(self):
        curve = (np.arange(3.0), np.arange(3.0))
        assert band([curve, curve]).low is None and band([curve] * 3).low is not None
        boot = band([curve, (curve[0], curve[1] + 1), (curve[0], curve[1] + 2)], "bootstrap")
        assert (curve[1] <= boot.low).all() and (boot.high <= curve[1] + 2).all() and (boot.low < boot.high).all()

    @given(st.lists(st.floats(-5, 5), min_size=1, max_size=20), st.floats(0.01, 1))
    def test_smoothing_is_the_weighted_sum_of_the_past(self, values, weight):
        n = len(values) - 1
        weights = [weight * (1 - weight) ** (n - i) if i else (1 - weight) ** n for i in range(n + 1)]
        assert smooth(np.array(values), weight)[-1] == pytest.approx(np.dot(weights, values), abs=1e-9)

    @given(st.floats(0.5, 5000), st.floats(0.1, 1), st.integers(4, 9))
    def test_the_fit_finds_the_decay(self, time, amplitude, bins):
        age = 2.0 ** np.arange(bins)
        found = fit_decay(age, amplitude * np.exp(-age / time), np.ones(bins))
        assert found.time == pytest.approx(time, rel=1e-3) and found.amplitude == pytest.approx(amplitude, rel=1e-3)
        assert found.r2 == pytest.approx(1, abs=1e-4) or math.isnan(found.r2)

    @given(st.lists(st.tuples(st.floats(0.05, 1), st.integers(1, 50)), min_size=4, max_size=9))
    def test_no_other_decay_is_nearer(self, points):
        age = 2.0 ** np.arange(len(points))
        value, weight = (np.array(column, np.float64) for column in zip(*points, strict=True))
        found = fit_decay(age, value, weight)

        def error(amplitude, time):
            return ((amplitude * np.exp(-age / time) - value) ** 2) @ weight

        best = error(found.amplitude, found.time)
        for time in np.geomspace(0.1, 1e5, 60):
            shape = np.exp(-age / time)
            assert best <= error((weight * value) @ shape / (weight @ shape**2), time) + 1e-9
        assert math.isnan(found.r2) or -1e-9 <= found.r2 <= 1

    @given(st.lists(st.tuples(st.floats(-2, 2), st.integers(1, 50)), min_size=4, max_size=9))
    def test_the_line_is_numpys(self, points):
        age = 2.0 ** np.arange(len(points))
        value, weight = (np.array(column, np.float64) for column in zip(*points, strict=True))
        found = fit_line(age, value, weight)
        slope, intercept = np.polyfit(age, value, 1, w=np.sqrt(weight))
        assert (found.slope, found.intercept) == pytest.approx((slope, intercept), abs=1e-8)

    def test_a_fit_that_cannot_be(self):
        age = np.array([1.0, 2, 4, 8])
        for fit in (fit_decay, fit_line):
            assert fit(age[:3], np.array([0.9, 0.8, 0.7]), np.ones(3)) is None
            assert fit(age, np.array([0.9, math.nan, 0.8, 0.7]), np.ones(4)) is None
        assert math.isinf(fit_decay(age, np.ones(4), np.ones(4)).time)
        rising = fit_decay(age, np.array([0.3, 0.5, 0.8, 0.9]), np.ones(4))
        assert math.isinf(rising.time) and rising.r2 == 0 and rising.amplitude == pytest.approx(0.625)

    def test_the_jackknife_of_a_mean_is_students_interval(self):
        values = np.array([0.2, 0.5, 0.3, 0.9])
        without = np.array([np.delete(values, index).mean() for index in range(4)])
        expected = t_interval(values)
        assert jackknife(expected.value, without) == pytest.approx((expected.low, expected.high))
        assert jackknife(1.0, np.array([1.0])) is None and jackknife(math.inf, without) is None

    def test_training_time_leaves_evaluations_out(self, tmp_path):
        rows = curve_rows()
        for row in rows:
            row["time/iteration"] = 60.0 + (30.0 if "eval/success" in row else 0)
            row |= {"time/evaluation": 30.0} if "eval/success" in row else {}
        rows[0]["time/iteration"] = 30.0  # row 0 only evaluates
        record = load([write_run(tmp_path, rows=rows)]).records[0]
        assert clock_series(record, "eval/success", "time")[0].tolist() == [0, 10, 20, 30, 40]
        del rows[7]["time/iteration"]
        record = load([write_run(tmp_path / "b", rows=rows)]).records[0]
        assert not len(clock_series(record, "eval/success", "time")[0])


class TestStyle:
    def test_the_papers_roles(self):
        styles = arm_styles(["on_policy", "standard_per", "freshper"])
        assert [(s.colour, s.marker) for s in styles.values()] == [("#4285F4", "s"), ("#FBBC04", "^"), ("#EA4335", "o")]

    def test_no_two_arms_look_alike_even_without_colour(self):
        arms = ["on_policy", "standard_per", "uniform", *(f"freshper tau={value}" for value in range(8)), "mine"]
        styles = list(arm_styles(arms).values())
        assert len({s.colour for s in styles}) == len(styles)
        assert len({(s.marker, str(s.dashes)) for s in styles}) == len(styles)
        named = list(ROLES.values())
        assert len({s.marker for s in named}) == len({str(s.dashes) for s in named}) == len(named)


class TestLearningCurves:
    def test_means_and_labels(self, study):
        (drawing,) = learning(study, FigureOptions(arms=("on_policy", "standard_per")))
        assert legend_texts(drawing) == ["on-policy (n 3)", "standard PER (n 3)"]
        frame = study.frame(["eval/success"])
        expected = frame[frame["arm"] == "on_policy"].groupby("iteration")["value"].mean()
        line = line_of(drawing.figure.axes[0], "on_policy")
        assert line.get_xdata().tolist() == expected.index.tolist()
        np.testing.assert_allclose(line.get_ydata(), expected.to_numpy())
        assert "Nothing is smoothed" in drawing.caption and "t 95 % interval" in drawing.caption

    def test_smoothing_is_said_in_caption_and_picture(self, study):
        (drawing,) = learning(study, FigureOptions(arms=("on_policy",), smoothing=0.3))
        assert "exponential moving average, weight 0.3" in drawing.caption
        assert "smoothed (weight 0.3)" in drawing.figure.get_suptitle()

    def test_runs_that_do_not_count_are_told(self, tmp_path):
        for seed in range(3):
            write_run(tmp_path, "freshper", seed)
        write_run(tmp_path, "freshper", 3, rows=curve_rows(3)[:12], state="dead", cause="flat")
        write_run(tmp_path, "freshper", 4, rows=curve_rows(4)[:22], state="failed", cause="disk")
        write_run(tmp_path, "on_policy", 0, rows=[{"iteration": 0, "fresh/loss": 1.0}])
        (drawing,) = learning(load([tmp_path]), FigureOptions(arms=("freshper", "on_policy", "uniform")))
        assert legend_texts(drawing) == [
            "FreshPER (n 3 + 1 dead, 1 failed)", "on-policy (1 not measured)", "uniform replay (no runs)",
        ]  # fmt: skip
        axis = drawing.figure.axes[0]
        assert line_of(axis, "freshper").get_xdata()[-1] == 40  # not cut by the dead run
        crosses = [line for line in axis.lines if line.get_marker() == "x"]
        assert [line.get_xdata().tolist() for line in crosses] == [[10]]

    def test_too_many_arms_are_refused_by_name(self, tmp_path):
        for value in range(1, 14):
            write_run(tmp_path, overrides=(f"replay.decay.tau={value}",))
        with pytest.raises(AnalysisError, match="13 arms .* --arms"):
            learning(load([tmp_path]), OPTIONS)


class TestSettings:
    def test_bars_are_the_intervals_of_the_runs(self, study):
        drawings = tau(study, FigureOptions(statistic=statistic("final")))
        assert len(drawings) == 2  # alpha 0.3 and 1.0 are sets of their own
        for drawing in drawings:
            (axis,) = drawing.figure.axes
            assert "tau alone" in drawing.caption and len(axis.containers) in (2, 3)
        bar = max((d.figure.axes[0] for d in drawings), key=lambda a: len(a.containers)).containers[0]
        runs = [
            r for r in study.records if r.facts.tau == 10 and r.facts.alpha == 0.3 and r.facts.variant == "freshper"
        ]
        expected = t_interval([r.columns.series("eval/success")[1][-1] for r in runs])
        (low, high) = bar.lines[2][0].get_segments()[0][:, 1]
        assert (low, high) == pytest.approx((expected.low, expected.high))

    def test_the_heat_map_shows_what_is_missing(self, study):
        (drawing,) = tau_alpha(study, OPTIONS)
        texts = [text.get_text() for text in drawing.figure.axes[0].texts]
        # 3 tau x 3 alpha: the arm of the default alpha 0.6 has one tau.
        assert len(texts) == 9 and texts.count("no\nruns") == 3 and sum("n 3" in text for text in texts) == 6

    def test_runs_that_do_not_vary(self, tmp_path):
        write_arms(tmp_path, seeds=(0,))
        for make in (tau, tau_alpha):
            with pytest.raises(AnalysisError, match="such runs come from"):
                make(load([tmp_path]), OPTIONS)


class TestStaleness:
    def test_rare_ages_are_hollow_and_not_fitted(self, study):
        (drawing,) = staleness(study, FigureOptions(arms=("standard_per",)))
        assert "too few ages" in " ".join(legend_texts(drawing))  # the runs have two bins of ages
        assert "No arm has ages enough to fit the exponential" in drawing.caption
        (drawing,) = ages(study, FigureOptions(arms=("standard_per",)))
        line = line_of(drawing.figure.axes[0], "standard_per")
        assert line.get_xdata().tolist() == [1, 2.5]
        np.testing.assert_allclose(line.get_ydata(), [1 / 3, 2 / 3])

    def test_without_replay(self, tmp_path):
        write_run(tmp_path, "on_policy")
        with pytest.raises(AnalysisError, match=r"no done run has an ages\.jsonl"):
            staleness(load([tmp_path], ages=True), OPTIONS)


class TestPaper:
    def test_every_panel_has_the_raw_values(self):
        drawings = paper_drawings()
        assert [d.name.split("_")[1] for d in drawings] == [p.name for p in reported.figures()]
        for drawing, panel in zip(drawings, reported.figures(), strict=True):
            for drawn, line in zip(drawing.figure.axes[0].lines, panel.lines, strict=True):
                within = line.iterations <= panel.x_to
                np.testing.assert_array_equal(drawn.get_xdata(), line.iterations[within])
                np.testing.assert_array_equal(drawn.get_ydata(), line.values[within])
                assert line.run in drawing.caption

    def test_as_printed_says_what_was_done(self):
        drawings = {d.name: d for d in paper_drawings(as_printed=True)}
        printed = [name for name in drawings if name.endswith("as_printed")]
        assert [name.split("_")[1] for name in printed] == ["4a", "5b", "7"]
        vlm = drawings["figure_4a_frozenlake_vlm_as_printed"]
        assert "0.909" in vlm.caption and vlm.figure.axes[0].lines[0].get_xdata()[-1] == pytest.approx(200)
        line = drawings["figure_5b_frozenlake_ablation_as_printed"].figure.axes[0].lines[0]
        raw = reported.figure("5b").lines[0].values
        assert line.get_ydata()[2] == pytest.approx(0.3 * raw[2] + 0.7 * (0.3 * raw[1] + 0.7 * raw[0]))

    def test_all_runs_are_drawn_at_full_length(self):
        drawings = full_length_drawings()
        assert sum(len(line.get_xdata()) for d in drawings for line in d.figure.axes[0].lines) == len(reported.curves())
        for drawing in drawings:
            looks = [(line.get_color(), line.get_marker(), line.get_linestyle(),
                      line._unscaled_dash_pattern) for line in drawing.figure.axes[0].lines]  # fmt: skip
            assert len(set(map(str, looks))) == len(looks), drawing.name

    def test_ours_stand_beside_the_reported_lines(self, study):
        (drawing,) = beside(study, "3e", FigureOptions(arms=("on_policy", "uniform")))
        left, right = drawing.figure.axes
        assert len(left.lines) == 3 and len(line_of(right, "on_policy").get_xdata()) == 5
        assert "uniform replay (no runs)" in legend_texts(drawing) and "Qwen2.5-0.5B" in drawing.caption
        assert len(beside(study, "5b", OPTIONS)) == 2
        with pytest.raises(AnalysisError, match="no run is of the task nq_search; the runs are of frozenlake"):
            beside(study, "3a", OPTIONS)


def boxes(drawing):
    figure = drawing.figure
    canvas = FigureCanvasAgg(figure)
    with settings():
        canvas.draw()
    renderer = canvas.get_renderer()
    found = [axis.get_tightbbox(renderer) for axis in figure.axes if axis.get_legend() is None]
    found += [axis.get_legend().get_window_extent(renderer) for axis in figure.axes if axis.get_legend() is not None]
    found += [axis.get_window_extent(renderer) for axis in figure.axes if axis.get_legend() is not None]
    return found + [legend.get_window_extent(renderer) for legend in figure.legends], figure.bbox


def test_nothing_overlaps_and_nothing_is_cut_off(study):
    drawings = [*build_figures(study, ["learning", "tau_alpha", "staleness", "wall_clock", "3e", "5b"], OPTIONS)]
    for drawing in [*drawings, *paper_drawings(), *full_length_drawings()]:
        found, page = boxes(drawing)
        for index, one in enumerate(found):
            assert page.x0 - 1 <= one.x0 and one.x1 <= page.x1 + 1, drawing.name
            assert page.y0 - 1 <= one.y0 and one.y1 <= page.y1 + 1, drawing.name
            for other in found[index + 1 :]:
                wide = min(one.x1, other.x1) - max(one.x0, other.x0)
                high = min(one.y1, other.y1) - max(one.y0, other.y0)
                assert wide <= 1 or high <= 1, drawing.name


@pytest.mark.slow
def test_two_processes_give_equal_bytes_whatever_the_users_settings(study, tmp_path):
    (tmp_path / "matplotlibrc").write_text(
        "font.family: serif\npdf.fonttype: 3\nlines.linewidth: 9\ntext.usetex: True\n"
    )
    source = study.records[0].source.parent
    for place, environment in (
        ("a", {"PYTHONHASHSEED": "1"}),
        ("b", {"PYTHONHASHSEED": "2", "MATPLOTLIBRC": str(tmp_path)}),
    ):
        for name in ("clocks", "staleness"):
            command = [
                sys.executable,
                "-m",
                "analysis",
                "figure",
                name,
                source,
                "--no-cache",
                "--out",
                tmp_path / place,
            ]
            subprocess.run(
                list(map(str, command)), cwd=ROOT, check=True, env={**os.environ, **environment}, timeout=120
            )
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(files) == 6 and {path.name for path in (tmp_path / "b").iterdir()} == set(files)
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_pdfs_embed_truetype_and_have_no_date(tmp_path):
    paths = write_drawing(paper_drawings()[0], tmp_path)
    data = paths[1].read_bytes()
    assert b"/FontFile2" in data and b"/Type3" not in data and b"CreationDate" not in data
    assert b"Software" not in paths[0].read_bytes() and paths[2].read_text().startswith("Figure 3a: nq_search. ")


class TestCommand:
    def test_names(self):
        assert set(FIGURE_NAMES) == {"all", *FIGURES}

    def test_all_writes_and_says_what_it_leaves_out(self, tmp_path, capsys):
        write_arms(tmp_path / "runs", seeds=(0, 1))
        assert main(["figure", "all", str(tmp_path / "runs"), "--no-cache", "--out", str(tmp_path / "out")]) == 0
        told = capsys.readouterr()
        assert {"learning_frozenlake.png", "figure_3e_frozenlake.pdf", "ages_frozenlake.txt"} <= {
            path.name for path in (tmp_path / "out").iterdir()
        }
        assert "left out: Sensitivity to tau" in told.err and "files in" in told.out

    @pytest.mark.parametrize(
        "arguments, words",
        [
            (["learning", "--metric", "eval/sucess"], "did you mean eval/success"),
            (["learning", "--smooth", "0"], "expected the weight of the newest value"),
            (["learning", "--arms", "gone"], "no run of the arms gone"),
            (["tau", "--statistic", "best"], "unknown statistic 'best'"),
            (["7"], "no two runs of frozenlake differ in replay.is_correction.enabled alone"),
        ],
    )
    def test_what_cannot_be_drawn(self, tmp_path, capsys, arguments, words):
        write_run(tmp_path / "runs")
        name, *rest = arguments
        assert main(["figure", name, str(tmp_path / "runs"), "--no-cache", "--out", str(tmp_path / "out"), *rest]) == 2
        assert words in capsys.readouterr().err and not (tmp_path / "out").exists()
