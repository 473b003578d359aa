"""Writes functions.tsv.gz: values of elementary and special functions, computed with 60 digits or more.

  python3 functions.py > functions.tsv.gz      (mpmath 1.3)

A line is a name of torch, the arguments as float64 in hexadecimal, the nearest float64 and what is missing from
it, in thousandths of its unit in the last place. Names that end in ' are derivatives. Complex numbers are two numbers.
"""
import gzip
import math
import random
import sys

import mpmath as mp
from mpmath import mpf, mpc

mp.mp.dps = 60
N = 24  # numbers of each range
INF = math.inf
rng = random.Random(32)


def short(x, bits=18):
    """x with a short mantissa, which compresses well."""
    m, e = math.frexp(x)
    return math.ldexp(round(m * 2**bits), e - bits)


def lin(lo, hi, n=N):
    return [short(rng.uniform(lo, hi)) for _ in range(n)]


def logs(lo, hi, n=N, signs=(1, -1)):
    """Numbers of all magnitudes from 2^lo to 2^hi."""
    return [short(signs[i % len(signs)] * 2.0 ** rng.uniform(lo, hi)) for i in range(n)]


def near(*points):
    """Numbers next to each point on both sides."""
    out = []
    for p in points:
        p = float(p)
        for side in (INF, -INF):
            q = math.nextafter(p, side)
            out.append(q)
            for k in (3, 40, 2000, 1e6, 1e10, 3e12):
                out.append(p + k * (q - p))
    return out


def wide(n=N):
    return logs(-1074, 1023.9, n)


def inside(xs, lo, hi):
    return [x for x in xs if lo <= x <= hi]


PI = math.pi
trig = (lin(-4, 4) + lin(-100, 100) + logs(3, 30) + logs(28, 64) + logs(60, 1023.9, 2 * N) + logs(-1074, -1)
        + near(*[k * PI / 2 for k in (1, 2, 3, 4, 7, 22, 355, 10**6, 2**27 + 1)])
        + [6381956970095103 * 2.0**797, 5.319372648326541e255, 2.0**28, 2.0**53, 1e22])  # hard cases of Kahan and Ng
exps = lin(-1, 1) + lin(-745, 709.7, 2 * N) + lin(-40, 40) + logs(-1074, -1) + near(709.7827, -708.396, -745.13)
unit = lin(-1, 1) + near(0.5, -0.5) + inside(near(1, -1), -1, 1) + logs(-1074, -1) + [1.0, -1.0] + [
    s * (1 - 2.0**-k) for k in range(2, 53, 3) for s in (1, -1)]
positive = logs(-1074, 1023.9, 2 * N, (1,)) + lin(0.5, 2) + near(1) + lin(0, 100)
modest = lin(-1, 1) + lin(-8, 8) + lin(-40, 40) + logs(-1074, -1)
gammas = lin(0, 3, 2 * N) + near(1, 2) + lin(3, 40) + logs(5, 300, N, (1,)) + logs(-1022, -1) + lin(-1, 0)
gammas += lin(0.15, 0.25) + lin(1.15, 1.25) + lin(-30, 0, 2 * N) + [x for k in range(1, 9) for x in near(-k)[::3]] + lin(-180, -30)
gammas = [x for x in gammas if x > 0 or x != math.floor(x)]


