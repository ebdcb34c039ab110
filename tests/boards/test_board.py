"""A board names its runs, keeps their order and tells what is new, through the whole host."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.endpoints import PLUGIN, STATUSES
from support.live import PATIENCE, append, eventually, record, scalar
from support.ours import Ours
from tbhub import SummaryWriter
from tbhub.boards.board import Board, BoardOptions, KnownRun, Source, split_logdir
from tbhub.catalog.templates import TemplateError
from tbhub.series.follower import Follower
from tbhub.series.group import GroupByError


def log(run: Path, start: float = 1.0, value: float = 1.0, **hparams: Any) -> Path:
    """A run whose first event is of some time, with hyperparameters in its own file."""
    run.mkdir(parents=True, exist_ok=True)
    file = run / "events.out.tfevents.1"
    append(file, record(wall_time=start, file_version="brain.Event:2") + scalar("loss", 1, value))
    if hparams:
        with SummaryWriter(run, filename_suffix=".hparams") as writer:
            writer.add_hparams(hparams, {}, run_name=".")
    return file


def named(*sources: Source, **options: Any) -> list[str]:
    """The names of a board's runs, in order."""
    with Ours() as ours:
        ours.create("two", *sources, options=BoardOptions(**options))
        return list(ours.host._boards["two"].runs)


def source(path: Path, name: str = "", **more: Any) -> Source:
    return Source(str(path), name, **more)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    """Over "logs", which is not there yet."""
    with Ours(tmp_path / "logs") as ours:
        yield ours.board


# ------------------------------------------------------------------------------------- names


def test_names_of_one_source_are_paths(tmp_path: Path) -> None:
    for run in (".", "a", "a/train", "b/c/d"):
        log(tmp_path / run)
    assert named(source(tmp_path)) == [".", "a", "a/train", "b/c/d"]
    assert named(source(tmp_path / "a")) == [".", "train"]


def test_names_of_sources_go_first(tmp_path: Path) -> None:
    for run in ("x/a", "x/b/train", "y/."):
        log(tmp_path / run)
    assert named(source(tmp_path / "x", "base"), source(tmp_path / "y", "new/one")) == [
        "base/a",
        "base/b/train",
        "new/one",
    ]


def test_one_event_file_is_a_run(tmp_path: Path) -> None:
    file = log(tmp_path / "a")
    assert named(source(file)) == ["."]
    assert named(source(file, "name")) == ["name"]


def test_equal_names_are_numbered(tmp_path: Path) -> None:
    log(tmp_path / "x" / "run", value=1)
    log(tmp_path / "y" / "run", value=2)
    with Ours() as ours:
        ours.board.add(source(tmp_path / "x", "a"))
        ours.board.add(source(tmp_path / "y", "a"))
        ours.look()
        points = ours.series("loss")
        assert {run: point["value"] for run, (point,) in points.items()} == {
            "a/run": 1,
            "a/run_2": 2,
        }


def test_one_directory_in_two_sources(tmp_path: Path) -> None:
    log(tmp_path / "run")
    assert named(source(tmp_path, "a"), source(tmp_path / "run", "b")) == ["a/run", "b"]
    assert named(source(tmp_path), source(tmp_path)) == ["run", "run_2"]


def test_places_show_a_directory_once(tmp_path: Path) -> None:
    for run in ("mix/0", "mix/1", "elsewhere/2"):
        log(tmp_path / run)
    (tmp_path / "link").symlink_to(tmp_path / "mix")
    (tmp_path / "mix" / "linked").symlink_to(tmp_path / "elsewhere" / "2")

    def place(path: str, name: str) -> Source:
        return source(tmp_path / path, name, place=True)

    # By the name that it has in the outermost place, in any order.
    both = [place("mix/0", "inner"), place("mix", "mix")]
    assert named(*both) == named(*reversed(both)) == ["mix/0", "mix/1", "mix/linked"]
    assert named(place("mix", "mix"), place("link", "link")) == named(*both)
    assert named(place("elsewhere/2", "two"), place("mix", "mix")) == named(*both)
    file = place("mix/0/events.out.tfevents.1", "file")
    assert named(file, place("mix/0", "zero")) == ["zero"]
    run = source(tmp_path / "mix" / "0", "best", columns={"run": "best"}, alone=True)
    assert set(named(place("mix", "mix"), run)) == {"best", "mix/1", "mix/linked"}


