"""States survive the codec unchanged, and damaged bytes are refused with a sentence."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim import SGD, Adam, AdamW, Optimizer, lr_scheduler

from omnilearn_runtime import codec
from omnilearn_runtime.codec import (
    DamagedError,
    Packed,
    UnpackableError,
    from_bytes_tensor,
    pack,
    to_bytes_tensor,
    unpack,
)

laws = settings(max_examples=120, derandomize=True, deadline=None)
leaves = (
    st.none() | st.booleans() | st.integers() | st.integers(-(2**200), 2**200) | st.floats() | st.text(max_size=8)
    | st.sampled_from([torch.float32, torch.device("cpu"), torch.device("cuda:1"), torch.Size([2, 0, 3])])
    | st.sampled_from([torch.tensor(3), torch.arange(6.0).reshape(2, 3).t(), torch.zeros(0, 4), torch.tensor([True])])
)  # fmt: skip
keys = st.text(max_size=5) | st.integers() | st.booleans() | st.floats(allow_nan=False)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists, mappings = st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)
    counters = st.dictionaries(keys, st.integers(), max_size=3).map(Counter)
    return lists | lists.map(tuple) | mappings | mappings.map(OrderedDict) | counters


trees = st.recursive(leaves, containers, max_leaves=12)


def same(left: Any, right: Any) -> bool:
    """Tell whether two trees are alike in types, order and bits."""
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and left.shape == right.shape and bits(left) == bits(right)
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


def through_bytes(tree: Any) -> Any:
    return unpack(from_bytes_tensor(to_bytes_tensor(pack(tree))))


@laws
@given(trees)
def test_a_tree_survives(tree: Any) -> None:
    assert same(unpack(pack(tree)), tree)
    assert same(through_bytes(tree), tree)


def trained(make: Callable[[Any], Optimizer]) -> tuple[torch.nn.Module, Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    optimizer = make(model.parameters())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(torch.ones(2, 3)).square().sum()
        loss.backward()  # type: ignore[no-untyped-call] # torch has no types for it
        return loss

    optimizer.step(closure)  # type: ignore[arg-type] # a loss is a tensor
    return model, optimizer


@pytest.mark.parametrize(
    "make",
    [
        lambda p: SGD(p, lr=0.1, momentum=0.9),
        lambda p: Adam(p, lr=torch.tensor(0.1), foreach=False, capturable=False),
        lambda p: AdamW(p, amsgrad=True),
        lambda p: torch.optim.LBFGS(p, history_size=3),
    ],
    ids=["SGD", "Adam", "AdamW", "LBFGS"],
)
def test_the_state_of_an_optimizer_survives(make: Callable[[Any], Optimizer]) -> None:
    model, optimizer = trained(make)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    received = through_bytes(state)
    assert same(received["optimizer"], state["optimizer"])
    assert type(received["model"]) is OrderedDict
    _, other = trained(make)
    other.load_state_dict(received["optimizer"])
    assert same(other.state_dict(), state["optimizer"])


@pytest.mark.parametrize(
    "make",
    [
        lambda o: lr_scheduler.MultiStepLR(o, [2, 2, 5]),
        lambda o: lr_scheduler.CosineAnnealingLR(o, 10),
        lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=10),
        lr_scheduler.ReduceLROnPlateau,
        lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.LinearLR(o), lr_scheduler.ConstantLR(o)], [2]),
    ],
    ids=["MultiStep", "Cosine", "OneCycle", "Plateau", "Sequential"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_state_of_a_scheduler_survives(make: Callable[[Any], Any]) -> None:
    _, optimizer = trained(lambda p: SGD(p, lr=0.1, momentum=0.9))
    state = make(optimizer).state_dict()
    assert same(through_bytes(state), state)


def test_the_state_of_a_scaler_survives() -> None:
    state = torch.amp.GradScaler("cpu", init_scale=1024.0).state_dict()
    assert state
    assert same(through_bytes(state), state)


@pytest.mark.parametrize("dtype", codec._DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 5)], ids=str)
def test_every_dtype_survives_bit_by_bit(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    size = math.prod(shape) * dtype.itemsize
    values = (torch.arange(size) % (2 if dtype is torch.bool else 251)).to(torch.uint8)
    tensor = values.view(dtype).reshape(shape)
    assert same(through_bytes([1, tensor, torch.ones(1)]), [1, tensor, torch.ones(1)])


def test_a_lazily_conjugated_tensor_arrives_as_its_values() -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert through_bytes(tensor).tolist() == [1 - 2j, 3 + 4j]


def test_parameters_arrive_as_tensors_without_gradient() -> None:
    received = through_bytes(torch.nn.Parameter(torch.ones(2)))
    assert same(received, torch.ones(2))
    assert not received.requires_grad


def test_numpy_scalars_become_plain_values() -> None:
    tree = {np.int64(1): [np.float32(0.5), np.bool_(True), np.str_("a")]}
    assert same(through_bytes(tree), {1: [0.5, True, "a"]})


def test_numbers_of_any_length_survive() -> None:
    assert unpack(pack(-(10**5000))) == -(10**5000)


def test_a_received_tensor_does_not_keep_the_message() -> None:
    whole = to_bytes_tensor(pack([torch.ones(2), torch.ones(1000)]))
    small = from_bytes_tensor(whole).tensors[0]
    assert small.untyped_storage().nbytes() == small.nbytes


def test_a_clone_is_not_changed_by_later_steps() -> None:
    weight = torch.ones(2)
    packed = pack([weight])
    copied = packed.clone()
    weight.add_(1)
    assert (unpack(packed)[0].tolist(), unpack(copied)[0].tolist()) == ([2, 2], [1, 1])


class Pair(NamedTuple):
    left: int
    right: int


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (object(), "a object"),
        (lambda: 0, "a function"),
        (Pair(1, 2), r"a \S*Pair"),
        (defaultdict(int), "a collections.defaultdict"),
        (b"x", "a bytes"),
        (1j, "a complex"),
        ({1}, "a set"),
        (np.ones(2), "a numpy.ndarray"),
        (np.datetime64("2020"), "a datetime.date"),
        (torch.eye(2).to_sparse(), "a torch.sparse_coo tensor"),
        (torch.ones(2, device="meta"), "on meta"),
    ],
    ids=str,
)
def test_what_cannot_be_sent_is_named_with_its_path(value: Any, what: str) -> None:
    sentence = rf"optimizer\.state\.0\.foo is .*{what}.*: only tensors and plain values can be sent to joining workers"
    with pytest.raises(UnpackableError, match=sentence):
        pack({"optimizer": {"state": [{"foo": value}]}})


def test_a_key_that_cannot_be_sent_is_named() -> None:
    with pytest.raises(UnpackableError, match="extra has a key that is a tuple"):
        pack({"extra": {(1, 2): 3}})


def test_a_tree_that_holds_itself_is_refused() -> None:
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(UnpackableError, match="nested more than"):
        pack(tree)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "[[]]", '["what",1]', '["tensor"]', '["tensor",1]', '["tensor",-1]', '["tensor","0"]',
     '["dict",1]', '["int",5]', '["dict",[["list"],1]]', '["dtype","nn"]', '["device","moon"]', '["Size","x"]',
     "[" * 100000, '["dtype",7]'],
)  # fmt: skip
def test_a_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(DamagedError, match="the state's text cannot be read"):
        unpack(Packed(text, [torch.ones(1)]))


STATE = {"a": torch.arange(5), "b": [torch.tensor(2.0), "text"], "c": 3}


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.data())
def test_a_changed_byte_is_noticed(data: st.DataObject) -> None:
    whole = to_bytes_tensor(pack(STATE))
    at = data.draw(st.integers(0, whole.numel() - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        received = unpack(from_bytes_tensor(whole))
    except DamagedError:
        return
    assert same(received, STATE), "only the bytes between header and body mean nothing"


@laws
@given(st.integers(0, 300), st.binary(max_size=64))
def test_bytes_cut_off_or_added_are_noticed(keep: int, more: bytes) -> None:
    whole = to_bytes_tensor(pack(STATE))
    cut = bytes(whole.numpy())[:keep] + more
    if cut == bytes(whole.numpy()):
        return
    with pytest.raises(DamagedError):
        from_bytes_tensor(torch.frombuffer(bytearray(cut or b"\0"), dtype=torch.uint8))


@pytest.mark.parametrize(
    "wrong", [torch.zeros(0, dtype=torch.uint8), torch.zeros(64), torch.zeros(8, 8, dtype=torch.uint8)]
)
def test_what_is_no_row_of_bytes_is_refused(wrong: torch.Tensor) -> None:
    with pytest.raises(DamagedError):
        from_bytes_tensor(wrong)


@pytest.mark.parametrize(
    "tensors",
    [None, {}, 5, [[]], ["abc"], [["float99", [1], 0]], [["float32", [4], 16]],
     [["float32", [5], 0]], [["float32", [-4], 0]], [["float32", [2.0, 2], 0]],
     [["float32", [True, 4], 0]], [["float32", [2**62], 0]],
     [["int64", [4], 0], ["int64", [1], 0]], [["float32", "4", 0]], [["uint8", [0, 2**63], 0], ["float32", [4], 0]]],
)  # fmt: skip
def test_a_lying_header_is_refused(tensors: Any) -> None:
    header = json.dumps({"text": "null", "tensors": tensors}).encode()
    prefix = struct.pack("<8sQIIQ", b"OMNILRN1", len(header), zlib.crc32(header), 0, 16)
    opening = prefix + header
    whole = bytearray(opening + bytes(-len(opening) % 16) + bytes(16))
    with pytest.raises(DamagedError):
        from_bytes_tensor(torch.frombuffer(whole, dtype=torch.uint8))


def test_the_sum_of_the_body_can_be_left_out() -> None:
    whole = to_bytes_tensor(pack(STATE), check_body=False)
    assert same(unpack(from_bytes_tensor(whole, torch.device("cpu"))), STATE)