def zeros(f, lo, hi, step=0.5):
    """Numbers next to the zeros of f."""
    out, a = [], mpf(lo)
    while a < hi:
        b = a + mpf(step)
        if f(a) * f(b) < 0:
            out.append(float(mp.findroot(f, (a, b), solver='anderson', tol=1e-50)))
        a = b
    return near(*out)


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def phi(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_ndtr(x):
    return mp.log1p(-ndtr(-x)) if x > 0 else mp.log(ndtr(x))


def erfcx(x):
    with mp.workdps(60 + int(abs(x) ** 2 / 2) if abs(x) < 40 else 60):
        if x < 1e3:
            return mp.exp(x * x) * mp.erfc(x)
        s, t = mpf(1), mpf(1)
        for k in range(1, 12):
            t *= -mpf(2 * k - 1) / (2 * x * x)
            s += t
        return s / (x * mp.sqrt(mp.pi))


def quantile(p):
    if p == 0 or p == 1:
        return mp.inf if p else -mp.inf
    small = p < mpf('0.5')
    q = p if small else 1 - p
    x = -mp.sqrt(-2 * mp.log(q))
    for _ in range(60):  # Newton's method on the logarithm
        d = (mp.log(ndtr(x)) - mp.log(q)) * ndtr(x) / phi(x)
        x -= d
        if abs(d) < mpf(10) ** -55 * (abs(x) + mpf(10) ** -20):
            break
    return x if small else -x


def erfinv(y):
    x = y * mp.sqrt(mp.pi) / 2
    if abs(y) > mpf(10) ** -12:
        x = mp.sign(y) * -quantile((1 - abs(y)) / 2) / mp.sqrt(2)
    for _ in range(3):  # Newton's method, with all digits also next to 0
        x -= (mp.erf(x) - y) * mp.sqrt(mp.pi) / 2 * mp.exp(x * x)
    return x


def softplus(x):
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def lgamma(x):
    with mp.workdps(100):
        return mp.log(abs(mp.gamma(x))) if x < 1e4 else mp.loggamma(x)


def gelu(x):
    return x * ndtr(x)


K = mpf(0.044715)


def gelu_tanh(x):
    return x * sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + K * x**3))


def mish(x):
    return x * mp.tanh(softplus(x))


def logsigmoid(x):
    return -softplus(-x)


def elu(x, a=1, s=1):
    return s * x if x > 0 else a * mp.expm1(x)


ALPHA, SCALE = mpf('1.6732632423543772848170429916717'), mpf('1.0507009873554804934193349852946')


def sinc(x):
    return mp.sinpi(x) / (mp.pi * x) if x else mpf(1)


def entr(x):
    return -x * mp.log(x) if x else mpf(0)


def logit(x):
    return mp.log(x / (1 - x))


def tanhshrink(x):
    return x - mp.tanh(x) if abs(x) > 1e-15 else x**3 / 3 - 2 * x**5 / 15


def scaled(f):
    return lambda x: f(x) * mp.exp(-abs(x))


def mvlgamma(p):
    return lambda x: sum((lgamma(x - mpf(j) / 2) for j in range(p)), p * (p - 1) / mpf(4) * mp.log(mp.pi))


def slope(f):
    """The derivative, by differences of twice the digits."""
    def d(x):
        with mp.workdps(900 if abs(x) < 1e-9 else 160):
            h = mpf(10) ** -70 * max(abs(x), mpf(2) ** -900)
            return (f(x + h) - f(x - h)) / (2 * h)
    return d


bessel = lin(0.01, 8, 2 * N) + lin(8, 40) + lin(40, 700) + logs(-1074, 0, N, (1,)) + near(8)[:8]
waves = lin(0.01, 8, 2 * N) + lin(8, 100) + logs(6, 20, N, (1,)) + logs(-300, 0, N, (1,))
both = lambda xs: xs + [-x for x in xs[::3]]

