"""Progress and laps: two laps are two laps, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from road_reference import circle, mixed_tracks, place, points, to_track
from shapely.ops import polylabel

from conftest import make
from track_gen import Noise
from track_gen.runtime import Localizer, ProgressTracker, RacingLine


class Driver:
    """Agents driven along given arc lengths, with sums of everything the tracker reports."""

    def __init__(self, arrays: dict, num_agents: int = 1, **options):
        self.arrays = arrays
        self.tracker = ProgressTracker(to_track(arrays), num_agents, **options)
        shape = (len(arrays["count"]), num_agents)
        self.deltas = np.zeros(shape)
        self.finished = np.zeros(shape, int)
        self.forward = np.zeros(shape, int)
        self.backward = np.zeros(shape, int)
        self.jumps = np.zeros(shape, int)
        self.beside = np.zeros(shape, int)
        self.wrong = np.zeros(shape, int)

    def at(self, s, n=0.0, mask=None):
        shape = self.deltas.shape
        p, _ = place(self.arrays, np.broadcast_to(s, shape), np.broadcast_to(n, shape))
        self.step(p, mask)

    def step(self, p, mask=None):
        t = self.tracker
        t.update(points(p), mask=mask)
        self.deltas += t.delta.numpy()
        self.finished += t.finished_lap.numpy()
        self.forward += t.crossing.numpy() == 1
        self.backward += t.crossing.numpy() == -1
        self.jumps += t.jumped.numpy()
        self.beside += t.beside.numpy()
        self.wrong += t.wrong_way.numpy()

    @property
    def laps(self):
        return self.tracker.laps.numpy()

    @property
    def total(self):
        return self.tracker.total.numpy()


@pytest.mark.parametrize("weave", [0.0, 0.9])
def test_two_laps_from_any_start_are_two_laps(weave):
    arrays = mixed_tracks(1000)
    length = arrays["length"][:, None].astype(np.float64)
    rng = np.random.default_rng(5)
    start = rng.random((1000, 3)) * length
    start[:, 0] = 0.0
    start[:, 1] = arrays["arclen"][:, 7]
    driver = Driver(arrays, 3)
    steps = 2 * int(np.ceil((length / arrays["half_width"][:, None]).max() / 1.5))
    width = arrays["half_width"][:, None]
    for k in range(steps + 1):
        way = 2.0 * k / steps
        driver.at(start + way * length, weave * width * np.sin(6.0 * np.pi * way))
    assert (driver.laps == 2).all()
    assert (driver.finished == 2).all() and (driver.forward == 2).all()
    assert (driver.backward == 0).all()
    assert (driver.jumps == 0).all() and (driver.wrong == 0).all()
    assert (driver.beside == 0).all()
    assert np.abs(driver.total - 2.0 * length).max() < 1e-4
    assert np.abs(driver.deltas - 2.0 * length).max() < 1e-4
    times = driver.tracker.last_lap_steps.numpy(), driver.tracker.best_lap_steps.numpy()
    for steps_of_lap in times:
        assert (np.abs(steps_of_lap - steps // 2) <= 1).all()


def test_laps_at_the_start_line():
    arrays = circle(4)
    length = float(arrays["length"][0])
    # On the line, behind it as on a grid, far before it, just beyond it.
    start = np.array([[0.0], [-0.3], [0.4 * length], [0.05]])
    driver = Driver(arrays, line="start")
    seen = []
    for way in np.arange(0.0, 2.0 * length + 0.35, 0.02):
        driver.at(start + way)
        seen.append(driver.laps[:, 0].copy())
    seen = np.array(seen)
    assert (seen[-1] == [2, 2, 1, 1]).all()
    first = 0.02 * (seen > 0).argmax(axis=0)
    expected = [length, 0.3 + length, 1.6 * length, 2.0 * length - 0.05]
    assert first == pytest.approx(expected, abs=0.021)


def test_exactly_one_lap_from_exactly_the_line():
    arrays = mixed_tracks(200)
    length = arrays["length"][:, None].astype(np.float64)
    for line in ("spawn", "start"):
        driver = Driver(arrays, line=line)
        for k in range(201):
            driver.at(k / 200.0 * length)
        assert (driver.laps == 1).all() and (driver.forward == 1).all()
        assert np.abs(driver.total - length).max() < 1e-4


def test_reversing_gives_nothing():
    arrays = mixed_tracks(100)
    length = arrays["length"][:, None].astype(np.float64)
    driver = Driver(arrays)
    for k in range(401):
        driver.at(0.3 * length - k / 200.0 * length)
    assert (driver.laps == 0).all() and (driver.forward == 0).all()
    assert (driver.backward == 2).all()
    assert np.abs(driver.total + 2.0 * length).max() < 1e-4
    assert driver.tracker.wrong_way.numpy().all()


def test_spinning_and_rocking_over_the_line_give_nothing():
    arrays = mixed_tracks(100)
    width = arrays["half_width"][:, None].astype(np.float64)
    driver = Driver(arrays, 2)
    for k in range(400):
        spin = 2.0 * np.pi * k / 20.0
        driver.at(
            np.c_[0.5 * width * np.sin(spin), 0.5 * width * np.cos(spin)],
            np.c_[0.5 * width * np.cos(spin), 0.0 * width],
        )
    assert (driver.laps == 0).all()
    assert (driver.forward > 5).all() and (driver.backward > 5).all()
    assert (np.abs(driver.total) < 1.1 * width).all()
    assert (driver.wrong == 0).all()


def test_jumping_across_gives_no_lap_and_no_progress():
    arrays = mixed_tracks(100)
    length = arrays["length"][:, None].astype(np.float64)
    driver = Driver(arrays)
    way = np.linspace(0.0, 0.3, 61)
    for k in way:
        driver.at(k * length)
    before = driver.total.copy()
    driver.at(0.65 * length)
    assert (driver.jumps == 1).all()
    assert (driver.total == before).all()
    for k in np.linspace(0.65, 1.05, 81):
        driver.at(k * length)
    assert (driver.laps == 0).all() and (driver.forward == 1).all()
    # From the line on a whole loop counts again.
    for k in np.linspace(1.05, 2.001, 201):
        driver.at(k * length)
    assert (driver.laps == 1).all()
    assert np.abs(driver.total - (0.3 + 0.4 + 0.951) * length).max() < 2e-4


def test_jumping_back_and_driving_again_gives_no_progress():
    arrays = circle()
    length = float(arrays["length"][0])
    driver = Driver(arrays)
    for _ in range(5):
        for k in np.linspace(0.1, 0.5, 41):
            driver.at(k * length)
    assert driver.total[0, 0] == pytest.approx(0.4 * length, abs=1e-4)
    assert driver.jumps[0, 0] == 4
    for k in np.linspace(0.5, 0.6, 11):
        driver.at(k * length)
    assert driver.total[0, 0] == pytest.approx(0.5 * length, abs=1e-4)
    # Flickering between two places and back costs nothing.
    for _ in range(3):
        driver.at(0.9 * length)
        driver.at(0.6 * length)
    for k in np.linspace(0.6, 0.7, 11):
        driver.at(k * length)
    assert driver.total[0, 0] == pytest.approx(0.6 * length, abs=1e-4)
    assert driver.laps[0, 0] == 0


def test_driving_one_half_twice_and_jumping_over_the_other_is_no_lap():
    arrays = circle()
    length = float(arrays["length"][0])
    driver = Driver(arrays)
    for loop in range(2):
        way = [np.linspace(0.0, 0.5, 51), np.linspace(0.1, 0.5, 41), np.linspace(0.9, 0.99, 10)]
        for k in np.concatenate(way):
            driver.at((loop + k) * length)
    driver.at(2.001 * length)
    assert driver.forward[0, 0] == 2 and driver.laps[0, 0] == 0


def test_cutting_the_same_corner_every_loop_gives_no_lap():
    arrays = circle()
    length = float(arrays["length"][0])
    driver = Driver(arrays)
    for loop in range(4):
        for k in [*np.linspace(0.0, 0.3, 31), *np.linspace(0.6, 0.99, 40)]:
            driver.at((loop + k) * length)
    assert driver.laps[0, 0] == 0
    assert driver.total[0, 0] < 4 * 0.75 * length


def test_jumping_once_around_does_not_pay_for_jumps_back():
    arrays = circle()
    length = float(arrays["length"][0])
    driver = Driver(arrays)
    for k in (0.0, 0.4, 0.8, 1.0):
        driver.at(k * length)
    for _ in range(5):
        for k in np.linspace(0.0, 0.2, 21):
            driver.at(k * length)
    assert driver.total[0, 0] == pytest.approx(0.2 * length, abs=1e-4)
    # Nor does skipping a piece: what lies behind it is earned once.
    for _ in range(4):
        driver.at(0.6 * length)
        for k in np.linspace(0.2, 0.3, 11):
            driver.at(k * length)
    assert driver.total[0, 0] == pytest.approx(0.3 * length, abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_earned_twice_after_a_jump_back(seed):
    arrays = circle()
    length = float(arrays["length"][0])
    driver = Driver(arrays)
    rng = np.random.default_rng(seed)
    place, earned = 0.0, 0.0  # the farthest place with progress
    driver.at(0.0)
    for _ in range(40):
        place += rng.choice([-1.0, 1.0]) * rng.uniform(0.1, 0.4) * length
        driver.at(place)
        for _ in range(rng.integers(0, 15)):
            place += 0.02 * length
            before = driver.total[0, 0]
            driver.at(place)
            gained = driver.total[0, 0] - before
            assert gained == pytest.approx(min(max(place - earned, 0.0), 0.02 * length), abs=1e-4)
            earned = max(earned, place)


def test_a_lap_back_and_a_lap_forward_are_no_lap():
    arrays = circle(3)
    length = float(arrays["length"][0])
    driver = Driver(arrays)
    back = np.array([[1.0], [2.0], [0.3]])
    for k in np.linspace(0.0, 1.0, 201):
        driver.at(-k * back * length)
    for k in np.linspace(0.0, 1.0, 201):
        driver.at((2.0 * k - back) * length)
    # Two laps back and two forward: the line was crossed forward half-way, then a loop driven.
    assert driver.laps[:, 0].tolist() == [1, 1, 1]
    assert driver.total[:, 0] == pytest.approx((2.0 - back[:, 0]) * length, abs=1e-4)
    assert driver.backward[:, 0].tolist() == [1, 2, 1]
    driver = Driver(arrays)
    for k in [*np.linspace(0.0, -1.0, 101), *np.linspace(-1.0, 0.0, 101)]:
        driver.at(k * length)
    assert (driver.laps == 0).all()
    assert np.abs(driver.total).max() < 1e-4


def test_wide_of_the_road_and_back_keeps_the_lap():
    arrays = circle(3)
    length = float(arrays["length"][0])
    # A wheel, the whole car for 2 half widths of the way, and for 6.
    wide = np.array([[1.4], [1.8], [1.8]]) * 0.1
    way = np.array([[3.0], [0.2], [0.6]])
    driver = Driver(arrays)
    for s in np.linspace(0.0, length + 1e-6, 641):
        off = (s > 3.0) & (s < 3.0 + way)
        driver.at(s, np.where(off, -wide, 0.0))
    assert driver.laps[:, 0].tolist() == [1, 1, 0]
    assert driver.jumps[:, 0].tolist() == [0, 0, 1]
    assert driver.beside[0] == 0 and driver.beside[1] > 15 and driver.beside[2] > 50
    assert driver.total[:, 0] == pytest.approx([length, length, length - 0.6], abs=0.02)
    assert driver.tracker.steps.numpy()[:, 0].tolist() == [640] * 3
    assert driver.tracker.best_lap_steps.numpy()[:, 0].tolist() == [640, 640, 0]


@pytest.mark.parametrize("family", ["bezier", "hull", "polar", "voronoi", "checkpoint"])
def test_circles_in_the_infield_give_no_lap(family):
    """As large as fits, and so large that progress never counts."""
    E = 48
    generator = make(E, generator=family, half_width=0.1)
    generator.set_difficulty(0.0)
    arrays = generator.generate().numpy()
    half_width = arrays["half_width"].astype(np.float64)
    middle, free = np.zeros((E, 2)), np.zeros(E)
    for env in range(E):
        infield = shapely.Polygon(arrays["inner"][env, : arrays["count"][env], :2])
        place = polylabel(infield, 1e-3)
        middle[env], free[env] = (place.x, place.y), infield.exterior.distance(place)
    free = np.stack([0.95 * free, np.maximum(free - 0.55 * half_width, 0.05 * free)], axis=1)
    driver = Driver(arrays, 2)
    driven = np.zeros((E, 2))
    last = None
    for k in range(1001):
        angle = 2.0 * np.pi * k / 100.0
        p = np.zeros((E, 2, 3))
        p[..., 0] = middle[:, :1] + free * np.cos(angle)
        p[..., 1] = middle[:, 1:] + free * np.sin(angle)
        if last is not None:
            driven += np.linalg.norm(p - last, axis=-1)
        last = p
        driver.step(p)
    assert (driver.laps == 0).all()
    assert (driver.total < driven).all()
    roomy = free[:, 1] > 0.1 * half_width
    assert roomy.sum() > 24
    assert (driver.total[roomy, 1] == 0.0).all() and (driver.beside[roomy, 1] == 1001).all()


def test_progress_counts_everywhere_if_asked_for():
    arrays = circle(radius=1.0)
    length = float(arrays["length"][0])
    for max_offset, share in ((None, 0.0), (4.0, 0.0), (4.1, 1.0), (np.inf, 1.0)):
        driver = Driver(arrays, max_offset=max_offset)
        for k in range(201):
            driver.at(k / 200.0 * length, 0.405)
        assert driver.total[0, 0] == pytest.approx(share * length, abs=1e-3)
        assert driver.laps[0, 0] == share


def test_the_whole_road_counts_along_a_racing_line():
    arrays = mixed_tracks(100)
    track = to_track(arrays)
    line = RacingLine(track, margin=0.0)
    line.update()
    tracker, everywhere = ProgressTracker(line, 2), ProgressTracker(line, 2, max_offset=np.inf)
    border = 0.95 * arrays["half_width"][:, None] * np.array([1.0, -1.0])
    length = arrays["length"][:, None].astype(np.float64)
    for k in range(401):
        p, _ = place(arrays, np.broadcast_to(k / 400.0 * length, (100, 2)), border)
        tracker.update(points(p))
        everywhere.update(points(p))
        assert not tracker.beside.numpy().any()
    assert (tracker.total.numpy() == everywhere.total.numpy()).all()
    assert np.median(tracker.total.numpy() / line.length.numpy()[:, None]) > 0.99


def test_a_teleport_with_reset_is_no_progress():
    arrays = mixed_tracks(10)
    length = arrays["length"][:, None].astype(np.float64)
    driver = Driver(arrays)
    for k in np.linspace(0.0, 0.5, 101):
        driver.at(k * length)
    mask = np.arange(10) % 2 == 0
    driver.tracker.reset(mask)
    assert (driver.total[mask] == 0.0).all() and (driver.total[~mask] > 0.0).all()
    place_after = np.where(mask[:, None], 0.9, 0.5) * length
    driver.at(place_after)
    assert (driver.tracker.delta.numpy()[mask] == 0.0).all()
    assert not driver.tracker.jumped.numpy().any()
    for k in np.linspace(0.0, 1.0, 201):
        driver.at(place_after + k * length)
    assert (driver.laps == 1).all()
    assert driver.total[mask] == pytest.approx(length[mask], abs=1e-4)
    assert driver.total[~mask] == pytest.approx(1.5 * length[~mask], abs=1e-4)
    assert (driver.tracker.steps.numpy()[mask] == 201).all()


def test_wrong_way_sets_and_clears():
    arrays = circle()
    driver = Driver(arrays, wrong_way_distance=2.0)
    flags = []
    for s in [*np.arange(0.0, 0.5, 0.05), *np.arange(0.5, 0.0, -0.05), *np.arange(0.0, 0.5, 0.05)]:
        driver.at(s)
        flags.append(bool(driver.tracker.wrong_way.numpy()[0, 0]))
    assert not any(flags[:14]) and all(flags[16:22]) and not any(flags[26:])


def test_a_step_without_a_place_changes_nothing():
    arrays = circle(3)
    arrays["valid"][2] = False
    driver = Driver(arrays)
    driver.at(0.1)
    driver.at(0.2)
    p, _ = place(arrays, np.full((3, 1), 0.25), np.zeros((3, 1)))
    p[0] = np.nan
    driver.step(p)
    assert (driver.tracker.delta.numpy()[[0, 2]] == 0.0).all()
    assert driver.tracker.total.numpy()[:, 0] == pytest.approx([0.1, 0.15, 0.0], abs=1e-5)
    driver.at(0.3)
    assert driver.tracker.total.numpy()[:, 0] == pytest.approx([0.2, 0.2, 0.0], abs=1e-5)
    assert driver.tracker.steps.numpy()[:, 0].tolist() == [2, 3, 0]


def test_masked_rows_stay():
    arrays = mixed_tracks(10)
    driver = Driver(arrays)
    driver.at(0.1)
    mask = np.arange(10) < 3
    driver.at(0.2, mask=mask)
    assert (driver.total[~mask] == 0.0).all()
    assert driver.total[mask] == pytest.approx(0.1, abs=1e-5)


def test_a_shared_localizer():
    arrays = circle(2)
    track = to_track(arrays)
    localizer = Localizer(track)
    tracker = ProgressTracker(track, localizer=localizer)
    for s in (0.1, 0.15, 0.2):
        localizer.update(points(place(arrays, np.full((2, 1), s), np.zeros((2, 1)))[0]))
        tracker.update()
    assert tracker.total.numpy() == pytest.approx(0.1, abs=1e-5)
    with pytest.raises(ValueError, match="localizer must be of the same track"):
        ProgressTracker(to_track(arrays), localizer=localizer)
    with pytest.raises(ValueError, match="localizer must be of num_agents=2, got 1"):
        ProgressTracker(track, 2, localizer=localizer)
    with pytest.raises(TypeError, match="localizer must be a Localizer, got float"):
        ProgressTracker(track, localizer=1.0)
    with pytest.raises(ValueError, match="update needs positions"):
        ProgressTracker(track).update()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"line": "finish"}, "ProgressTracker.line must be one of"),
        ({"max_step": 0.0}, "ProgressTracker.max_step must be finite and > 0"),
        ({"max_offset": -1.0}, "ProgressTracker.max_offset must be finite and >= 0"),
        ({"max_offset": np.nan}, "ProgressTracker.max_offset must be finite and >= 0"),
        ({"wrong_way_distance": -1.0}, "ProgressTracker.wrong_way_distance must be finite"),
    ],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        ProgressTracker(to_track(circle()), **arguments)


def test_long_runs_stay_exact():
    arrays = circle(n=200)
    length = float(arrays["length"][0])
    driver = Driver(arrays)
    for k in range(4001):
        driver.at(k * 0.025 * length)
    assert driver.laps[0, 0] == 100
    assert driver.total[0, 0] == pytest.approx(100.0 * length, rel=1e-6)


def test_two_laps_over_hills():
    # Arc lengths are those in space; places are found in plan view.
    arrays = make(20, half_width=0.1, elevation=Noise(amplitude=0.3)).generate().numpy()
    assert np.nanmax(np.abs(arrays["center"][..., 2])) > 0.05
    length = arrays["length"][:, None].astype(np.float64)
    driver = Driver(arrays)
    for k in range(301):
        driver.at(0.2 * length + k / 150.0 * length)
    assert (driver.laps == 2).all() and (driver.jumps == 0).all()
    assert np.abs(driver.total - 2.0 * length).max() < 1e-4