def test_a_run_stays_in_an_inner_place_when_the_outer_one_does_not_show_it(tmp_path: Path) -> None:
    for run in ("mix/0", "mix/1"):
        log(tmp_path / run)
    outer = source(tmp_path / "mix", place=True, known={"0": KnownRun(hidden=True)})
    with Ours() as ours:
        ours.board.add(outer)
        ours.board.add(source(tmp_path / "mix" / "0", "0", place=True))
        ours.look()
        assert sorted(ours.board.runs) == ["0", "1"]
        assert ours.board.run_count == 2
        assert ours.board.update(outer, replace(outer, known={}))
        assert sorted(ours.board.runs) == ["0", "1"]
        assert ours.board.run_count == 2


def test_a_template_with_hyperparameters(tmp_path: Path) -> None:
    log(tmp_path / "runs" / "a", lr=0.01, net="big/deep")
    log(tmp_path / "runs" / "b", lr=0.5, net="small")
    template = "{workspace}_{run}_lr={hparams.lr}_{net}"
    assert named(source(tmp_path / "runs"), template=template) == [
        "runs_a_lr=.01_big%2Fdeep",
        "runs_b_lr=.5_small",
    ]


def test_missing_values_are_told_once(tmp_path: Path) -> None:
    log(tmp_path / "a", lr=0.01)
    log(tmp_path / "b")
    log(tmp_path / "c")
    with Ours(tmp_path, BoardOptions(template="{run} {lr} {seed}")) as ours:
        assert list(ours.board.runs) == ["a .01 NA", "b NA NA", "c NA NA"]
        (notice,) = ours.board.notices()
    assert notice.text.startswith(
        f"fields without a value are named NA: {{lr}} in 2 of 3 runs, the first is {tmp_path}/b; "
        "{seed} in every run (there are workspace, run, logdir, path, hparams.lr"
    )


def test_train_and_test_are_told_apart_whatever_the_template(tmp_path: Path) -> None:
    for start, run in enumerate(("a/train", "a/test", "b/train", "b/test"), 1):
        log(tmp_path / run, start, lr=1)
    assert named(source(tmp_path), template="lr={lr}") == [
        *("lr=1/train", "lr=1/test", "lr=1_b/train", "lr=1_b/test")
    ]
    known = [
        Source(
            str(tmp_path / path),
            name,
            {"run": name, "owner": "ada", "metrics.loss": 0.5},
            {},
            alone=True,
        )
        for path, name in (("a/train", "a/train"), ("a/test", "a/test"), ("b/test", "b/test"))
    ]
    assert named(*known, template="{owner} {metrics.loss}") == [
        *("ada .5/train", "ada .5/test", "ada .5_b/test")
    ]
    assert named(*known, template="{run}-{logdir}") == ["a-train", "a-test", "b-test"]


def test_names_that_a_template_makes_alike_are_numbered(tmp_path: Path) -> None:
    for start, run in enumerate("cab", 1):
        log(tmp_path / run, start, lr=1)
    assert named(source(tmp_path), template="lr={lr}") == ["lr=1", "lr=1_a", "lr=1_b"]


def test_parts_of_a_run_share_its_hyperparameters(tmp_path: Path) -> None:
    log(tmp_path / "exp", lr=0.1)
    log(tmp_path / "exp" / "train")
    log(tmp_path / "exp" / "deep" / "er")
    log(tmp_path / "other" / "train")
    log(tmp_path / "other" / "test")
    with SummaryWriter(tmp_path / "torch") as writer:  # logs them in a directory of their own
        writer.add_scalar("loss", 1)
        writer.add_hparams({"lr": 0.2}, {"metric": 1.0}, run_name="session")
    assert set(named(source(tmp_path), template="{run}|{logdir}|{lr}")) == {
        "exp||.1",
        "exp|train|.1",
        "exp/deep/er||.1",
        "other|train|NA",
        "other|test|NA",
        "torch||.2",
        "torch|session|.2",
    }