unary = {
    'torch.sin': (mp.sin, trig), 'torch.cos': (mp.cos, trig), 'torch.tan': (mp.tan, trig),
    'torch.asin': (mp.asin, unit), 'torch.acos': (mp.acos, unit), 'torch.atan': (mp.atan, modest + wide()),
    'torch.sinh': (mp.sinh, modest + lin(-710, 710) + near(710.4758)), 'torch.cosh': (mp.cosh, modest + lin(-710, 710) + near(710.4758)),
    'torch.tanh': (mp.tanh, modest), 'torch.asinh': (mp.asinh, modest + wide()),
    'torch.acosh': (mp.acosh, lin(1, 2) + [x for x in near(1) if x > 1] + lin(2, 100) + logs(0, 1023.9, N, (1,))),
    'torch.atanh': (mp.atanh, [x for x in unit if abs(x) < 1]),
    'torch.exp': (mp.exp, exps), 'torch.exp2': (lambda x: mpf(2) ** x, exps + lin(-1074, 1023.9, 2 * N)),
    'torch.expm1': (mp.expm1, exps), 'torch.log': (mp.log, positive), 'torch.log2': (lambda x: mp.log(x, 2), positive),
    'torch.log10': (mp.log10, positive + [1000.0, 1e15]),
    'torch.log1p': (mp.log1p, [x for x in modest + wide() if x > -1] + [x for x in near(-1) if x > -1]),
    'torch.sqrt': (mp.sqrt, positive), 'torch.rsqrt': (lambda x: 1 / mp.sqrt(x), positive),
    'torch.reciprocal': (lambda x: 1 / x, logs(-1022, 1021)), 'torch.square': (lambda x: x * x, logs(-500, 500)),
    'torch.sigmoid': (sigmoid, exps), 'torch.deg2rad': (lambda x: x * mp.pi / 180, modest + lin(-720, 720)),
    'torch.rad2deg': (lambda x: x * 180 / mp.pi, modest),
    'torch.special.erf': (mp.erf, modest + near(0.75)), 'torch.special.erfc': (mp.erfc, modest + lin(0, 26.6)),
    'torch.special.erfinv': (erfinv, [x for x in unit if 2.0**-1000 < abs(x) < 1]),
    'torch.special.erfcx': (erfcx, lin(-26, 1, 2 * N) + lin(0, 12) + logs(-60, 60, N, (1,)) + logs(-300, 0)),
    'torch.special.ndtr': (ndtr, modest + lin(-38, 9)), 'torch.special.log_ndtr': (
        log_ndtr, modest + lin(-38, 38) + near(-1)),
    'torch.special.ndtri': (quantile, inside(lin(0, 1) + logs(-1000, -1, N, (1,)) + near(0.5) + [
        1 - 2.0**-k for k in range(2, 54, 3)], 1e-300, 1 - 2.0**-53)),
    'torch.special.sinc': (sinc, lin(-1, 1) + lin(-40, 40) + logs(-500, 0) + near(1, 2, -3, 1000) + logs(4, 45)),
    'torch.special.entr': (entr, positive), 'torch.special.logit': (
        logit, [x for x in lin(0, 1, 2 * N) + near(0.5) + logs(-1000, -1, N, (1,)) + near(1) if 0 < x < 1]),
    'torch.lgamma': (lgamma, gammas), 'torch.digamma': (mp.digamma, gammas + near(1.4616321449683623)),
    'torch.special.i0': (lambda x: mp.besseli(0, x), both(bessel)),
    'torch.special.i1': (lambda x: mp.besseli(1, x), both(bessel)),
    'torch.special.i0e': (scaled(lambda x: mp.besseli(0, x)), both(bessel)),
    'torch.special.i1e': (scaled(lambda x: mp.besseli(1, x)), both(bessel)),
    'torch.special.modified_bessel_i0': (lambda x: mp.besseli(0, x), both(bessel)),
    'torch.special.modified_bessel_i1': (lambda x: mp.besseli(1, x), both(bessel)),
    'torch.special.modified_bessel_k0': (lambda x: mp.besselk(0, x), bessel),
    'torch.special.modified_bessel_k1': (lambda x: mp.besselk(1, x), inside(bessel, 1e-300, 1e9)),
    'torch.special.scaled_modified_bessel_k0': (lambda x: mp.besselk(0, x) * mp.exp(x), bessel),
    'torch.special.scaled_modified_bessel_k1': (lambda x: mp.besselk(1, x) * mp.exp(x), inside(bessel, 1e-300, 1e9)),
    'torch.special.bessel_j0': (mp.j0, waves + zeros(mp.j0, 1, 30)),
    'torch.special.bessel_j1': (mp.j1, waves + zeros(mp.j1, 1, 30)),
    'torch.special.bessel_y0': (lambda x: mp.bessely(0, x), waves + zeros(lambda x: mp.bessely(0, x), 0.5, 20)),
    'torch.special.bessel_y1': (lambda x: mp.bessely(1, x), waves + zeros(lambda x: mp.bessely(1, x), 0.5, 20)),
    'torch.special.spherical_bessel_j0': (lambda x: mp.sin(x) / x, trig),
    'torch.special.airy_ai': (mp.airyai, lin(-10, 10, 2 * N) + lin(-60, 60) + logs(-60, 0) + zeros(mp.airyai, -12, 0)),
    'torch.nn.functional.silu': (lambda x: x * sigmoid(x), exps),
    'torch.nn.functional.gelu': (gelu, modest + lin(-38, 38)),
    'torch.nn.functional.mish': (mish, exps),
    'torch.nn.functional.softplus': (lambda x: x if x > 20 else softplus(x), exps),
    'torch.nn.functional.logsigmoid': (logsigmoid, exps), 'torch.nn.functional.elu': (elu, exps),
    'torch.nn.functional.celu': (elu, exps),
    'torch.nn.functional.selu': (lambda x: elu(x, mpf(float(ALPHA)) * mpf(float(SCALE)), mpf(float(SCALE))), exps),
    'torch.nn.functional.softsign': (lambda x: x / (1 + abs(x)), modest + wide()),
    'torch.nn.functional.tanhshrink': (tanhshrink, modest),
    'torch.nn.functional.hardswish': (lambda x: x * min(max(x + 3, 0), 6) / 6, modest),
    "torch.nn.functional.silu'": (slope(lambda x: x * sigmoid(x)), modest),
    "torch.nn.functional.gelu'": (slope(gelu), modest),
    "torch.nn.functional.mish'": (slope(mish), modest),
    "torch.nn.functional.logsigmoid'": (lambda x: sigmoid(-x), exps),
    "torch.nn.functional.softplus'": (lambda x: mpf(1) if x > 20 else sigmoid(x), exps),
    "torch.lgamma'": (mp.digamma, gammas), "torch.asin'": (lambda x: 1 / mp.sqrt(1 - x * x), [x for x in unit if abs(x) < 1]),
    "torch.acosh'": (lambda x: 1 / mp.sqrt(x * x - 1), [x for x in near(1) if x > 1] + logs(0, 500, N, (1,))),
    "torch.atanh'": (lambda x: 1 / (1 - x * x), [x for x in unit if abs(x) < 1]),
    "torch.atan'": (lambda x: 1 / (1 + x * x), modest), "torch.asinh'": (lambda x: 1 / mp.sqrt(1 + x * x), modest),
    "torch.sin'": (mp.cos, trig[::2]), "torch.cos'": (lambda x: -mp.sin(x), trig[::2]),
    "torch.special.sinc'": (slope(sinc), lin(-1, 1) + lin(-40, 40) + logs(-60, 0)),
    "torch.special.erf'": (lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), modest),
    "torch.special.log_ndtr'": (lambda x: phi(x) / ndtr(x), modest + lin(-38, 38)),
}


