"""Which runs are read next."""

from __future__ import annotations

from tbhub.catalog.read_queue import ReadQueue


def test_what_has_changed_goes_first() -> None:
    queue = ReadQueue(1.0)
    queue.want([1, 2, 3], urgent=False)
    queue.want([3, 9])
    queue.want([9], urgent=False)
    assert queue.take(3, 0.0) == [3, 9, 1]
    assert queue.take(3, 0.0) == [2]
    assert (queue.waits, queue.busy, len(queue)) == (False, 4, 4)


def test_what_happens_while_it_is_read_is_not_forgotten() -> None:
    queue = ReadQueue(1.0)
    queue.want([1])
    assert queue.take(1, 0.0) == [1]
    queue.want([1])
    assert queue.take(1, 0.0) == []
    queue.done(1, 0.0, live=False)
    assert queue.take(1, 0.0) == [1]
    queue.done(1, 0.0, live=False)
    assert len(queue) == 0


def test_a_live_run_is_not_read_too_often() -> None:
    queue = ReadQueue(1.0)
    queue.want([1])
    queue.take(1, 0.0)
    queue.want([1])
    queue.done(1, 10.0, live=True)
    assert queue.take(1, 10.5) == []
    assert queue.next_due(10.5) == 0.5
    assert queue.take(1, 11.0) == [1]
    queue.done(1, 11.0, live=True)
    assert queue.next_due(11.0) is None
    queue.want([1])
    assert queue.take(1, 11.5) == []
    assert queue.take(1, 12.5) == [1]


def test_what_could_not_be_read_is_read_later() -> None:
    queue = ReadQueue(1.0)
    queue.want([1, 2])
    queue.put_back(queue.take(2, 0.0))
    assert queue.take(2, 0.0) == [1, 2]


def test_a_run_that_is_no_more() -> None:
    queue = ReadQueue(1.0)
    queue.want([1, 2], urgent=False)
    queue.drop(1)
    assert queue.take(9, 0.0) == [2]
    queue.want([2])
    queue.drop(2)
    queue.done(2, 0.0, live=False)
    assert len(queue) == 0
