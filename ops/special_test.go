package ops

import (
	"math"
	"slices"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/special"
	"github.com/optool/optool/ops/spectral"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// specialForward runs a call of one of the ops of the tables on floats.
func specialForward(t *testing.T, name string, kwargs *value.Dict, args ...value.Value) (*opdef.Forward, error) {
	t.Helper()
	reg, err := opdef.NewRegistry(special.Table(), spectral.Table())
	if err != nil {
		t.Fatal(err)
	}
	call, err := reg.Bind(name, args, kwargs)
	if err != nil {
		return nil, err
	}
	return call.Forward()
}

func specialNear(got, want float64) bool {
	return got == want || math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= 1e-13*(1+math.Abs(want))
}

// TestSpecialFunctions: values of torch 1.13 in float64, and what it returns at
// the ends of the domain.
func TestSpecialFunctions(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name    string
		x, want float64
	}{
		{"special.erfcx", -2.5, 1035.8148429726227},
		{"special.erfcx", inf, 0},
		{"special.erfcx", -inf, inf},
		{"special.log_ndtr", -7, -27.384307498811076},
		{"special.log_ndtr", -inf, -inf},
		{"special.ndtri", 0.02, -2.053748910631823},
		{"special.ndtri", 1, inf},
		{"special.ndtri", 1.5, nan},
		{"special.i1e", 9, 0.1272249839358912},
		{"special.i1e", -inf, 0},
		{"special.i0", inf, nan},
		{"special.entr", 0.3, 0.3611918412977808},
		{"special.entr", 0, 0},
		{"special.entr", -1, -inf},
		{"special.airy_ai", 1.5, 0.07174949700810533},
		{"special.modified_bessel_k0", 0.7, 0.6605198599151018},
		{"special.modified_bessel_k0", 0, inf},
		{"special.modified_bessel_k1", -1, nan},
		{"special.bessel_y0", 0, -inf},
		{"special.bessel_y0", -1, nan},
		{"special.bessel_j0", inf, nan},
		{"special.spherical_bessel_j0", inf, 0},
		{"special.sinc", 0.3, 0.8583936913341398},
		{"erfinv", -1, -inf},
		{"erfinv", 2, nan},
		{"digamma", 0, -inf},
		{"digamma", -2, nan},
		{"lgamma", -2, inf},
		{"logit", 1, inf},
	} {
		fwd, err := specialForward(t, "torch."+c.name, nil, tensor.Scalar(tensor.Float64, c.x))
		if err != nil {
			t.Errorf("%s(%v): %v", c.name, c.x, err)
			continue
		}
		if got := tensor.At[float64](fwd.Outs[0], 0); !specialNear(got, c.want) {
			t.Errorf("%s(%v) = %v, want %v", c.name, c.x, got, c.want)
		}
	}
}

// TestSpecialPairs: igamma and zeta at the ends of their domains.
func TestSpecialPairs(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name       string
		x, y, want float64
	}{
		{"igamma", 2, 3, 0.8008517265285442},
		{"igammac", 2, 3, 0.1991482734714558},
		{"igamma", 0, 0, nan},
		{"igamma", 0, 1, 1},
		{"igamma", -1, 1, nan},
		{"igamma", 1, -1, nan},
		{"igamma", inf, 1, 0},
		{"igammac", inf, 1, 1},
		{"igamma", inf, inf, nan},
		{"igamma", inf, nan, 0},
		{"igammac", 1, inf, 0},
		{"special.zeta", 1, 1, inf},
		{"special.zeta", 0.5, 1, nan},
		{"special.zeta", 2, -1, inf},
		{"special.zeta", 2, -1.5, 9.379246644989124},
		{"special.zeta", 2.5, -1.5, nan},
		{"special.zeta", 3, -2.5, 0.0541020258208641},
	} {
		fwd, err := specialForward(t, "torch."+c.name, nil, tensor.Scalar(tensor.Float64, c.x),
			tensor.Scalar(tensor.Float64, c.y))
		if err != nil {
			t.Errorf("%s(%v, %v): %v", c.name, c.x, c.y, err)
			continue
		}
		if got := tensor.At[float64](fwd.Outs[0], 0); !specialNear(got, c.want) {
			t.Errorf("%s(%v, %v) = %v, want %v", c.name, c.x, c.y, got, c.want)
		}
	}
}

