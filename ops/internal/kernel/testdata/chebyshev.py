# Writes the series of chebyshev.go: python3 chebyshev.py (mpmath 1.3).
#
# The coefficients of f on [-1, 1] are the discrete cosine transform of its
# values at the roots of the polynomial of degree N, computed with 50 digits and
# cut where they fall below 2^-58 of the largest.
from mpmath import *
mp.dps = 50
N = 192

def i0(x): return besseli(0, x)
def i1(x): return besseli(1, x)
def k0(x): return besselk(0, x)
def k1(x): return besselk(1, x)

# name, f as a function of x, x as a function of t
SERIES = [
    ('i0Small', lambda x: exp(-x) * i0(x), lambda t: 4 * (t + 1)),
    ('i0Large', lambda x: sqrt(x) * exp(-x) * i0(x), lambda t: 16 / (t + 1)),
    ('i1Small', lambda x: exp(-x) * i1(x) / x, lambda t: 4 * (t + 1)),
    ('i1Large', lambda x: sqrt(x) * exp(-x) * i1(x), lambda t: 16 / (t + 1)),
    ('k0Small', lambda x: k0(x) + log(x / 2) * i0(x), lambda t: sqrt(2 * (t + 1))),
    ('k0Large', lambda x: sqrt(x) * exp(x) * k0(x), lambda t: 4 / (t + 1)),
    ('k1Small', lambda x: x * (k1(x) - log(x / 2) * i1(x)), lambda t: sqrt(2 * (t + 1))),
    ('k1Large', lambda x: sqrt(x) * exp(x) * k1(x), lambda t: 4 / (t + 1)),
    ('erfcxSeries', lambda x: (1 + 2 * x) * exp(x * x) * erfc(x), lambda t: mpf('3.75') * (1 + t) / (1 - t)),
]

roots = [cos(pi * (2 * j + 1) / (2 * N)) for j in range(N)]
cosines = [cos(pi * j / (2 * N)) for j in range(4 * N)]
for name, f, x in SERIES:
    values = [f(x(t)) for t in roots]
    c = [2 * fdot((v, cosines[k * (2 * j + 1) % (4 * N)]) for j, v in enumerate(values)) / N for k in range(N)]
    c[0] /= 2
    least = max(map(abs, c)) * mpf(2)**-58
    while abs(c[-1]) < least:
        c.pop()
    print('var %s = []float64{' % name)
    for v in c:
        print('\t%s,' % nstr(v, 20))
    print('}')
