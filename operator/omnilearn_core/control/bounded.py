"""Numbers as a stored state may hold them: wide enough for every run, narrow enough that nothing overflows.

A state comes back from outside (laws.py), so it is input like any other.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Count = Annotated[int, Field(ge=0, le=2**53)]
Share = Annotated[int, Field(ge=0, le=2**24)]
SomeShare = Annotated[int, Field(ge=1, le=2**24)]
Windows = Annotated[int, Field(ge=1, le=2**53)]
Time = Annotated[float, Field(ge=-1e15, le=1e15)]
Cpus = Annotated[float, Field(ge=1e-4, le=65536)]
Amount = Annotated[float, Field(ge=0, le=1e15)]
Positive = Annotated[float, Field(ge=1e-24, le=1e15)]
Variance = Annotated[float, Field(ge=0, le=1e60)]
Signed = Annotated[float, Field(ge=-1e60, le=1e60)]
