"""Records Python's repr: run as `python repr.py > repr.tsv`.

Lines are tab-separated: kind, argument, JSON of repr(argument); floats are
given in hexadecimal, complex numbers as two of them, strings as JSON.
"""
import json
import random
import struct
import sys

print("# Python", sys.version.split()[0])
random.seed(1)
floats = [0.0, -0.0, 1.0, 0.1, 1e15, 1e16, -1e16, 123456789012345.0, 1e-4, 1e-5, 9.999e-5, 1e22, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), 1 / 3, 100.0, 1e100]
while len(floats) < 300:
    floats.append(struct.unpack("d", struct.pack("Q", random.getrandbits(64)))[0])
    floats.append(round(random.uniform(-1e3, 1e3), random.randrange(8)))


def hexed(x):
    return x.hex()


for x in floats:
    print("float", hexed(x), json.dumps(repr(x)), sep="\t")
for re in floats[:17]:
    for im in floats[:17]:
        print("complex", hexed(re), hexed(im), json.dumps(repr(complex(re, im))), sep="\t")
for s in ["", "a", "it's", 'say "x"', """it's "x" """, "a\nb\t\r", "\\", "\x00\x1b\x7f", "\u00e9\u4e2d", "\xa0\xad", "\u200b\u2028\ufffd", "\U0001f600\U000e0001", "\ue000", "a\u0301", "\u0378"]:
    print("str", json.dumps(s), json.dumps(repr(s)), sep="\t")
