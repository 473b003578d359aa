package ops_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// An exactRow is a value of a function, exact to a thousandth of a unit in the last place.
type exactRow struct {
	args  []float64
	value [2]float64 // the second of complex numbers alone
	rest  [2]float64 // what is missing from value, in its units
}

// readExact reads the values that testdata/exact/functions.py writes, by function.
func readExact(t *testing.T) (names []string, rows map[string][]exactRow) {
	t.Helper()
	f, err := os.Open("testdata/exact/functions.tsv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	rows = map[string][]exactRow{}
	for lines := bufio.NewScanner(z); lines.Scan(); {
		fields := strings.Split(lines.Text(), "\t")
		var r exactRow
		for _, a := range strings.Split(fields[1], ",") {
			r.args = append(r.args, number(a))
		}
		for i, v := range fields[2:] {
			if e := strings.IndexByte(v, 'p') + 1; e > 0 {
				if k := strings.LastIndexAny(v, "+-"); k > e {
					r.rest[i] = number(v[k:]) / 1000
					v = v[:k]
				}
			}
			r.value[i] = number(v)
		}
		name := fields[0]
		if len(rows[name]) == 0 {
			names = append(names, name)
		}
		rows[name] = append(rows[name], r)
	}
	return names, rows
}

// evaluate is the reference of the function at the arguments of rows, as pairs of parts.
func evaluate(t *testing.T, name string, rows []exactRow) [][2]float64 {
	t.Helper()
	name, isComplex := strings.CutPrefix(name, "complex ")
	name, slope := strings.CutSuffix(name, "'")
	column := func(i int) value.Value {
		if isComplex {
			z := make([]complex128, len(rows))
			for k, r := range rows {
				z[k] = complex(r.args[0], r.args[1])
			}
			return tensor.New(tensor.Complex128, []int{len(z)}, z)
		}
		x := make([]float64, len(rows))
		for k, r := range rows {
			x[k] = r.args[i]
		}
		return tensor.New(tensor.Float64, []int{len(x)}, x)
	}
	args := []value.Value{column(0)}
	switch {
	case name == "torch.polygamma":
		args = []value.Value{int64(rows[0].args[0]), column(1)}
	case name == "torch.mvlgamma":
		args = append(args, int64(rows[0].args[1]))
	case len(rows[0].args) == 2 && !isComplex:
		args = append(args, column(1))
	}
	call, err := ops.Default().Bind(name, args, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	f, err := call.Forward()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	y := f.Outs[0]
	if slope {
		grads, err := call.Backward(f, []*tensor.Tensor{tensor.Full(y.DType, y.Shape, 1.0)}, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		y = grads[call.Tensors()[0].Name][0]
	}
	var out [][2]float64
	if isComplex {
		for _, z := range tensor.Data[complex128](y) {
			out = append(out, [2]float64{real(z), imag(z)})
		}
		return out
	}
	for _, x := range tensor.Data[float64](y) {
		out = append(out, [2]float64{x, 0})
	}
	return out
}

// exactError is the error of y in units in the last place of the exact value. For complex
// numbers the unit is that of the modulus.
func exactError(y [2]float64, r exactRow, isComplex bool) float64 {
	unit := func(x float64) float64 { return max(math.Nextafter(math.Abs(x), math.Inf(1))-math.Abs(x), 0x1p-1074) }
	of := unit(r.value[0])
	switch {
	case math.IsInf(r.value[0], 0):
		of = 1
	case isComplex:
		of = unit(math.Hypot(r.value[0], r.value[1]))
	}
	worst := 0.0
	for i, v := range r.value {
		switch {
		case v == y[i]:
			if !math.IsInf(v, 0) {
				worst = max(worst, math.Abs(r.rest[i])*unit(v)/of)
			}
			continue
		case v-v != 0 || y[i]-y[i] != 0:
			return math.Inf(1)
		}
		worst = max(worst, math.Abs((y[i]-v)/of-r.rest[i]*(unit(v)/of)))
	}
	return worst
}

// An exactLimit is how far the reference may be from the exact values of functions, in units in the last place: of the
// value, or of the number that of gives if that is larger.
type exactLimit struct {
	names string // as docs/verdicts.md lists them
	ulps  float64
	unit  string // what of is; empty: of the value alone
	of    func(args []float64, y float64) float64
}

func one([]float64, float64) float64 { return 1 }

// amplitude is what Bessel functions oscillate within.
func amplitude(args []float64, _ float64) float64 {
	return (1 + args[0]) * min(1, math.Sqrt(2/(math.Pi*args[0])))
}

// terms is the sum of the magnitudes that the recurrence of a polynomial adds, next for the term after two others.
func terms(first func(x float64) float64,
	next func(x, k, p, q float64) float64) func(args []float64, y float64) float64 {
	return func(args []float64, _ float64) float64 {
		x, n := math.Abs(args[0]), args[1]
		q, p := 1.0, first(x)
		for k := 1.0; k < n; k++ {
			q, p = p, next(x, k, p, q)
		}
		return (1 + n) * max(1, p)
	}
}

var exactLimits = []exactLimit{
	{"sqrt, square, reciprocal, fmod, remainder", 0.5, "", nil},
	{"exp, exp2, expm1, log, log1p, erf, elu, celu, softplus, softsign, hardswish, atan, atanh, atan2, " +
		"deg2rad, rad2deg", 1, "", nil},
	{"sin, cos, asin, acosh, asinh, sinh, cosh, log2, rsqrt, sigmoid, hypot, pow, logaddexp2, xlogy, xlog1py, entr",
		1.5, "", nil},
	{"acos, tanh, log10, erfc, silu, selu, logsigmoid, mvlgamma, logit, spherical_bessel_j0", 2, "", nil},
	{"tan, gelu, mish, tanhshrink, erfinv, ndtr, ndtri, sinc, i0, i0e, i1e, modified_bessel_i0, " +
		"modified_bessel_k1, scaled_modified_bessel_k1", 4, "", nil},
	{"erfcx, log_ndtr, polygamma, i1, modified_bessel_i1, modified_bessel_k0, scaled_modified_bessel_k0", 6, "", nil},
	{"zeta", 12, "", nil},
	{"logaddexp", 2, "the larger argument",
		func(args []float64, _ float64) float64 { return max(math.Abs(args[0]), math.Abs(args[1])) }},
	{"gammainc, gammaincc", 100, "", nil},
	{"lgamma", 8, "1", one},
	{"digamma", 8, "1", one},
	{"bessel_j0, bessel_j1, bessel_y0, bessel_y1", 4, "the amplitude times 1 + self", amplitude},
	{"airy_ai", 32, "the amplitude times 1 + abs(self)**1.5", func(args []float64, y float64) float64 {
		if args[0] < 2.1 {
			y = 1
		}
		return (1 + math.Pow(math.Abs(args[0]), 1.5)) * y
	}},
	{"chebyshev_polynomial_t, chebyshev_polynomial_u, chebyshev_polynomial_v, chebyshev_polynomial_w, " +
		"shifted_chebyshev_polynomial_t, legendre_polynomial_p", 4, "the square of 1 + n",
		func(args []float64, _ float64) float64 { return (1 + args[1]) * (1 + args[1]) }},
	{"hermite_polynomial_h", 2, "the terms times 1 + n", terms(func(x float64) float64 { return 2 * x },
		func(x, k, p, q float64) float64 { return 2*x*p + 2*k*q })},
	{"hermite_polynomial_he", 2, "the terms times 1 + n", terms(func(x float64) float64 { return x },
		func(x, k, p, q float64) float64 { return x*p + k*q })},
	{"laguerre_polynomial_l", 2, "the terms times 1 + n", terms(func(x float64) float64 { return 1 + x },
		func(x, k, p, q float64) float64 { return ((2*k+1+x)*p + k*q) / (k + 1) })},
	{"sin', cos', tan', asin', acosh', asinh', atan', atanh', erf', logsigmoid', softplus', log_ndtr'", 4, "", nil},
	{"sinc'", 4, "1 + 1/abs(self)", func(args []float64, _ float64) float64 { return 1 + 1/math.Abs(args[0]) }},
	{"silu', gelu', mish'", 4, "1, since terms cancel", one},
	{"lgamma'", 8, "1", one},
	{"complex exp, exp2, log, log1p, expm1, sin, cos, tan, sinh, cosh, tanh, asin, acos, atan, asinh, acosh, atanh, " +
		"sqrt, rsqrt, reciprocal, square, sigmoid, silu, sinc", 4, "", nil},
	{"complex log2, log10", 4, "", nil},
	{"complex tanhshrink", 8, "abs(self)",
		func(args []float64, _ float64) float64 { return math.Hypot(args[0], args[1]) }},
}

// limitOf is the limit of a function that torch has under a name, "complex " in front of it.
func limitOf(name string) (l exactLimit, ok bool) {
	name, isComplex := strings.CutPrefix(name, "complex ")
	name = name[strings.LastIndex(name, ".")+1:]
	for _, l := range exactLimits {
		names, complexToo := strings.CutPrefix(l.names, "complex ")
		if complexToo == isComplex && slices.Contains(strings.Split(names, ", "), name) {
			return l, true
		}
	}
	return l, false
}

// TestExactFunctions compares the reference of elementary and special functions in float64 with exact values: over the
// whole range, next to poles, zeros and the ends of branches, for large arguments and subnormal numbers. The limits are
// those that docs/verdicts.md states.
func TestExactFunctions(t *testing.T) {
	names, rows := readExact(t)
	for _, name := range names {
		limit, ok := limitOf(name)
		if !ok {
			t.Errorf("%s has no limit", name)
			continue
		}
		isComplex := strings.HasPrefix(name, "complex ")
		groups := map[float64][]exactRow{} // of calls: polygamma and mvlgamma take one number for all elements
		for _, r := range rows[name] {
			call := 0.0
			switch name {
			case "torch.polygamma":
				call = r.args[0]
			case "torch.mvlgamma":
				call = r.args[1]
			}
			groups[call] = append(groups[call], r)
		}
		worst, at, wrong := 0.0, exactRow{}, 0
		for _, group := range groups {
			for i, y := range evaluate(t, name, group) {
				r := group[i]
				e := exactError(y, r, isComplex)
				if limit.of != nil {
					size := math.Hypot(r.value[0], r.value[1])
					if s := limit.of(r.args, size); s > size {
						e *= (math.Nextafter(size, math.Inf(1)) - size) / (math.Nextafter(s, math.Inf(1)) - s)
					}
				}
				if e > worst {
					worst, at = e, r
				}
				if !(e <= limit.ulps) {
					if wrong++; wrong <= 3 {
						t.Errorf("%s%v = %v, want %v: off by %.3g ulp, want at most %v", name, r.args, y, r.value, e,
							limit.ulps)
					}
				}
			}
		}
		t.Logf("%s: %.2f ulp at %v, of %d values", name, worst, at.args, len(rows[name]))
	}
}

// TestExactLimitsStated: docs/verdicts.md has the limits.
func TestExactLimitsStated(t *testing.T) {
	doc, err := os.ReadFile("../docs/verdicts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range exactLimits {
		unit := l.unit
		if unit == "" {
			unit = "the value"
		}
		if row := fmt.Sprintf("| %s | %v | %s |", l.names, l.ulps, unit); !strings.Contains(string(doc), row) {
			t.Errorf("docs/verdicts.md lacks the row\n%s", row)
		}
	}
}
