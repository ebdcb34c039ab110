"""Trainings that are preempted at random moments and resumed: what is there of their logs.

    python -m benchmarks.preemption --times 50

prints the table of docs/runs.md. Nothing is measured but what is lost, and how soon a resumed
training logs again.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.hub import HubProcess
from support.preemption import KINDS, Outcome, Preempted

_AT_A_TIME = 2


def main() -> None:
    """Run each kind so many times, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--kind", choices=KINDS, action="append", help="only these; repeatable")
    given = parser.parse_args()
    print(f"seed {given.seed}", file=sys.stderr)
    with (
        tempfile.TemporaryDirectory(prefix="tbhub-preemption-") as place,
        HubProcess(Path(place, "hub"), log_level="warning") as hub,
    ):
        rows = [
            _row(kind, _outcomes(hub, Path(place), kind, given)) for kind in given.kind or KINDS
        ]
    print("| what happens | times | steps flushed before | lost | twice | logs again after |")
    print("| --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))


def _outcomes(hub: HubProcess, place: Path, kind: str, given: argparse.Namespace) -> list[Outcome]:
    def trial(number: int) -> Outcome:
        directory = place / f"{kind}-{number}"
        outcome = Preempted(hub, directory, f"{kind}-{number}").run(
            kind, random.Random(f"{given.seed} {kind} {number}")
        )
        print(kind, number, outcome, file=sys.stderr, flush=True)
        shutil.rmtree(directory)
        return outcome

    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        return list(threads.map(trial, range(given.times)))


def _row(kind: str, outcomes: list[Outcome]) -> str:
    flushed = sum(each.flushed for each in outcomes)
    lost, twice = sum(each.lost for each in outcomes), sum(each.twice for each in outcomes)
    seconds = statistics.median(each.seconds for each in outcomes)
    return f"| {KINDS[kind]} | {len(outcomes)} | {flushed:,} | {lost} | {twice} | {seconds:.1f} s |"


if __name__ == "__main__":
    main()