def test_hyperparameters_of_the_root_are_its_parts(tmp_path: Path) -> None:
    log(tmp_path, lr=0.1)
    log(tmp_path / "train")
    assert set(named(source(tmp_path), template="{path} {lr}")) == {". .1", "train .1"}


def test_columns_known_of_a_run_win(tmp_path: Path) -> None:
    log(tmp_path / "logs" / "train", lr=0.1)
    columns = {"workspace": "team", "run": "run7", "status": "done"}
    given = source(tmp_path / "logs", columns=columns, hparams={"lr": 0.5})
    template = "{workspace}/{run}/{status} {lr}/{logdir}"
    assert named(given, template=template) == ["team/run7/done .5/train"]


@pytest.mark.parametrize(
    ("path", "runs", "split"),
    [
        ("exp/train", [], ("exp", "train")),
        ("exp/validation", [], ("exp", "validation")),
        ("exp/7", ["exp"], ("exp", "7")),
        ("exp/7", [], ("exp/7", "")),
        ("train", ["."], ("train", "")),
        ("a/b/eval", ["a"], ("a/b", "eval")),
        ("", [], ("", "")),
    ],
)
def test_where_a_run_ends_and_its_part_begins(
    path: str, runs: list[str], split: tuple[str, str]
) -> None:
    assert split_logdir(path, dict.fromkeys(runs)) == split


@pytest.mark.parametrize("template", ["{", "}", "{}", " "])
def test_a_template_that_is_none(template: str) -> None:
    with Ours() as ours, pytest.raises(TemplateError):
        ours.host.create("two", BoardOptions(template=template))


def test_a_grouping_that_is_none() -> None:
    with Ours() as ours, pytest.raises(GroupByError):
        ours.host.create("two", BoardOptions(group_by=","))


# ------------------------------------------------------------------------------------- order


def test_runs_come_by_their_first_event_and_then_by_name(tmp_path: Path) -> None:
    for run, start in (("d", 1), ("b", 2), ("a", 3), ("c", 2)):
        log(tmp_path / run, start)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "events.out.tfevents.1").touch()
    assert named(source(tmp_path)) == ["d", "b", "c", "a", "empty"]
    assert named(source(tmp_path), template="{run}") == ["d", "b", "c", "a", "empty"]
    with Ours(tmp_path) as ours:
        assert ours.json("/data/runs") == ["d", "b", "c", "a", "empty"]


def test_a_later_run_comes_last_and_the_others_keep_their_colours(tmp_path: Path) -> None:
    log(tmp_path / "b", 10)
    log(tmp_path / "c", 20)
    with Ours(tmp_path) as ours:
        assert ours.json("/data/runs") == ["b", "c"]
        log(tmp_path / "a", 1)
        ours.look()
        assert ours.json("/data/runs") == ["b", "c", "a"]
        shutil.rmtree(tmp_path / "b")
        ours.look()
        assert ours.json("/data/runs") == ["c", "a"]
        log(tmp_path / "b", 10)
        ours.look()
        assert ours.json("/data/runs") == ["c", "a", "b"]


# ------------------------------------------------------------------------ sources, and changes


def test_sources_come_and_go(tmp_path: Path) -> None:
    log(tmp_path / "x" / "a")
    log(tmp_path / "y" / "b")
    x, y = source(tmp_path / "x"), source(tmp_path / "y")
    with Ours() as ours:
        assert ours.json("/data/runs") == []
        ours.board.add(x)
        ours.board.add(y)
        ours.look()
        assert ours.json("/data/runs") == ["a", "b"]
        assert ours.json("/data/environment")["data_location"] == f"{x.path}, {y.path}"
        assert ours.board.remove(x)
        assert not ours.board.remove(x)
        assert ours.json("/data/runs") == ["b"]
        assert ours.series("loss").keys() == {"b"}
        ours.board.close()
        assert ours.json("/data/runs") == []
        assert ours.board.sources == []


