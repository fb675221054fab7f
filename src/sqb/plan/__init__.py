"""What to do: pure functions from the compiled project and what was observed to a Plan.

Called, as `sqb.plan(…)`, it is what `sqb.api` has under that name.
"""

from sqb.called import make_callable

make_callable(__name__)