// TestPolynomials: degrees 3 and 12 at 0.3, 4 at -1.5, 5 at 1, and a negative
// one.
func TestPolynomials(t *testing.T) {
	for _, c := range []struct {
		name string
		want []float64
	}{
		{"chebyshev_polynomial_t", []float64{-0.792, -0.870430994432001, 23.5, 1.0, 0}},
		{"chebyshev_polynomial_u", []float64{-0.984, -0.7156128112640001, 55.0, 6.0, 0}},
		{"chebyshev_polynomial_v", []float64{-0.344, -1.231673421824, 76.0, 1.0, 0}},
		{"chebyshev_polynomial_w", []float64{-1.624, -0.1995522007040017, 34.0, 11.0, 0}},
		{"shifted_chebyshev_polynomial_t", []float64{0.944, 0.22389896396800066, 1921.0, 1.0, 0}},
		{"shifted_chebyshev_polynomial_u", []float64{1.088, 0.6492546703359996, 3905.0, 6.0, 0}},
		{"shifted_chebyshev_polynomial_v", []float64{1.448, 1.7126439362560002, 4401.0, 1.0, 0}},
		{"shifted_chebyshev_polynomial_w", []float64{0.728, -0.41413459558399984, 3409.0, 11.0, 0}},
		{"hermite_polynomial_h", []float64{-3.384, 49478.71593365919, -15.0, -8.0, 0}},
		{"hermite_polynomial_he", []float64{-0.873, 5192.690601658041, -5.4375, 6.0, 0}},
		{"laguerre_polynomial_l", []float64{0.23050000000000007, -0.4680735234891154, 16.2109375,
			-0.4666666666666667, 0}},
		{"legendre_polynomial_p", []float64{-0.3825, -0.18100217969140728, 14.0859375, 1.0, 0}},
	} {
		x := tensor.New(tensor.Float64, []int{5}, []float64{0.3, 0.3, -1.5, 1, 0.5})
		n := tensor.New(tensor.Float64, []int{5}, []float64{3, 12, 4, 5.9, -2})
		fwd, err := specialForward(t, "torch.special."+c.name, nil, x, n)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := tensor.Data[float64](fwd.Outs[0]); !slices.EqualFunc(got, c.want, specialNear) {
			t.Errorf("%s = %v, want %v", c.name, got, c.want)
		}
	}
}

// TestSpecialRefusals: calls that torch refuses.
func TestSpecialRefusals(t *testing.T) {
	f, i := tensor.Scalar(tensor.Float32, 1.5), tensor.Scalar(tensor.Int64, int64(2))
	for _, c := range []struct {
		name string
		args []value.Value
	}{
		{"torch.special.zeta", []value.Value{int64(2), int64(3)}},
		{"torch.special.hermite_polynomial_h", []value.Value{int64(2), int64(3)}},
		{"torch.special.chebyshev_polynomial_t", []value.Value{f}},
		{"torch.igamma", []value.Value{f, 2.5}},
		{"torch.igamma", []value.Value{i, i}},
		{"torch.polygamma", []value.Value{int64(-1), f}},
		{"torch.mvlgamma", []value.Value{f, int64(0)}},
		{"torch.stft", []value.Value{f, int64(4)}},
		{"torch.istft", []value.Value{f, int64(4)}},
		{"torch.hann_window", []value.Value{int64(-1)}},
	} {
		if _, err := specialForward(t, c.name, nil, c.args...); err == nil {
			t.Errorf("%s(%v): no error", c.name, c.args)
		}
	}
}