def gammainc(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def gammaincc(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def pairs(a, b):
    return list(zip(a, b))


def around(n, lo, hi, spread):
    """Pairs a, x with x near a, in units of the root of a."""
    out = []
    for a in logs(lo, hi, n, (1,)):
        x = short(a + spread * rng.gauss(0, 1) * math.sqrt(a))
        if x > 0:
            out.append((a, x))
    return out


ratios = pairs(lin(0.01, 4), lin(0.01, 8)) + pairs(logs(-10, 4, N, (1,)), logs(-10, 5, N, (1,))) + around(2 * N, 0, 9, 2)


def power(x, y):
    return x**y


def fmod(x, y):
    return x - y * int(x / y) if abs(x) >= abs(y) else x


def wholly(f):
    def exact(x, y):
        with mp.workprec(2200):
            return f(mpf(x), mpf(y))
    return exact


def remainder(x, y):
    return x - y * mp.floor(x / y)


def truncated(x, y):
    q = x / y
    return x - y * (mp.floor(q) if q >= 0 else mp.ceil(q))


def third(n, x):
    """The Chebyshev polynomial of the third kind, by the recurrence that all four share."""
    p, q = 2 * x - 1, mpf(1)
    for _ in range(n - 1):
        p, q = 2 * x * p - q, p
    return p if n else mpf(1)


def fourth(n, x):
    return (-1) ** n * third(n, -x)


def degrees(f, xs):
    """The polynomials of degrees up to 15, and their values."""
    return lambda x, n: f(int(n), x), [(x, float(i % 16)) for i, x in enumerate(xs)]


def zeta(s, q):
    with mp.workdps(400):  # of which mpmath needs as many as the result is small
        return mp.zeta(s, q)


binary = {
    'torch.pow': (power, pairs(logs(-10, 10, 2 * N, (1,)), lin(-60, 60, 2 * N)) + pairs(lin(0.9, 1.1), lin(-3000, 3000))
                  + pairs(logs(-300, 300, N, (1,)), lin(-3, 3)) + pairs(lin(-4, 4, N), [float(k - 9) for k in range(N)])),
    'torch.atan2': (mp.atan2, pairs(wide(), wide()) + pairs(lin(-1, 1), lin(-1, 1)) + pairs(logs(-40, 0), lin(-1, 1))),
    'torch.hypot': (mp.hypot, pairs(wide(), wide()) + pairs(lin(-1, 1), lin(-1, 1)) + pairs(logs(-1074, -1020), logs(-1074, -1020))),
    'torch.logaddexp': (lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))), pairs(lin(-5, 5), lin(-5, 5))
                        + pairs(lin(-700, 700), lin(-700, 700)) + pairs(lin(-2, -0.5), lin(-2, -0.5))),
    'torch.logaddexp2': (lambda x, y: max(x, y) + mp.log(1 + 2 ** -abs(x - y), 2), pairs(lin(-5, 5), lin(-5, 5))),
    'torch.special.xlogy': (lambda x, y: x * mp.log(y), pairs(lin(-5, 5), logs(-30, 30, N, (1,))) + pairs(lin(-5, 5), near(1))),
    'torch.special.xlog1py': (lambda x, y: x * mp.log1p(y), pairs(lin(-5, 5), logs(-60, 10, N, (1,))) + pairs(
        lin(-5, 5), lin(-0.99, 1))),
    'torch.fmod': (wholly(truncated), pairs(lin(-40, 40), lin(0.1, 3)) + pairs(logs(0, 900), logs(-60, 60))),
    'torch.remainder': (wholly(remainder), pairs(lin(-40, 40), lin(0.1, 3)) + pairs(logs(0, 900), logs(-60, 60))),
    'torch.special.gammainc': (gammainc, ratios), 'torch.special.gammaincc': (gammaincc, ratios),
    'torch.special.zeta': (zeta, pairs(lin(1.01, 8), lin(0.1, 20)) + pairs(logs(0, 6, N, (1,)), logs(-4, 30, N, (1,)))
                           + pairs([float(k) for k in range(2, 12)], lin(-9, 0, 10)) + pairs(near(1)[:7], lin(1, 2, 7))),
    'torch.polygamma': (lambda n, x: mp.polygamma(int(n), x), [(float(n), x) for n in (1, 2, 3, 5) for x in
                                                           lin(0.1, 30, N // 2) + lin(-4, 0, N // 2) + logs(0, 60, 6, (1,))]),
    'torch.special.chebyshev_polynomial_t': degrees(mp.chebyt, lin(-1, 1, 2 * N)),
    'torch.special.chebyshev_polynomial_u': degrees(mp.chebyu, lin(-1, 1, 2 * N)),
    'torch.special.chebyshev_polynomial_v': degrees(third, lin(-1, 1, 2 * N)),
    'torch.special.chebyshev_polynomial_w': degrees(fourth, lin(-1, 1, 2 * N)),
    'torch.special.shifted_chebyshev_polynomial_t': degrees(lambda n, x: mp.chebyt(n, 2 * x - 1), lin(0, 1, 2 * N)),
    'torch.special.legendre_polynomial_p': degrees(mp.legendre, lin(-1, 1, 2 * N)),
    'torch.special.hermite_polynomial_h': degrees(mp.hermite, lin(-4, 4, 2 * N)),
    'torch.special.hermite_polynomial_he': degrees(
        lambda n, x: mp.hermite(n, x / mp.sqrt(2)) / mp.sqrt(2) ** n, lin(-4, 4, 2 * N)),
    'torch.special.laguerre_polynomial_l': degrees(lambda n, x: mp.laguerre(n, 0, x), lin(-1, 12, 2 * N)),
    'torch.mvlgamma': (lambda x, p: mvlgamma(int(p))(x), [(x, p) for p in (2.0, 3.0, 5.0) for x in lin(2.1, 30, N // 2)]),
}


plane = [complex(x, y) for x, y in pairs(lin(-3, 3, 2 * N), lin(-3, 3, 2 * N)) + pairs(logs(-30, 6), logs(-30, 6))
         + pairs(lin(-20, 20), lin(-20, 20)) + pairs(near(1), logs(-50, -1, 14)) + pairs(logs(-50, -1, 14), near(1))]
axis = [complex(x, 0.0) for x in lin(-3, 3)] + [complex(0.0, x) for x in lin(-3, 3)]
# On a branch cut mpmath knows no zero with a sign.
cut = lambda f: [z for z in plane + axis if not f(z)]
complexes = {
    'torch.exp': (mp.exp, plane), 'torch.log': (mp.log, cut(lambda z: z.imag == 0)), 'torch.sin': (mp.sin, plane),
    'torch.cos': (mp.cos, plane), 'torch.tan': (mp.tan, plane), 'torch.sinh': (mp.sinh, plane), 'torch.cosh': (mp.cosh, plane),
    'torch.tanh': (mp.tanh, plane), 'torch.asin': (mp.asin, cut(lambda z: z.imag == 0)), 'torch.acos': (mp.acos, cut(lambda z: z.imag == 0)),
    'torch.atan': (mp.atan, cut(lambda z: z.real == 0)), 'torch.asinh': (mp.asinh, cut(lambda z: z.real == 0)),
    'torch.acosh': (mp.acosh, cut(lambda z: z.imag == 0)), 'torch.atanh': (mp.atanh, cut(lambda z: z.imag == 0)),
    'torch.sqrt': (mp.sqrt, cut(lambda z: z.imag == 0)), 'torch.rsqrt': (lambda z: 1 / mp.sqrt(z), cut(lambda z: z.imag == 0)),
    'torch.reciprocal': (lambda z: 1 / z, plane), 'torch.sigmoid': (sigmoid, plane), 'torch.square': (lambda z: z * z, plane),
    'torch.expm1': (mp.expm1, plane), 'torch.log1p': (lambda z: mp.log(1 + z), cut(lambda z: z.imag == 0)),
    'torch.log2': (lambda z: mp.log(z) / mp.log(2), cut(lambda z: z.imag == 0)),
    'torch.log10': (lambda z: mp.log(z) / mp.log(10), cut(lambda z: z.imag == 0)),
    'torch.exp2': (lambda z: mpf(2) ** z, plane), 'torch.nn.functional.silu': (lambda z: z * sigmoid(z), plane),
    'torch.nn.functional.tanhshrink': (lambda z: z - mp.tanh(z), plane), 'torch.special.sinc': (sinc, plane),
}


def nearest(v):
    """The nearest float64, and what it lacks in thousandths of its unit."""
    if mp.isinf(v) or mp.isnan(v):
        return float(v), 0
    # float() of mpmath truncates subnormal numbers: round twice the digits by hand.
    m, e = mp.frexp(v)
    bits = min(53, int(e) + 1074)
    if v == 0 or bits < 0:
        return (math.copysign(0.0, v) if v else 0.0), 0
    try:
        near = math.ldexp(float(mp.nint(mp.ldexp(m, bits))), int(e) - bits)
    except OverflowError:
        return math.copysign(INF, v), 0
    unit = math.ulp(near)
    return near, int(mp.nint((v - mpf(near)) / mpf(unit) * 1000))


def hexed(x):
    """x in hexadecimal, without zeros at the end."""
    if math.isinf(x) or math.isnan(x):
        return str(x)
    m, e = float(x).hex().split('p')
    return (m.rstrip('0').rstrip('.') if '.' in m else m) + 'p' + e


def row(name, args, values):
    text = [name, ','.join(hexed(a) for a in args)]
    for v in values:
        near, rest = nearest(v)
        text.append(hexed(near) + (f'{rest:+d}' if rest else ''))
    return '\t'.join(text)


def main():
    lines = []
    for name, (f, xs) in unary.items():
        for x in sorted(set(xs)):
            lines.append(row(name, [x], [mp.re(f(mpf(x)))]))
    for name, (f, xys) in binary.items():
        for x, y in sorted(set(xys)):
            lines.append(row(name, [x, y], [mp.re(f(mpf(x), mpf(y)))]))
    for name, (f, zs) in complexes.items():
        for z in dict.fromkeys(zs):
            v = mpc(f(mpc(z.real, z.imag)))
            lines.append(row('complex ' + name, [z.real, z.imag], [v.real, v.imag]))
    sys.stdout.buffer.write(gzip.compress('\n'.join(lines).encode() + b'\n', 9, mtime=0))


if __name__ == '__main__':
    main()
