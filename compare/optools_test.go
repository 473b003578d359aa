package compare

import (
	"encoding/json"
	"math"
	"math/big"
	"os"
	"strconv"
	"testing"

	"github.com/optool/optool/compare/internal/vec"
	"github.com/optool/optool/tensor"
)

// golden is a device/host pair with the row op_tools printed for it, taken
// from comparisons that op_tools ran with torch 1.13.
type golden struct {
	Name         string
	Device, Host stored
	AllClose     bool
	Cosine       string
	MaxAbs       string `json:"max_abs"`
	MaxRel       string `json:"max_rel"`
	Atol, Rtol   string
	Note         string
}

type stored struct {
	DType string
	Shape []int
	Data  []byte
}

func (s stored) tensor(t *testing.T) *tensor.Tensor {
	t.Helper()
	dt, ok := tensor.ParseDType(s.DType)
	if !ok {
		t.Fatalf("unknown dtype %q", s.DType)
	}
	x, err := tensor.NewView(tensor.NewStorage(s.Data), tensor.View{DType: dt, Shape: s.Shape,
		Stride: tensor.Contiguous(s.Shape)})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// printed reports whether x is the number printed with nine decimals, within
// tol beside the six digits that survive float32.
func printed(x float64, text string, tol float64) bool {
	want, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	return same(x, want) || math.Abs(x-want) <= tol+1e-6*math.Abs(want)
}

func TestOpToolsGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/optools.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []golden
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, g := range cases {
		t.Run(g.Name, func(t *testing.T) {
			a, b := g.Device.tensor(t), g.Host.tensor(t)
			o := OpToolsTensors(a, b, DefaultTolerance(a.DType))
			if o.AllClose != g.AllClose || o.Note != g.Note || !printed(o.Cosine, g.Cosine, 1e-6) ||
				!printed(o.MaxAbs, g.MaxAbs, 1e-9) ||
				!printed(o.MaxRel, g.MaxRel, 1e-9) || !printed(o.Atol, g.Atol, 1e-9) || !printed(o.Rtol, g.Rtol, 1e-9) {
				t.Errorf("got %+v, want %v %s %s %s atol %s rtol %s %q", o, g.AllClose, g.Cosine, g.MaxAbs, g.MaxRel,
					g.Atol, g.Rtol, g.Note)
			}
		})
	}
}