// TestSTFT: a spectrum of torch 1.13, and back.
func TestSTFT(t *testing.T) {
	x := []float64{1, -2, 0.5, 3, -1, 2, 0, 1.5}
	self, win := tensor.New(tensor.Float64, []int{8}, x), tensor.New(tensor.Float64, []int{3}, []float64{0.5, 1, 0.75})
	kwargs := func(more ...value.Item) *value.Dict {
		return &value.Dict{Items: append([]value.Item{
			{Key: "hop_length", Value: int64(2)}, {Key: "win_length", Value: int64(3)}, {Key: "window", Value: win},
			{Key: "normalized", Value: true},
		}, more...)}
	}
	fwd, err := specialForward(t, "torch.stft", kwargs(value.Item{Key: "return_complex", Value: true}), self, int64(4))
	if err != nil {
		t.Fatal(err)
	}
	want := []complex128{-0.5, -0.5625, 1.25, 0.75, 0.75, -0.25 + 1i, 0.0625 + 1i, 0.5 - 1.5i, -0.25 - 1i, -0.75i, 1.5,
		1.4375, -1.75, -1.25, -0.75}
	got := fwd.Outs[0]
	if !slices.Equal(got.Shape, []int{3, 5}) || got.DType != tensor.Complex128 {
		t.Fatalf("stft gives %s", got.Meta())
	}
	if v := tensor.Data[complex128](got); !slices.EqualFunc(v, want,
		func(a, b complex128) bool { return specialNear(real(a), real(b)) && specialNear(imag(a), imag(b)) }) {
		t.Errorf("stft = %v, want %v", v, want)
	}
	back, err := specialForward(t, "torch.istft", kwargs(value.Item{Key: "length", Value: int64(9)}), got, int64(4))
	if err != nil {
		t.Fatal(err)
	}
	if v := tensor.Data[float64](back.Outs[0]); !slices.EqualFunc(v, append(slices.Clone(x), 0), specialNear) {
		t.Errorf("istft = %v, want %v and 0", v, x)
	}
}

func TestWindows(t *testing.T) {
	for _, c := range []struct {
		name     string
		periodic bool
		want     []float64
	}{
		{"hann", true, []float64{0, 0.3454915028125263, 0.9045084971874737, 0.9045084971874737, 0.3454915028125264}},
		{"hann", false, []float64{0, 0.5, 1, 0.5, 0}},
		{"hamming", true, []float64{0.08, 0.3978521825875242, 0.9121478174124757, 0.912147817412476,
			0.3978521825875243}},
		{"blackman", true, []float64{0, 0.20077014326253045, 0.8492298567374694, 0.8492298567374696,
			0.20077014326253056}},
		{"bartlett", true, []float64{0, 0.4, 0.8, 0.8, 0.4}},
		{"bartlett", false, []float64{0, 0.5, 1, 0.5, 0}},
		{"kaiser", false, []float64{5.2773441320097665e-05, 0.2156727447589671, 1, 0.2156727447589671,
			5.2773441320097665e-05}},
	} {
		fwd, err := specialForward(t, "torch."+c.name+"_window", nil, int64(5), c.periodic)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := tensor.Data[float64](fwd.Outs[0]); !slices.EqualFunc(got, c.want, specialNear) {
			t.Errorf("%s, periodic %v: %v, want %v", c.name, c.periodic, got, c.want)
		}
	}
	for name, want := range map[string][]float64{"fftfreq": {0, 0.4, 0.8, -0.8, -0.4}, "rfftfreq": {0, 0.4, 0.8}} {
		fwd, err := specialForward(t, "torch.fft."+name, nil, int64(5), 0.5)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := tensor.Data[float64](fwd.Outs[0]); !slices.EqualFunc(got, want, specialNear) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

// TestAlignToWindow: the window given begins at each frame's first element, as torch 2.15 has it.
func TestAlignToWindow(t *testing.T) {
	x := tensor.New(tensor.Float64, []int{12}, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	window := tensor.New(tensor.Float64, []int{3}, []float64{1, 2, 3})
	kwargs := func(items ...value.Item) *value.Dict {
		return &value.Dict{Items: append(items, value.Item{Key: "return_complex", Value: true})}
	}
	for align, want := range map[value.Value][]float64{
		nil: {26, 38, 50}, false: {26, 38, 50}, true: {14, 26, 38, 50, 62},
	} {
		fwd, err := specialForward(t, "torch.stft", kwargs(value.Item{Key: "center", Value: false}, value.Item{Key: "align_to_window", Value: align}), x, int64(8),
			int64(2), int64(3), window)
		if err != nil {
			t.Fatal(err)
		}
		var sums []float64 // those at frequency 0
		for _, v := range tensor.Data[complex128](fwd.Outs[0].Select(0, 0)) {
			sums = append(sums, real(v))
		}
		if !slices.EqualFunc(sums, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
			t.Errorf("align_to_window=%v: %v, want %v", align, sums, want)
		}
	}
	aligned := kwargs(value.Item{Key: "align_to_window", Value: true})
	if _, err := specialForward(t, "torch.stft", aligned, x, int64(8)); err == nil {
		t.Error("it is taken with center")
	}
}
