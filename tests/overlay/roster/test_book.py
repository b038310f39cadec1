"""The book by itself: any order of records gives the same, comparing finds what differs, bounds hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.ring import MASK, SPACE, Arc, distance, to_wire
from overlay.roster.book import Book
from overlay.roster.member import Member, Standing

ALL = 1_000
IDS = [to_wire(n * (SPACE // 7) + n) for n in range(7)]
records = st.lists(
    st.builds(
        Member,
        st.sampled_from(IDS),
        st.just("a:1"),
        st.integers(0, 2),
        st.integers(0, 2),
        st.sampled_from(Standing),
    ),
    max_size=30,
)


def book_of(members: list[Member]) -> Book:
    book = Book()
    for member in members:
        book.take(member, 100.0, ALL)
    return book


@given(records, st.randoms())
def test_records_in_any_order_give_the_same_book(members: list[Member], random: object) -> None:
    shuffled = list(members)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = book_of(members), book_of(shuffled + members)
    assert {kept.member for kept in one} == {kept.member for kept in other}
    assert one.mark() == other.mark() and one.part_marks() == other.part_marks()
    expected = sorted(int.from_bytes(kept.member.id) for kept in one if kept.member.standing.expected)
    assert one.expected_in(Arc(0, 0)) == expected
    assert set(one.lost()) == {kept.member.id for kept in one if kept.member.standing is Standing.LOST}


@given(records, records)
def test_one_comparison_makes_two_books_one(left: list[Member], right: list[Member]) -> None:
    one, other = book_of(left), book_of(right)
    parts = one.differing(other.part_marks())
    assert bool(parts) == (one.mark() != other.mark())
    lacking, unknown = other.compared(parts, one.marks_in(parts))
    told = [kept.member for kept in one.marked(unknown)]
    for kept in lacking:
        one.take(kept.member, 100.0, ALL)
    for member in told:
        other.take(member, 100.0, ALL)
    assert one.mark() == other.mark()
    assert {kept.member for kept in one} == {kept.member for kept in other}


@given(st.integers(0, MASK), st.integers(0, MASK), st.sets(st.integers(0, MASK), min_size=1, max_size=9))
def test_who_is_expected_in_a_stretch_and_at_a_key(start: int, end: int, ids: set[int]) -> None:
    book = book_of([Member(to_wire(each), "a:1", 1, 0) for each in ids])
    arc = Arc(start, end)
    assert sorted(book.expected_in(arc)) == sorted(each for each in ids if arc.contains(each))
    owner = book.expected_owner(start)
    assert owner is not None and distance(owner, start) == min(distance(each, start) for each in ids)


def member(number: int, standing: Standing = Standing.HERE, age_s: int = 0) -> Member:
    return Member(to_wire(number), "a:1", 1, 0, standing, age_s)


def test_the_longest_gone_make_room_and_the_living_do_not() -> None:
    book = Book()
    for each in (
        member(1),
        member(2, Standing.LOST, 50),
        member(3, Standing.LEFT, 10),
        member(4, Standing.RETIRED, 20),
    ):
        assert book.take(each, 100.0, 4)
    for number, gone in ((5, 4), (6, 3), (7, 2)):
        assert book.take(member(number), 100.0, 4) and book.get(to_wire(gone)) is None
    assert not book.take(member(8), 100.0, 4)
    assert (len(book), book.refused) == (4, 1)


def test_the_gone_are_forgotten_in_time_and_the_present_never() -> None:
    book = Book()
    for each in (member(1), member(2, Standing.LOST, 50), member(3, Standing.LEFT, 10)):
        book.take(each, 100.0, ALL)
    assert book.expire(149.0, 100.0) == 0 and book.expire(150.0, 100.0) == 1
    assert book.expire(1e9, 100.0) == 1 and len(book) == 1
    assert book.mark() == book_of([member(1)]).mark()
