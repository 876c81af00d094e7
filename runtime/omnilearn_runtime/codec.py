"""A state (model, optimizer, position) as text and tensors, and both as bytes: no pickle on any wire.

Heals and checkpoints call this. `pack` takes what `state_dict` methods return; `unpack` gives an equal tree. What
arrives as bytes is checked before anything is made of it.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Buffer, Parameter

# In JSON a list is always [kind, …]; everything else stands for itself.
# In bytes there are a prefix, a header and a body; the body, and each tensor in it, begin at a multiple of this.
_ALIGNMENT = 16
_DEEPEST = 64
_MAGIC = b"OMNILRN1"
_PREFIX = struct.Struct("<8sQIIQ")  # magic, bytes of the header, their CRC, the body's CRC, bytes of the body

_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
        *(torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
        *(torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
        *(torch.complex32, torch.complex64, torch.complex128),
    )
}


class UnpackableError(TypeError):
    """A value that cannot be sent; the user must keep it out of the managed state."""


class DamagedError(ValueError):
    """What was received or read is not what was sent."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A tree of plain values as JSON text, and its tensors in the order of their numbers in the text."""

    text: str
    tensors: list[Tensor]

    def clone(self) -> Packed:
        """Return a copy on the CPU that later steps cannot change."""
        return Packed(self.text, [tensor.detach().to("cpu", copy=True).contiguous() for tensor in self.tensors])


def pack(tree: Any) -> Packed:
    """Take a tree apart into text and tensors; the tensors are the tree's own, not copies."""
    tensors: list[Tensor] = []
    return Packed(json.dumps(_encode(tree, (), tensors), separators=(",", ":")), tensors)


def unpack(packed: Packed) -> Any:
    """Put a tree together again; its tensors are those of ``packed``, not copies."""
    try:
        return _decode(json.loads(packed.text), packed.tensors)
    except (ValueError, TypeError, AttributeError, LookupError, RuntimeError) as error:
        raise DamagedError(
            f"the state's text cannot be read ({error}): it was damaged or made by another version"
        ) from error


def _encode(value: Any, path: tuple[str, ...], tensors: list[Tensor]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if len(path) <= _DEEPEST:
        if kind in _PLAIN:
            return _PLAIN[kind](value)
        if kind in (dict, OrderedDict, Counter):
            return [kind.__name__, *_encode_items(value, path, tensors)]
        if kind in (list, tuple):
            return [kind.__name__, *(_encode(item, (*path, str(i)), tensors) for i, item in enumerate(value))]
        if kind in (Tensor, Parameter, Buffer) and _is_plain(value):
            tensors.append(value.detach())
            return ["tensor", len(tensors) - 1]
    raise UnpackableError(_refusal(value, path))


def _encode_items(value: Mapping[Any, Any], path: tuple[str, ...], tensors: list[Tensor]) -> Iterable[Any]:
    for key, item in value.items():
        plain = key.item() if isinstance(key, np.generic) else key
        if type(plain) not in (str, int, float, bool):
            raise UnpackableError(f"{_name(path)} has a key that is a {_type(key)}: only plain keys can be sent")
        yield [_PLAIN[type(plain)](plain), _encode(item, (*path, str(plain)), tensors)]


def _encode_int(value: int) -> Any:
    # Python refuses to write very long numbers in decimal, and other readers of JSON to read more than 64 bits.
    return value if -(2**63) <= value < 2**63 else ["int", hex(value)]


def _encode_float(value: float) -> Any:
    return value if math.isfinite(value) else ["float", str(value)]


_PLAIN: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    str: lambda value: value,
    int: _encode_int,
    float: _encode_float,
    torch.Size: lambda value: ["Size", *value],
    torch.dtype: lambda value: ["dtype", str(value).removeprefix("torch.")],
    torch.device: lambda value: ["device", str(value)],
}


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.dtype in _DTYPES.values() and not tensor.is_meta


def _refusal(value: Any, path: tuple[str, ...]) -> str:
    if len(path) > _DEEPEST:
        return f"{_name(path[:4])}… is nested more than {_DEEPEST} deep: only trees can be sent to joining workers"
    what = f"{value.layout} tensor of {value.dtype} on {value.device}" if isinstance(value, Tensor) else _type(value)
    return f"{_name(path)} is a {what}: only tensors and plain values can be sent to joining workers"


def _type(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _name(path: tuple[str, ...]) -> str:
    return ".".join(path) or "the state"


def _decode(node: Any, tensors: list[Tensor]) -> Any:
    if isinstance(node, dict):
        raise TypeError("an object where a list was expected")
    if not isinstance(node, list):
        return node
    kind, *rest = node
    if kind in _LEAVES:
        return _LEAVES[kind](rest)
    if kind == "tensor":
        return _tensor(rest, tensors)
    if kind in ("list", "tuple"):
        items = [_decode(item, tensors) for item in rest]
        return tuple(items) if kind == "tuple" else items
    return _MAPPINGS[kind]([(_decode(key, tensors), _decode(value, tensors)) for key, value in rest])


def _tensor(rest: list[Any], tensors: list[Tensor]) -> Tensor:
    match rest:
        case [int() as index] if 0 <= index < len(tensors):
            return tensors[index]
        case _:
            raise LookupError(f"there is no tensor {rest}")


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name!r} is no dtype")
    return dtype


