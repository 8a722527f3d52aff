"""The command line: what it writes, and one clear line for whatever a user can get wrong."""

import builtins
import json
import os
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

from track_gen import cli
from track_gen.batch import Track
from track_gen.cli import commands
from track_gen.cli.arguments import families_with_defaults
from track_gen.generators import available_generators
from track_gen.status import TrackStatus

SMALL = ["--num-envs", "4", "--device", "cpu"]


def run(capsys, *args: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one call."""
    code = cli.main([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Files of one run with settings away from their defaults."""
    folder = tmp_path_factory.mktemp("cli")
    out, plot = folder / "tracks.npz", folder / "tracks.png"
    flags = (
        "--generator polar --num-envs 4 --device cpu --seed 7 --half-width 0.05 0.1 --direction cw "
        f"--polar.num-knots 10 --polar.radial-jitter 0.2 0.4 --out {out} --plot {plot}"
    )
    code = cli.main(["generate", *flags.split()])
    assert code == 0
    return out, plot


def test_npz_holds_every_field_by_name(written):
    with np.load(written[0], allow_pickle=False) as file:
        data = dict(file)
    assert set(data) >= set(Track.allocate(1, 16, "cpu").arrays())
    assert data["center"].shape == (4, 512, 3) and data["center"].dtype == np.float32
    assert data["valid"].dtype == bool and data["valid"].all()
    assert (data["winding"] == -1).all()
    assert ((data["half_width"] >= 0.05) & (data["half_width"] <= 0.1)).all()
    assert len(set(data["half_width"])) == 4
    for env, count in enumerate(data["count"]):
        assert np.isfinite(data["center"][env, :count]).all()
        assert np.isnan(data["center"][env, count:]).all()


def test_npz_explains_itself(written):
    with np.load(written[0], allow_pickle=False) as file:
        data = dict(file)
    config = json.loads(str(data["config"]))
    assert config["generator"] == "polar" and config["device"] == "cpu"
    assert config["half_width"] == [0.05, 0.1]
    assert config["polar"]["num_knots"] == 10 and config["polar"]["radial_jitter"] == [0.2, 0.4]
    assert data["seeds"].shape == data["episode"].shape == (4,) and (data["episode"] == 0).all()
    status = dict(zip(data["status_names"].tolist(), data["status_bits"].tolist(), strict=True))
    assert status == {flag.name: int(flag) for flag in TrackStatus}
    fields = json.loads(str(data["fields"]))
    assert set(fields) == set(Track.allocate(1, 16, "cpu").arrays())
    assert "[length]" in fields["center"]
    assert "half_width" in str(data["units"])
    assert str(data["package_version"]) and str(data["warp_version"]).startswith("1.")


def test_npz_loads_without_the_package(written):
    code = (
        "import sys, numpy; data = numpy.load(sys.argv[1], allow_pickle=False); "
        "assert data['center'].shape[0] == 4; "
        "assert not any(m.startswith(('warp', 'track_gen')) for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(written[0])], check=True)


def test_seed_of_the_file_gives_the_same_tracks(written):
    from track_gen import PerEnvSeededRNG, TrackGenConfig, TrackGenerator
    from track_gen.generators import Polar

    with np.load(written[0]) as file:
        data = dict(file)
    config = TrackGenConfig(
        num_envs=4,
        half_width=(0.05, 0.1),
        device="cpu",
        direction="cw",
        generator=Polar(num_knots=10, radial_jitter=(0.2, 0.4)),
    )
    track = TrackGenerator(config, PerEnvSeededRNG(data["seeds"], 4, "cpu")).generate()
    for name, array in track.numpy().items():
        np.testing.assert_array_equal(array, data[name], err_msg=name)


def test_picture_is_written(written):
    assert written[1].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert written[1].stat().st_size > 5000
    assert [path.name for path in sorted(written[1].parent.iterdir())] == [
        "tracks.npz",
        "tracks.png",
    ]


@pytest.mark.parametrize("command", ["generate", "gates"])
def test_world_shows_all_envs(capsys, tmp_path, monkeypatch, command):
    seen = {}
    real = commands.plot_world

    def note(batch, origins, **options):
        seen["figure"] = real(batch, origins, **options)
        seen["origins"] = origins.numpy()

    monkeypatch.setattr(commands, "plot_world", note)
    path = tmp_path / "world.png"
    code, out, err = run(capsys, command, *SMALL, "--plot", path, "--world", "2.5")
    assert (code, err) == (0, "") and f"wrote {path}" in out
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(seen["figure"].axes) == 1
    assert seen["origins"][3].tolist() == [1.25, 1.25, 0.0]


def test_elevation_by_name_and_dotted_flags(capsys, tmp_path):
    path = tmp_path / "hills.npz"
    flags = ("--elevation", "noise", "--noise.harmonics", "2", "--noise.max-grade", "0.2")
    code, _, err = run(capsys, "generate", *SMALL, *flags, "--out", str(path))
    assert (code, err) == (0, "")
    with np.load(path) as file:
        for z, count in zip(file["center"][..., 2], file["count"], strict=True):
            assert np.ptp(z[:count]) > 0
        config = json.loads(str(file["config"]))
    assert config["elevation"] == {
        "profile": "noise", "max_grade": 0.2, "banking": 0.0, "banking_radius": 4.0, "z": 0.0,
        "amplitude": None, "harmonics": 2,
    }  # fmt: skip


def test_generate_prints_figures(capsys):
    code, out, err = run(capsys, "generate", "--generator", "polar", *SMALL)
    assert (code, err) == (0, "")
    for text in ("polar", "yield", "100.00 %", "compactness", "ms per track"):
        assert text in out


def test_invalid_tracks_are_explained(capsys):
    code, out, err = run(
        capsys, "generate", "--generator", "polar", *SMALL, "--N-max", "32", "--max-attempts", "1"
    )
    assert code == 0
    assert "4 not valid: OVERFLOW 4; N_max is 32" in out.replace("\n", " ")
    assert err.startswith("track-gen: warning: TrackGenConfig.N_max=32 is too small")
    assert err.count("\n") == 1


def test_info(capsys):
    code, out, err = run(capsys, "info")
    assert (code, err) == (0, "")
    for text in ("Warp", "cpu", "kernel cache", *available_generators()):
        assert text in out


def test_help_names_the_flags(capsys):
    code, out, err = run(capsys, "generate", "--help")
    assert (code, err) == (0, "")
    for flag in ("--num-envs", "--half-width", "--spacing", "--N-max", "--polar.radial-jitter"):
        assert flag in out
    assert run(capsys, "--help")[0] == 0


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["generate", "--half-width", "nan"], "TrackGenConfig.half_width must be finite and > 0"),
        (["generate", "--half-width", "0"], "TrackGenConfig.half_width must be finite and > 0"),
        (["generate", "--num-envs", "0"], "TrackGenConfig.num_envs must be in [1, "),
        (["generate", "--num-envs", "1.5"], "--num-envs"),
        (["generate", "--generator", "bezir"], "Did you mean: 'bezier'?"),
        (["generate", "--generator", "library"], "'library' has no defaults"),
        (["generate", "--device", "cuda:77"], "no Warp device 'cuda:77'; available: "),
        (["generate", "--direction", "clockwise"], "TrackGenConfig.direction must be one of"),
        (["generate", "--bezier.rad", "0.6", "0.2"], "Bezier.rad must be ordered, low <= high"),
        (["generate", "--bezier.rad", "x"], "--bezier.rad"),
        (["generate", "--bezir.rad", "0.2"], "Did you mean: --bezier.rad?"),
        (["generate", "--numenvs", "2"], "Did you mean: --num-envs?"),
        (["generate", "--hull.displacement", "0.2"], "--hull.* needs --generator hull, got bezier"),
        (["generate", "--elevation", "nois"], "--elevation must be one of 'flat', 'uniform'"),
        (["generate", "--noise.harmonics", "3"], "--noise.* needs --elevation noise, got None"),
        (["generate", "--elevation", "noise", "--noise.amplitude", "0"], "Noise.amplitude must be"),
        (["generate", "--out", "tracks.txt"], "--out must end in .npz, got 'tracks.txt'"),
        (["generate", "--out", "/none/tracks.npz"], "--out: no such folder: '/none'"),
        (["generate", "--plot", "tracks.foo"], "--plot must end in one of"),
        (["generate", "--plot", "/none/tracks.png"], "--plot: no such folder: '/none'"),
        (["generate", "--world", "3"], "--world needs --plot"),
        (["generate", "--world", "0", "--plot", "a.png"], "--world must be finite and > 0, got 0"),
        (["gates", "--world", "nan", "--plot", "a.png"], "--world must be finite and > 0, got nan"),
        (["generate", "--spacing", "7"], "TrackGenConfig.spacing must be in"),
        (["demo", "--half-width", "-1"], "TrackGenConfig.half_width must be finite and > 0"),
        (["demo", "--out", "/proc/none/demo.png"], "/proc/none"),
        (["generat"], "generat"),
        ([], "{generate, gates, info, demo}"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(capsys, tmp_path, monkeypatch, args, text):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *args)
    assert code == 2
    assert text in err
    assert err.startswith("track-gen: error: ") and err.count("\n") == 1 and err.endswith("\n")
    assert out == ""
    assert not any("─" in line or "│" in line for line in err.splitlines())


def test_a_folder_is_not_a_file(capsys, tmp_path):
    (tmp_path / "tracks.npz").mkdir()
    code, _, err = run(capsys, "generate", "--out", tmp_path / "tracks.npz")
    assert code == 2 and "is a folder" in err


@pytest.mark.parametrize(
    ("package", "extra", "args"),
    [
        ("tyro", "cli", ["info"]),
        ("rich", "cli", ["info"]),
        ("matplotlib", "viz", ["generate", "--plot", "tracks.png"]),
        ("matplotlib", "viz", ["demo"]),
    ],
)
def test_missing_extras_are_named(capsys, tmp_path, monkeypatch, package, extra, args):
    real = builtins.__import__

    def without(name, *rest, **kwargs):
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *rest, **kwargs)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builtins, "__import__", without)
    code, _, err = run(capsys, *args)
    assert code == 2
    assert f"pip install 'track-gen[{extra}]'" in err and err.count("\n") == 1


