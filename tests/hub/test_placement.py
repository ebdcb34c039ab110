"""Which host a board goes to, and how many there should be: for any policy and any boards."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tbhub.hub.placement import Load, Policy

policies = st.builds(
    Policy,
    boards_per_host=st.integers(0, 4),
    min_hosts=st.integers(0, 4),
    max_hosts=st.sampled_from([0, 4, 7]),
)


def having(boards: int, *data: str) -> Load:
    """A host with so many boards, all of the same data."""
    load = Load()
    for each in range(boards):
        load.add(f"board{each}", frozenset(data))
    return load


@given(policies, st.lists(st.integers(0, 6)))
def test_the_emptiest_host_with_room_is_chosen(policy: Policy, boards: list[int]) -> None:
    chosen = policy.choose(enumerate(map(having, boards)))
    room = [each for each in boards if not policy.boards_per_host or each < policy.boards_per_host]
    assert (chosen is None) == (not room)
    if chosen is not None:
        assert boards[chosen] == min(room)
        assert chosen == boards.index(min(room))


def test_a_host_that_has_the_data_is_preferred() -> None:
    hosts = [having(1, "a"), having(3, "a", "b"), having(2, "c"), having(2, "b", "a")]
    wanted = Policy().choose(enumerate(hosts), frozenset("abx"))
    assert wanted == 3  # as much of it as the second, and fewer boards
    assert Policy().choose(enumerate(hosts), frozenset("c")) == 2
    assert Policy().choose(enumerate(hosts), frozenset("x")) == 0


def test_but_not_one_with_many_more_boards() -> None:
    hosts = [having(8, "a"), having(0)]
    assert Policy().choose(enumerate(hosts), frozenset("a")) == 0
    hosts[0].add("one more", frozenset("a"))
    assert Policy().choose(enumerate(hosts), frozenset("a")) == 1


def test_nor_one_that_is_full() -> None:
    hosts = [having(2, "a"), having(1)]
    assert Policy(boards_per_host=2).choose(enumerate(hosts), frozenset("a")) == 1


shown = st.frozensets(st.sampled_from("abcd"))


@given(st.lists(st.tuples(st.sampled_from("123"), shown | st.none())), shown)
def test_a_load_knows_what_its_boards_show(changes: list[Any], wanted: frozenset[str]) -> None:
    load, kept = Load(), dict[str, frozenset[str]]()
    for board, data in changes:
        if data is None:
            load.discard(board)
            kept.pop(board, None)
        else:
            load.add(board, data)
            kept[board] = data
    assert len(load) == len(kept)
    assert all((board in load) == (board in kept) for board in "123")
    assert load.has_of(wanted) == len(wanted & frozenset().union(*kept.values()))


@given(policies, st.integers(0, 9), st.integers(0, 20))
def test_there_are_hosts_enough_and_none_too_many(policy: Policy, busy: int, waiting: int) -> None:
    wanted = policy.wanted(busy=busy, waiting=waiting)
    assert wanted >= 0
    if policy.max_hosts:
        assert not wanted or busy + wanted <= policy.max_hosts
    else:
        assert busy + wanted >= policy.min_hosts
        room = wanted * policy.boards_per_host if policy.boards_per_host else 10**9
        assert room >= waiting
    if not waiting:
        assert wanted <= policy.min_hosts


@given(policies, st.lists(st.booleans(), max_size=40))
def test_boards_that_come_and_go_all_find_a_host(policy: Policy, comings: list[bool]) -> None:
    """A hub in small: True, a board comes; False, the oldest goes."""
    hosts: list[int] = []
    waiting = placed = 0
    for comes in comings:
        if comes:
            waiting += 1
        elif placed:
            hosts[next(number for number, boards in enumerate(hosts) if boards)] -= 1
            placed -= 1
        while True:
            while waiting and (chosen := policy.choose(enumerate(map(having, hosts)))) is not None:
                hosts[chosen] += 1
                waiting, placed = waiting - 1, placed + 1
            busy = sum(map(bool, hosts))
            wanted = policy.wanted(busy=busy, waiting=waiting)
            if wanted <= len(hosts) - busy:
                break
            hosts.append(0)
        spare = len(hosts) - busy - wanted
        for _ in range(spare):
            hosts.remove(0)
        if policy.max_hosts and waiting:
            assert len(hosts) == policy.max_hosts
        else:
            assert not waiting
