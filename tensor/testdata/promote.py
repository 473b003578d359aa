"""Records torch's type promotion: run as `python promote.py > promote.tsv`.

Lines are tab-separated:
  promote   a  b  result                         torch.promote_types
  result    a  how a is given  b  how b is given  result   torch.result_type
  cast      from  to  True/False                 torch.can_cast
where a tensor is given as `dim` (1-d), `zero` (0-d), `number` (Python number).
A refusal is recorded as `refused`.
"""
import torch

names = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"]
numbers = {"bool": True, "int64": 3, "float64": 1.5, "complex128": 1 + 2j}


def short(dtype):
    return str(dtype).removeprefix("torch.")


def attempt(f):
    try:
        return short(f())
    except (RuntimeError, TypeError):
        return "refused"


def given(name, how):
    if how == "number":
        return numbers[name]
    return torch.empty([2] if how == "dim" else [], dtype=getattr(torch, name))


print(f"# torch {torch.__version__}")
for a in names:
    for b in names:
        x, y = getattr(torch, a), getattr(torch, b)
        print("promote", a, b, attempt(lambda: torch.promote_types(x, y)), sep="\t")
        print("cast", a, b, torch.can_cast(x, y), sep="\t")
        for how_a in ["dim", "zero", "number"]:
            for how_b in ["dim", "zero", "number"]:
                if how_a == "number" and a not in numbers or how_b == "number" and b not in numbers:
                    continue
                p, q = given(a, how_a), given(b, how_b)
                print("result", a, how_a, b, how_b, attempt(lambda: torch.result_type(p, q)), sep="\t")
