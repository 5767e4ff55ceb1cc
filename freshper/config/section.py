"""The base of every config section: frozen, strict about keys, documented under each field.

Nothing in ``freshper.config`` imports torch, so ``python run.py --help`` stays fast.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict


class Section(BaseModel):
    """One concern of the config. Unknown keys and changes after construction are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        allow_inf_nan=True,
        coerce_numbers_to_str=True,
        protected_namespaces=(),
    )


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number, got a truth value")
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("expected a finite number")
    return value


def _not_nan(value: float) -> float:
    if math.isnan(value):
        raise ValueError("expected a number (inf is allowed), got nan")
    return value


# YAML's `yes`/`true` would otherwise silently become the number 1.
Int = Annotated[int, BeforeValidator(_no_bool)]
Float = Annotated[float, BeforeValidator(_no_bool), AfterValidator(_finite)]
FloatOrInf = Annotated[float, BeforeValidator(_no_bool), AfterValidator(_not_nan)]
"""A limit or time constant for which infinity is a meaning of its own ("never", "no cap")."""