def test_a_board_that_was_not_looked_at_meanwhile_shows_what_is_there(tmp_path: Path) -> None:
    chance = random.Random(0)
    with Ours(tmp_path) as ours:
        for _ in range(40):
            for _ in range(chance.randint(1, 3)):  # several changes between two looks
                run = tmp_path / chance.choice("abc")
                if run.exists():
                    shutil.rmtree(run)
                else:
                    log(run, value=chance.randint(1, 100))
                ours.look()
            there = {path.name for path in tmp_path.iterdir()}
            assert set(ours.json("/data/runs")) == there
            assert ours.series("loss").keys() == there


def test_a_run_that_was_logged_anew_shows_its_new_points(tmp_path: Path) -> None:
    with Ours(tmp_path) as ours:
        for value in range(8):
            log(tmp_path / "run", value=value)
            ours.look()
            ((point,),) = ours.series("loss").values()
            assert point["value"] == value
            shutil.rmtree(tmp_path / "run")
            ours.look()
            gc.collect()  # so that places in memory are given again


def test_what_was_kept_of_a_board_that_is_gone_is_not_shown(tmp_path: Path) -> None:
    for number in range(8):
        log(tmp_path / str(number) / "run", value=number)
    with Ours() as ours:
        for number in range(8):
            ours.host.delete("one")
            gc.collect()
            ours.create("one", source(tmp_path / str(number)))
            ((point,),) = ours.series("loss").values()
            assert point["value"] == number


def test_the_last_value_when_the_cache_was_deleted(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "run") as writer:
        for step in range(100):
            writer.add_scalar("loss", step, step, 1000.0)
    follower = Follower(cache_dir=tmp_path / "cache")
    board = Board("one", follower, BoardOptions())
    board.add(source(tmp_path / "run"))
    assert follower.wait_until_loaded(PATIENCE)
    board.runs["."].view.log.store()
    shutil.rmtree(tmp_path / "cache")
    assert board.runs["."].last("loss") == (99, 1000, 99)
    assert board.runs["."].extent("loss") == (99, 1000)
    follower.close()


def test_every_change_is_told_with_a_new_version(tmp_path: Path, board: Board) -> None:
    seen: list[int] = []
    stop = board.listen(lambda: seen.append(board.version))
    file = log(tmp_path / "logs" / "run")
    eventually(lambda: bool(seen) and board.runs["run"].view.version > 0)
    before = board.version
    append(file, scalar("loss", 2, 2))
    eventually(lambda: board.version > before)
    assert seen == sorted(seen)
    stop()
    stop()
    count = len(seen)
    board.changed()
    assert len(seen) == count


def test_no_version_is_given_twice(board: Board) -> None:
    versions: list[int] = []

    def change() -> None:
        for _ in range(2000):
            board.changed()

    before = board.version
    threads = [threading.Thread(target=change) for _ in range(4)]
    board.listen(lambda: versions.append(board.version))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert board.version == before + 8000


def test_a_source_removed_while_it_is_added_is_not_followed(tmp_path: Path) -> None:
    log(tmp_path / "run")
    with Ours() as ours:
        follow = ours.follower.follow

        def slow(path: str, on_change: Any, **given: Any) -> Any:
            root = follow(path, on_change, **given)
            ours.board.remove(source(tmp_path))
            return root

        ours.follower.follow = slow  # type: ignore[method-assign]
        ours.board.add(source(tmp_path))
        assert ours.board.sources == []
        assert ours.json("/data/runs") == []
        assert not ours.follower._roots


# ----------------------------------------------------------------------------------- notices


def test_damage_is_told(tmp_path: Path) -> None:
    file = log(tmp_path / "run")
    append(file, b"".join(scalar("loss", step, step) for step in range(2, 50)))
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)
    with Ours(tmp_path) as ours:
        (notice,) = ours.board.notices()
        assert notice.text == "run: 1 damaged place skipped (see tbhub check)"


