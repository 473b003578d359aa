# A configuration in the form of DIOPI's, to test how one expands.
import numpy as np
from somewhere import anything

unused = [n for n in range(3)]

entries = {
    "pair": dict(
        name=["add", "sub"],
        interface=["torch"],
        dtype=[np.float32, np.int64],
        atol=1e-3,
        para=dict(alpha=[1, 2.5, float("inf")]),
        tensor_para=dict(
            gen_fn={"fn": "Genfunc.uniform", "low": 0, "high": 2},
            args=[
                {"ins": ["input"], "shape": ((2, 3), (), None), "requires_grad": [True], "stride": [(4, 1), None]},
                {"ins": ["other", "third"], "shape": ((3,),), "gen_fn": "Genfunc.mask", "dtype": [np.bool_]},
            ],
        ),
    ),
    "sparse": dict(
        name=["spmm"],
        dtype=[np.float32],
        tensor_para=dict(args=[
            {"ins": ["input"], "shape": [(2, 2)], "sparse": [True, False]},
            {"ins": ["mat2"], "shape": [(2, 2)], "sparse": [True, False]},
        ]),
    ),
    "numbers": dict(name=["arange"], para=dict(end=[3, 4])),
    "numbers": dict(name=["arange"], para=dict(end=[5, 6, slice(0, 3)])),
    "nothing": dict(name=["nothing"]),
    "value": dict(
        name=["index"],
        tensor_para=dict(args=[{"ins": ["idx"], "value": [[0, 1], None], "gen_policy": "gen_tensor_by_value"}]),
    ),
}

device = {
    "pair": dict(
        name=["add"],
        atol=0.5,
        para=dict(alpha=[Skip(1.0), 2.5]),
        tensor_para=dict(args=[{"ins": ["input"], "shape": [Skip(())]}]),
    ),
    "sparse": dict(name=["spmm"], tensor_para=dict(args=[{"ins": ["mat2"], "sparse": [Skip(True)]}])),
    "numbers": dict(name=["arange"], skip_all=True),
    "value": dict(name=["index"], dtype=[Skip(np.float16), Skip(np.int32)]),
}
