"""`sqb init --from-dbt`: what was converted, and what was not, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqb.dbt.convert.report import Remark
from sqb.operations.init import ConvertedProject


def format_conversion(converted: ConvertedProject, here: str) -> Iterator[str]:
    """What was made, then what was left out, then what is worth a look."""
    models = f"{converted.models} model{'' if converted.models == 1 else 's'}"
    yield f"Made a project of {len(converted.files)} files in {here}, with {models}"
    left_out = [remark for remark in converted.remarks if remark.is_left_out]
    notes = [remark for remark in converted.remarks if not remark.is_left_out]
    yield from _format_section("Not converted:", left_out)
    yield from _format_section("Converted, and worth a look:", notes)
    if not left_out:
        yield "Everything was converted."


def _format_section(title: str, remarks: Sequence[Remark]) -> Iterator[str]:
    if remarks:
        yield title
    for remark in remarks:
        yield f"  {remark.file}:{remark.line}: {remark.what}: {remark.why}"
