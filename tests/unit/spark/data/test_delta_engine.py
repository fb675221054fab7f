"""How large plans become: frames that have grown are cut off, and those that read them begin anew."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

from sqb.spark.data.delta_engine import LARGEST_PLAN, SparkEngine

# Spark's settings: what it knows of columns is not handed on where a frame is cut off.
SETTINGS = {"spark.sql.constraintPropagation.enabled": "true"}


class Frame:
    """What the engine does with a frame, without Spark."""

    def __init__(self) -> None:
        self.is_cut = self.is_cached = False

    def persist(self, _: object) -> None:
        self.is_cached = True

    def unpersist(self) -> None:
        self.is_cached = False

    def localCheckpoint(self) -> Frame:
        assert list(SETTINGS.values()) == ["false"]
        frame = Frame()
        frame.is_cut = True
        return frame

    def createOrReplaceTempView(self, _: str) -> None:
        pass


def make_engine(stack: ExitStack) -> SparkEngine:
    catalog = SimpleNamespace(dropTempView=lambda _: None)
    conf = SimpleNamespace(get=SETTINGS.__getitem__, set=SETTINGS.__setitem__)
    session: Any = SimpleNamespace(sql=lambda _: Frame(), catalog=catalog, conf=conf)
    return SparkEngine(session, stack)


def test_a_frame_over_frames_counts_all_that_these_read() -> None:
    with ExitStack() as stack:
        engine = make_engine(stack)
        one = engine.create_view(engine.run("SELECT * FROM a JOIN b ON a.k = b.k"))
        two = engine.create_view(engine.run(f"SELECT 'FROM' FROM {one} AS x JOIN {one} AS y -- JOIN"))
        assert engine.get_size(engine.run(f"SELECT * FROM {two}")) == 1 + (2 + 2 + 2)


def test_what_is_computed_once_is_cut_off_when_its_plan_is_large() -> None:
    with ExitStack() as stack:
        engine = make_engine(stack)
        view, sizes = engine.create_view(engine.run("SELECT * FROM a")), []
        for _ in range(12):
            # Each change reads the one before it twice.
            frame: Any = engine.persist(engine.run(f"SELECT * FROM {view} AS x JOIN {view} AS y"))
            assert frame.is_cut != frame.is_cached
            sizes.append(engine.get_size(frame))
            view = engine.create_view(frame)
        assert max(sizes) <= LARGEST_PLAN and sizes.count(1) >= 2
        assert list(SETTINGS.values()) == ["true"]


def test_what_is_made_beside_the_engine_counts_what_it_is_made_of() -> None:
    with ExitStack() as stack:
        engine = make_engine(stack)
        changed: Any = engine.run("SELECT * FROM a JOIN b JOIN c")
        merged: Any = engine.derive(Frame(), changed, Frame())  # type: ignore[arg-type]
        assert engine.get_size(merged) == 3 + 1
        many: Any = engine.derive(Frame(), *[merged] * (LARGEST_PLAN // 4 + 1))  # type: ignore[arg-type]
        cut: Any = engine.persist(many)
        assert cut.is_cut