_LEAVES: dict[str, Callable[[list[Any]], Any]] = {
    "int": lambda rest: int(rest[0], 16),
    "float": lambda rest: float(rest[0]),
    "Size": torch.Size,
    "dtype": lambda rest: _dtype(rest[0]),
    "device": lambda rest: torch.device(rest[0]),
}
_MAPPINGS: dict[str, Callable[[list[tuple[Any, Any]]], Any]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "Counter": lambda items: Counter(dict(items)),
}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor lies in the body."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def to_bytes_tensor(packed: Packed, check_body: bool = True) -> Tensor:
    """Return text and tensors as one uint8 tensor on the CPU; the body's checksum costs about half a second per GB."""
    places = _places([(tensor.dtype, tuple(tensor.shape)) for tensor in packed.tensors])
    listed = [[str(place.dtype).removeprefix("torch."), place.shape, place.offset] for place in places]
    header = json.dumps({"text": packed.text, "tensors": listed}, separators=(",", ":")).encode()
    start = _aligned(_PREFIX.size + len(header))
    whole = torch.zeros(start + _end(places), dtype=torch.uint8)
    for place, tensor in zip(places, packed.tensors, strict=True):
        whole[start + place.offset :][: place.size] = _bytes_of(tensor)
    body_crc = _crc(whole[start:]) if check_body else 0
    prefix = _PREFIX.pack(_MAGIC, len(header), zlib.crc32(header), body_crc, whole.numel() - start)
    opening = bytearray(prefix + header)
    whole[: len(opening)] = torch.frombuffer(opening, dtype=torch.uint8)
    return whole


def from_bytes_tensor(whole: Tensor, device: torch.device | str = "cpu") -> Packed:
    """Read what `to_bytes_tensor` wrote, after checking all of it; the tensors are copies, on ``device``."""
    if whole.dtype is not torch.uint8 or whole.dim() != 1:
        raise DamagedError(f"a state must arrive as bytes, not as {whole.dtype} of shape {tuple(whole.shape)}")
    whole = whole.detach().cpu()
    header, start = _header(whole)
    body = whole[start:]
    try:
        described = json.loads(header)
        places = _read_places(described["tensors"])
        text = described["text"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise DamagedError(f"the header of a received state cannot be read: {error}") from error
    if not isinstance(text, str) or _end(places) != body.numel():
        raise DamagedError(f"the tensors of a received state need {_end(places)} bytes, but {body.numel()} are there")
    return Packed(text, [_tensor_at(body, place).to(device) for place in places])


def _header(whole: Tensor) -> tuple[bytes, int]:
    """Return the header and where the body begins, once lengths and checksums are right."""
    if whole.numel() < _PREFIX.size:
        raise DamagedError(f"a received state has only {whole.numel()} bytes")
    magic, length, header_crc, body_crc, body_size = _PREFIX.unpack(bytes(whole[: _PREFIX.size].numpy()))
    if magic != _MAGIC:
        raise DamagedError("what was received is no state, or one of another version")
    start = _aligned(_PREFIX.size + length)
    if start + body_size != whole.numel():
        raise DamagedError(f"a received state should have {start + body_size} bytes, but has {whole.numel()}")
    header = bytes(whole[_PREFIX.size : _PREFIX.size + length].numpy())
    if zlib.crc32(header) != header_crc or (body_crc and _crc(whole[start:]) != body_crc):
        raise DamagedError("a received state was changed on its way: its checksum is wrong")
    return header, start


def _crc(body: Tensor) -> int:
    return zlib.crc32(body.numpy().data)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _places(kinds: Iterable[tuple[torch.dtype, tuple[int, ...]]]) -> list[_Place]:
    places: list[_Place] = []
    for dtype, shape in kinds:
        places.append(_Place(dtype, shape, _end(places)))
    return places


def _end(places: list[_Place]) -> int:
    return _aligned(places[-1].offset + places[-1].size) if places else 0


def _read_places(listed: Any) -> list[_Place]:
    """Return where the tensors lie; a list that does not say exactly what the sender's would is an error."""
    kinds = [(_DTYPES[dtype], tuple(shape)) for dtype, shape, _ in listed]
    if any(type(length) is not int or length < 0 for _, shape in kinds for length in shape):
        raise ValueError("a shape is no list of lengths")
    places = _places(kinds)
    if [place.offset for place in places] != [offset for _, _, offset in listed]:
        raise ValueError("the tensors do not lie one after the other")
    return places


def _bytes_of(tensor: Tensor) -> Tensor:
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8)


def _tensor_at(body: Tensor, place: _Place) -> Tensor:
    # Cloned, so that each tensor is aligned and none keeps the whole message in memory.
    piece = body[place.offset :][: place.size].clone()
    try:
        return piece.view(place.dtype).reshape(place.shape)
    except (RuntimeError, OverflowError, TypeError) as error:
        raise DamagedError(f"a received state has a tensor of the impossible shape {place.shape}") from error