// TestOpToolsBuffers: the same numbers from strided and computed tensors as
// from stored contiguous ones.
func TestOpToolsBuffers(t *testing.T) {
	for dt := range tensor.DTypes() {
		if !dt.Computable() || dt.Min() >= 0 || !(dt.Max() > 100) {
			continue // which do not hold the numbers below
		}
		n := 1000
		v, w := make([]float64, n), make([]float64, n)
		for i := range v {
			v[i] = math.Trunc(100*math.Sin(float64(i))) / 4
			w[i] = v[i] + float64(i%3)/2
		}
		a, b := tensor.New(tensor.Float64, []int{n}, v), tensor.New(tensor.Float64, []int{n}, w)
		cast := func(x *tensor.Tensor) *tensor.Tensor { // stored, contiguous
			d := tensor.Data[complex128](x)
			if dt.IsComplex() {
				return tensor.New(dt, x.Shape, d).Rounded()
			}
			f := make([]float64, len(d))
			k := make([]int64, len(d))
			for i, z := range d {
				f[i], k[i] = real(z), int64(real(z))
			}
			if dt.IsFloat() {
				return tensor.New(dt, x.Shape, f).Rounded()
			}
			return tensor.New(dt, x.Shape, k).Rounded()
		}
		sa, sb := cast(a), cast(b)
		want := OpToolsTensors(sa, sb, DefaultTolerance(dt))
		if want.AllClose || !(want.MaxAbs >= 1) {
			t.Errorf("%s: %+v, want differences of 1", dt, want)
		}
		strided := func(x *tensor.Tensor) *tensor.Tensor { // every second element of a storage
			raw := x.AppendBytes(nil)
			var wide []byte
			for i := range n {
				e := raw[i*dt.Size() : (i+1)*dt.Size()]
				wide = append(append(wide, e...), e...)
			}
			s, err := tensor.NewView(tensor.NewStorage(wide), tensor.View{DType: dt, Shape: []int{n}, Stride: []int{2}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		for name, pair := range map[string][2]*tensor.Tensor{"strided device": {strided(sa), sb},
			"strided host": {sa, strided(sb)}, "both strided": {strided(sa), strided(sb)}} {
			if got := OpToolsTensors(pair[0], pair[1], DefaultTolerance(dt)); got != want {
				t.Errorf("%s %s: %+v, want %+v", dt, name, got, want)
			}
		}
	}
}

func TestOpToolsValues(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		device, host any
		want         OpTools
	}{
		{nil, nil, OpTools{AllClose: true, Cosine: 1}},
		{true, true, OpTools{AllClose: true, Cosine: 1}},
		{true, false, OpTools{Cosine: -1, MaxAbs: nan, MaxRel: nan, Note: " value: True False "}},
		{int64(3), int64(3), OpTools{AllClose: true, Cosine: 1, Atol: 1e-6, Rtol: 1e-6}},
		{int64(3), int64(4), OpTools{Cosine: -1, MaxAbs: 1, MaxRel: 1 / (4 + 1e-6), Atol: 1e-6, Rtol: 1e-6,
			Note: " value: 3 4 "}},
		{1.0, 1.5, OpTools{Cosine: -1, MaxAbs: 0.5, MaxRel: 0.5 / (1.5 + 1e-6), Atol: 1e-6, Rtol: 1e-6,
			Note: " value: 1.0 1.5 "}},
		{nan, nan, OpTools{AllClose: true, Cosine: 1, MaxAbs: nan, MaxRel: nan, Atol: 1e-6, Rtol: 1e-6}},
		{math.Inf(-1), math.Inf(-1), OpTools{Cosine: -1, MaxAbs: nan, MaxRel: nan, Atol: 1e-6, Rtol: 1e-6,
			Note: " value: -inf -inf "}},
		{int64(1), 1.0, OpTools{Cosine: -1, MaxAbs: nan, MaxRel: nan,
			Note: "Inconsistent types: <class 'int'> <class 'float'>"}},
		{tensor.Float32, tensor.Float32, OpTools{AllClose: true, Cosine: 1,
			Note: " value: torch.float32 torch.float32"}},
		{"cuda:0", "cpu", OpTools{Cosine: -1, MaxAbs: nan, MaxRel: nan, Note: " value: cuda:0 cpu"}},
		{nil, tensor.Scalar(tensor.Float32, 1.0), OpTools{Cosine: -1, MaxAbs: nan, MaxRel: nan,
			Note: "Inconsistent types: <class 'NoneType'> <class 'torch.Tensor'>"}},
		{1e-7, 2e20, OpTools{Cosine: -1, MaxAbs: 2e20, MaxRel: 1, Atol: 1e-6, Rtol: 1e-6,
			Note: " value: 1e-07 2e+20 "}},
		{big.NewInt(7), big.NewInt(7), OpTools{AllClose: true, Cosine: 1, Atol: 1e-6, Rtol: 1e-6}},
		{complex(1, 2), complex(1, 2), OpTools{AllClose: true, Cosine: 1, Note: " value: (1+2j) (1+2j)"}},
	} {
		got := OpToolsValues(tc.device, tc.host)
		ok := same(got.MaxAbs, tc.want.MaxAbs) && (same(got.MaxRel, tc.want.MaxRel) ||
			math.Abs(got.MaxRel-tc.want.MaxRel) < 1e-12)
		got.MaxAbs, got.MaxRel, tc.want.MaxAbs, tc.want.MaxRel = 0, 0, 0, 0
		if !ok || got != tc.want {
			t.Errorf("OpToolsValues(%v, %v) = %+v, want %+v (numbers agree: %v)", tc.device, tc.host, got, tc.want, ok)
		}
	}
}

func TestOpToolsIntegersWrap(t *testing.T) {
	one := func(dt tensor.DType, v int64) *tensor.Tensor { return tensor.New(dt, []int{1}, []int64{v}) }
	for _, tc := range []struct {
		dt             tensor.DType
		a, b           int64
		maxAbs, maxRel float64
	}{
		{tensor.Uint8, 0, 1, 255, 255e6},
		{tensor.Int8, -128, 1, 127, 127 / (-128 + 1e-6)},
		{tensor.Int8, 127, -1, -128, -128 / (127 + 1e-6)},
		{tensor.Bool, 0, 1, 1, 1e6},
		{tensor.Int64, 5, 3, 2, 2 / (5 + 1e-6)},
		{tensor.Uint64, 0, 1, math.MaxUint64, 1.8446744073709552e25},
	} {
		o := OpToolsTensors(one(tc.dt, tc.a), one(tc.dt, tc.b), DefaultTolerance(tc.dt))
		if o.MaxAbs != tc.maxAbs || math.Abs(o.MaxRel-tc.maxRel) > 1e-6*math.Abs(tc.maxRel) || o.AllClose {
			t.Errorf("%s %d %d: %+v, want max abs %v rel %v", tc.dt, tc.a, tc.b, o, tc.maxAbs, tc.maxRel)
		}
	}
}

// TestSameIntegers compares what is known of integers and themselves with what the loop for others gives.
func TestSameIntegers(t *testing.T) {
	r := vec.Rule{Atol: 1e-3, Rtol: 1e-3, Eps: relEps}
	for _, dt := range []tensor.DType{tensor.Bool, tensor.Uint8, tensor.Int32, tensor.Int64, tensor.Uint64} {
		for n := range 9 {
			v := make([]int64, n)
			for i := range v {
				v[i] = tensor.WrapInt(dt, int64(i*i-3*i))
				if dt == tensor.Bool {
					v[i] &= 1
				}
			}
			got, want := sameIntegers(dt, v), integers(dt, v, v, r)
			if math.Abs(got.AA-want.AA) > 1e-9*want.AA || got.AA != got.BB || got.AA != got.Dot {
				t.Errorf("%s, %d: sums %v %v %v, want %v", dt, n, got.Dot, got.AA, got.BB, want.AA)
			}
			if want.Dot, want.AA, want.BB = got.Dot, got.AA, got.BB; got != want {
				t.Errorf("%s, %d: %+v, want %+v", dt, n, got, want)
			}
		}
	}
}
