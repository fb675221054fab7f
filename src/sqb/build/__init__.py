"""Doing it: a Plan is carried out node by node, and everything that happens is an event.

Called, as `sqb.build(…)`, it is what `sqb.api` has under that name.
"""

from sqb.called import make_callable

make_callable(__name__)