def test_a_file_that_holds_no_event_is_told_until_it_does(tmp_path: Path) -> None:
    log(tmp_path / "run")
    strange = tmp_path / "run" / "events.out.tfevents.2"
    strange.write_bytes(b"\x01" * 200)
    with Ours(tmp_path) as ours:
        (notice,) = ours.board.notices()
        assert notice.text == (
            "run: events.out.tfevents.2 cannot be read: none of its 200 bytes is an event yet"
        )


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    log(tmp_path / "run")
    (tmp_path / "run" / "events.out.tfevents.2").symlink_to(tmp_path / "nowhere")
    with Ours(tmp_path) as ours:
        (notice,) = ours.board.notices()
        assert notice.text.startswith("run: events.out.tfevents.2 cannot be read: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_directories_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with Ours(tmp_path) as ours:
        (notice,) = ours.board.notices()
        assert notice.text == f"{tmp_path}/closed cannot be read: Permission denied"


def test_many_notices_are_cut_short(tmp_path: Path) -> None:
    for number in range(25):
        run = tmp_path / str(number)
        log(run)
        (run / "events.out.tfevents.2").symlink_to(tmp_path / "nowhere")
    with Ours(tmp_path) as ours:
        notices = ours.board.notices()
        assert len(notices) == 21
        assert notices[-1].text == "… and 5 more"


def test_notices_of_undecodable_names_can_be_sent(tmp_path: Path) -> None:
    run = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    log(run)
    (run / os.fsdecode(b"tfevents.\xfe")).symlink_to(tmp_path / "nowhere")
    with Ours(tmp_path) as ours:
        (notice,) = ours.board.notices()
        assert notice.text.startswith("%FF: tfevents.\ufffd cannot be read")
        (notice.id + notice.text).encode()


def test_loading_counts_the_boards_own_runs(tmp_path: Path) -> None:
    for run in "abc":
        log(tmp_path / run)
    with Ours(tmp_path) as ours:
        assert ours.board.loading == (3, 3)
        other = ours.create("two", source(tmp_path / "a"))
        assert other.loading == (1, 1)


# --------------------------------------------------------------------------- hyperparameters


def session_groups(ours: Ours) -> list[dict[str, Any]]:
    metrics = [{"metric": {"tag": "loss", "group": group}} for group in ("", "train", "test")]
    request = {"allowedStatuses": STATUSES, "colParams": metrics, "sliceSize": 100}
    _, _, body = ours.post(f"{PLUGIN}/hparams/session_groups", json.dumps(request))
    found: list[dict[str, Any]] = json.loads(body).get("sessionGroups", [])
    return found


def test_given_hyperparameters_are_shown_with_the_metrics_below_them(tmp_path: Path) -> None:
    for number in (1, 2):
        log(tmp_path / f"run{number}" / "train", value=number)
        log(tmp_path / f"run{number}" / "test", value=number + 10)
    with Ours() as ours:
        for number in (1, 2):
            hparams = {"lr": number / 10, "net": "big", "warm": True, "none": None}
            ours.board.add(source(tmp_path / f"run{number}", f"run{number}", hparams=hparams))
        ours.look()
        assert ours.json("/data/plugins_listing")["hparams"]["enabled"]
        groups = session_groups(ours)
        assert [group["name"] for group in groups] == ["run1", "run2"]
        for number, group in enumerate(groups, 1):
            assert group["hparams"]["lr"] == number / 10
            assert group["hparams"]["net"] == "big"
            assert group["hparams"]["warm"] is True
            values = {m["name"].get("group", ""): m["value"] for m in group["metricValues"]}
            assert values == {"train": number, "test": number + 10}


def test_given_hyperparameters_with_a_template(tmp_path: Path) -> None:
    log(tmp_path / "a")
    with Ours() as ours:
        options = BoardOptions(template="x{lr}")
        ours.host.delete("one")
        ours.create("one", source(tmp_path, hparams={"lr": 3}), options=options)
        (group,) = session_groups(ours)
        assert (group["name"], group["hparams"]) == ("x3", {"lr": 3})


def test_logged_hyperparameters_win_over_given_ones_of_the_same_run(tmp_path: Path) -> None:
    log(tmp_path, lr=0.5)
    with Ours() as ours:
        ours.board.add(source(tmp_path, "run", hparams={"lr": 0.1}))
        ours.look()
        (group,) = session_groups(ours)
        assert group["hparams"] == {"lr": 0.5}
