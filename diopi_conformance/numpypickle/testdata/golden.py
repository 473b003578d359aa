"""Writes the *.pkl files beside it: python3 golden.py, with numpy 1.24."""

import os
import pickle

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))


def save(name, value):
    with open(os.path.join(here, name + ".pkl"), "wb") as f:
        pickle.dump(value, f, protocol=4)


shape = (2, 3)
grad = [True]
save("arrays", [
    np.arange(6, dtype=np.float32).reshape(shape),
    np.arange(6, dtype=np.float32).reshape(shape).T,
    np.array(2.5),
    np.zeros((0, 3), np.int64),
    np.array([True]), np.array([True]),
    None,
    np.array([1 + 2j, 3 - 4j], np.complex64),
    np.array([1.5, -2], np.float16),
    np.arange(24, dtype=np.uint8).reshape(2, 3, 4).T,
])
save("item", {
    "a": {"shape": shape, "requires_grad": grad, "dtype": np.float32, "gen_num_range": []},
    "b": {"shape": shape, "requires_grad": grad, "dtype": np.bool_, "fn": {"low": -4, "high": 2**40}},
    "para": {"dim": (0, 1, -1, 70000), "index": slice(None, 3, None), "p": float("inf"), "mode": "é", "none": None, "one": (), "neg": -(2**63), "big": 2**63},
})
save("large", [np.zeros(70000, np.int8), np.arange(20000, dtype=np.int32) % 7, list(range(2001)), {str(i): i for i in range(1000)}])