def test_demo_shows_every_family(capsys, tmp_path, monkeypatch):
    two = {name: families_with_defaults()[name] for name in ("polar", "hull")}
    monkeypatch.setattr(commands, "families_with_defaults", lambda: two)
    picture = tmp_path / "new" / "demo.png"
    code, out, err = run(capsys, "demo", *SMALL, "--out", picture)
    assert (code, err) == (0, "")
    assert "polar" in out and "hull" in out and "100.00 %" in out
    assert picture.stat().st_size > 5000


def test_every_family_but_library_is_offered():
    offered = set(families_with_defaults())
    assert offered == set(available_generators()) - {"library"}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_errors_of_a_process_are_one_line_too(encoding):
    done = subprocess.run(
        [sys.executable, "-m", "track_gen.cli", "generate", "--bezir.rad", "0.2"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, done.stdout) == (2, "")
    text = "Unrecognized options: --bezir.rad, 0.2. Did you mean: --bezier.rad?"
    assert done.stderr == f"track-gen: error: {text}\n"


def test_module_and_script_run():
    script = shutil.which("track-gen", path=sysconfig.get_path("scripts"))
    assert script is not None
    for command in ([sys.executable, "-m", "track_gen.cli", "info"], [script, "info"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and "Warp" in done.stdout and done.stderr == ""


def test_a_host_driven_family_shows_progress(capsys, monkeypatch):
    """The bar hears of every window and is taken off the generator again."""
    from rich.progress import Progress

    seen = []
    update = Progress.update

    def note(self, task, **fields):
        seen.append(fields)
        update(self, task, **fields)

    monkeypatch.setattr(Progress, "update", note)
    command = ["generate", "--generator", "repulsive", "--num-envs", "4", "--half-width", "0.1"]
    assert cli.main([*command, "--device", "cpu"]) == 0
    assert seen and seen[-1]["completed"] == 4 and seen[-1]["iterations"] > 16
    seen.clear()
    command[2] = "bezier"
    assert cli.main([*command, "--device", "cpu"]) == 0
    assert not seen


def test_metrics_are_shown_and_written(capsys, tmp_path):
    out = tmp_path / "m.npz"
    args = ["generate", "--num-envs", "6", "--half-width", "0.08", "--metrics", "--out", str(out)]
    args += ["--device", "cpu"]
    assert cli.main(args) == 0
    shown = capsys.readouterr().out
    assert "min_clearance" in shown and "ideal_lap_time" in shown
    with np.load(out) as file:
        assert file["metrics_area"].shape == (6,) and (file["metrics_area"] > 0.0).all()
        assert file["metrics_length"].tobytes() == file["length"].tobytes()
    assert Track.load(out, "cpu").num_envs == 6


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("track-gen 0.")


def test_a_reader_that_leaves_early_is_no_error():
    script = f"{sys.executable} -m track_gen.cli generate --help | head -n 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout and "error" not in done.stderr and "Traceback" not in done.stderr


def test_a_road_that_no_number_of_slots_holds(capsys):
    assert (
        cli.main(["generate", "--num-envs", "4", "--half-width", "0.002", "--device", "cpu"]) == 0
    )
    both = "".join(capsys.readouterr()).replace("\n", " ")
    assert "the limit is 4095: the road is too narrow for the scale" in both
    assert "suffices" not in both and "would do" not in both
