package opcheck

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type args struct {
	Self, Other *tensor.Tensor
	Alpha       opdef.Scalar

	picky bool // what is written to must have the dtype of self
}

// After refuses tensors that results cannot be written to.
func (a *args) After(outs []*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	if a.picky && outs[0].DType != a.Self.DType {
		return nil, opdef.Refuse("out", "want the dtype of self")
	}
	return nil, nil
}

// multiplyAdd is the op the mutations break: self*other + alpha*self, for
// equal shapes, with its correct gradient.
func multiplyAdd() opdef.Op[args] {
	return opdef.Op[args]{
		Schema: "muladd(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Product plus a multiple", Source: "none"},
		Error:  opdef.Error{Class: opdef.Accumulated},
		Kernel: multiplyAddKernel,
		Grad: func(a *args, g *opdef.Grad) (opdef.Grads, error) {
			gr := opdef.Grads{}
			if a.Self.DType.IsComplex() {
				k := a.Alpha.Complex128()
				gr.Set("self", opdef.Zip(a.Self.DType, g.Out[0], a.Other,
					func(g, y complex128) complex128 { return g * conj(y+k) }))
				gr.Set("other", opdef.Zip(a.Self.DType, g.Out[0], a.Self,
					func(g, x complex128) complex128 { return g * conj(x) }))
				return gr, nil
			}
			k := a.Alpha.Float64()
			gr.Set("self", opdef.Zip(a.Self.DType, g.Out[0], a.Other,
				func(g, y float64) float64 { return g * (y + k) }))
			gr.Set("other", opdef.Zip(a.Self.DType, g.Out[0], a.Self, func(g, x float64) float64 { return g * x }))
			return gr, nil
		},
		Cases: func(g opdef.Gen) []*args {
			two := func(dt tensor.DType, shape ...int) *args {
				return &args{Self: g.Normal(dt, shape...), Other: g.Normal(dt, shape...), Alpha: opdef.Float(0.5)}
			}
			return []*args{
				two(tensor.Float64, 3, 4), two(tensor.Float32, 5), two(tensor.BFloat16), two(tensor.Complex128, 2, 3),
				two(tensor.Float32, 0, 2),
			}
		},
	}
}

func multiplyAddKernel(a *args) ([]*tensor.Tensor, error) {
	if !slices.Equal(a.Self.Shape, a.Other.Shape) || a.Self.DType != a.Other.DType {
		return nil, opdef.Refuse("other", "want the shape and dtype of self")
	}
	switch a.Self.DType.Kind() {
	case tensor.KindComplex:
		k := a.Alpha.Complex128()
		return []*tensor.Tensor{opdef.Zip(a.Self.DType, a.Self, a.Other, func(x, y complex128) complex128 {
			return x*y + k*x
		})}, nil
	case tensor.KindFloat:
		k := a.Alpha.Float64()
		return []*tensor.Tensor{opdef.Zip(a.Self.DType, a.Self, a.Other,
			func(x, y float64) float64 { return x*y + k*x })}, nil
	}
	return nil, opdef.Refuse("self", "want a floating dtype")
}

func conj(c complex128) complex128 { return complex(real(c), -imag(c)) }

func TestSoundOp(t *testing.T) {
	for _, f := range (&Suite{}).Entry(multiplyAdd().Entry()) {
		t.Error(f)
	}
}

// real64 runs kernel on the float cases and the sound kernel on complex ones.
func real64(kernel func(a *args) []*tensor.Tensor) func(*args) ([]*tensor.Tensor, error) {
	return func(a *args) ([]*tensor.Tensor, error) {
		outs, err := multiplyAddKernel(a)
		if err != nil || a.Self.DType.IsComplex() {
			return outs, err
		}
		return kernel(a), nil
	}
}

// TestMutations breaks a sound op in one way at a time; the check named must
// notice.
func TestMutations(t *testing.T) {
	sound := multiplyAdd()
	grad := func(change func(a *args, gr opdef.Grads)) func(*args, *opdef.Grad) (opdef.Grads, error) {
		return func(a *args, g *opdef.Grad) (opdef.Grads, error) {
			gr, err := sound.Grad(a, g)
			change(a, gr)
			return gr, err
		}
	}
	formula := func(x, y, k float64) float64 { return x*y + k*x }
	for _, m := range []struct {
		name, check, detail string
		mutate              func(o *opdef.Op[args])
	}{
		{"gradient of the wrong sign", "gradients", "gradient of other", func(o *opdef.Op[args]) {
			o.Grad = grad(func(a *args, gr opdef.Grads) {
				if !a.Self.DType.IsComplex() {
					gr.Set("other", opdef.Map(a.Self.DType, gr["other"][0], func(x float64) float64 { return -x }))
				}
			})
		}},
		{"gradient without a factor", "gradients", "gradient of self", func(o *opdef.Op[args]) {
			o.Grad = grad(func(a *args, gr opdef.Grads) {
				if !a.Self.DType.IsComplex() {
					gr.Set("self", opdef.Map(a.Self.DType, gr["self"][0], func(x float64) float64 { return 1.001 * x }))
				}
			})
		}},
		{"gradient wrong in one element", "gradients", "element 5", func(o *opdef.Op[args]) {
			o.Grad = grad(func(a *args, gr opdef.Grads) {
				if a.Self.DType == tensor.Float64 {
					v := slices.Clone(tensor.Data[float64](gr["self"][0]))
					v[5] += 0.01
					gr.Set("self", tensor.New(a.Self.DType, a.Self.Shape, v))
				}
			})
		}},
		{"gradient not conjugated", "gradients", "imaginary part", func(o *opdef.Op[args]) {
			o.Grad = grad(func(a *args, gr opdef.Grads) {
				if a.Self.DType.IsComplex() {
					gr.Set("other", opdef.Map(a.Self.DType, gr["other"][0], conj))
				}
			})
		}},
		{"gradient missing", "gradients", "no gradient of other", func(o *opdef.Op[args]) {
			o.Grad = grad(func(_ *args, gr opdef.Grads) { delete(gr, "other") })
		}},
		{"gradient of other arguments depends on what is wanted", "gradients", "only the gradient of self is wanted",
			func(o *opdef.Op[args]) {
				o.Grad = func(a *args, g *opdef.Grad) (opdef.Grads, error) {
					gr, err := sound.Grad(a, g)
					if !g.Need("other") {
						delete(gr, "self")
					}
					return gr, err
				}
			}},
		{"gradient of the wrong shape", "cases", "shape", func(o *opdef.Op[args]) {
			o.Grad = grad(func(_ *args, gr opdef.Grads) { gr.Set("self", gr["self"][0].Unsqueeze(0)) })
		}},
		{"operand transposed in the gradient", "gradients", "gradient of self", func(o *opdef.Op[args]) {
			o.Grad = grad(func(a *args, gr opdef.Grads) {
				if a.Self.DType == tensor.Float64 && a.Self.Dim() == 2 {
					t := gr["self"][0]
					gr.Set("self", t.Transpose(0, 1).Dense().Reshape(t.Shape...))
				}
			})
		}},
		{"strides ignored", "strides", "arguments with gaps", func(o *opdef.Op[args]) {
			o.Kernel = real64(func(a *args) []*tensor.Tensor {
				flat, err := a.Self.Strided(a.Self.Shape, tensor.Contiguous(a.Self.Shape), a.Self.Offset)
				if err != nil || a.Self.Numel() == 0 {
					flat = a.Self
				}
				k := a.Alpha.Float64()
				return []*tensor.Tensor{opdef.Zip(a.Self.DType, flat, a.Other,
					func(x, y float64) float64 { return formula(x, y, k) })}
			})
		}},
		{"offset ignored", "strides", "in the middle of a storage", func(o *opdef.Op[args]) {
			o.Kernel = real64(func(a *args) []*tensor.Tensor {
				x := *a.Self
				x.Offset = 0
				k := a.Alpha.Float64()
				return []*tensor.Tensor{opdef.Zip(a.Self.DType, &x, a.Other,
					func(x, y float64) float64 { return formula(x, y, k) })}
			})
		}},
		{"expanded incoming gradient read past its element", "strides", "expanded incoming gradients",
			func(o *opdef.Op[args]) {
				o.Grad = func(a *args, g *opdef.Grad) (opdef.Grads, error) {
					out := *g.Out[0]
					if out.Numel() > 1 && out.Stride[len(out.Stride)-1] == 0 {
						return nil, opdef.Refuse("", "want a contiguous gradient")
					}
					return sound.Grad(a, g)
				}
			}},
		{"argument overwritten", "inputs", "argument self was modified", func(o *opdef.Op[args]) {
			o.Kernel = real64(func(a *args) []*tensor.Tensor {
				x := tensor.Data[float64](a.Self)
				for i, y := range tensor.Data[float64](a.Other) {
					x[i] = formula(x[i], y, a.Alpha.Float64())
				}
				return []*tensor.Tensor{tensor.New(a.Self.DType, a.Self.Shape, slices.Clone(x))}
			})
		}},
		{"block start ignored", "blocks", "loaded alone", func(o *opdef.Op[args]) {
			o.Kernel = real64(func(a *args) []*tensor.Tensor {
				x, y := tensor.Data[float64](a.Self), tensor.Data[float64](a.Other)
				return []*tensor.Tensor{tensor.Lazy(a.Self.DType, a.Self.Shape, 1, func(_ int, dst []float64) {
					for i := range dst {
						dst[i] = formula(x[i], y[i], a.Alpha.Float64())
					}
				})}
			})
		}},
		{"rounded on the way", "dtypes", "differ before rounding", func(o *opdef.Op[args]) {
			o.Kernel = real64(func(a *args) []*tensor.Tensor {
				k, dt := a.Alpha.Float64(), a.Self.DType
				return []*tensor.Tensor{opdef.Zip(dt, a.Self, a.Other,
					func(x, y float64) float64 { return dt.Round(x*y) + k*x })}
			})
		}},
		{"result always float32", "dtypes", "has dtype float32, want bfloat16", func(o *opdef.Op[args]) {
			o.Kernel = real64(func(a *args) []*tensor.Tensor {
				dt := a.Self.DType
				if dt != tensor.Float64 {
					dt = tensor.Float32
				}
				k := a.Alpha.Float64()
				return []*tensor.Tensor{opdef.Zip(dt, a.Self, a.Other,
					func(x, y float64) float64 { return formula(x, y, k) })}
			})
		}},
		{"written results refused", "inplace", "with out=", func(o *opdef.Op[args]) {
			o.Plan = func(a *args) (*args, error) {
				b := *a
				b.picky = true
				return &b, nil
			}
		}},
		{"panic at NaN", "special", "panic at", func(o *opdef.Op[args]) {
			o.Kernel = real64(func(a *args) []*tensor.Tensor {
				table := make([]float64, 1000)
				return []*tensor.Tensor{opdef.Map(a.Self.DType, a.Self,
					func(x float64) float64 { return table[int(math.Abs(x))] })}
			})
		}},
		{"panic without elements", "empty", "index out of range", func(o *opdef.Op[args]) {
			o.Kernel = real64(func(a *args) []*tensor.Tensor {
				x := tensor.Data[float64](a.Self)
				return []*tensor.Tensor{tensor.Full(a.Self.DType, a.Self.Shape, x[0])}
			})
			o.Cases = func(g opdef.Gen) []*args { return sound.Cases(g)[:1] }
		}},
		{"panic at another shape", "refusals", "panic at", func(o *opdef.Op[args]) {
			o.Kernel = func(a *args) ([]*tensor.Tensor, error) {
				if a.Self.DType.IsComplex() {
					return multiplyAddKernel(a)
				}
				x, y := tensor.Data[float64](a.Self), tensor.Data[float64](a.Other)
				out := make([]float64, len(x))
				for i := range x {
					out[i] = formula(x[i], y[i], a.Alpha.Float64())
				}
				return []*tensor.Tensor{tensor.New(a.Self.DType, a.Self.Shape, out)}, nil
			}
		}},
		{"S without a term", "bounds", "S of element", func(o *opdef.Op[args]) {
			o.Scale = func(a *args, _ []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{opdef.Map(tensor.Float64, opdef.Abs(a.Self),
					func(x float64) float64 { return x / 2 })}
			}
		}},
		{"S of another shape", "bounds", "has not the result's shape", func(o *opdef.Op[args]) {
			o.Scale = func(*args, []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{tensor.Scalar(tensor.Float64, 1.0)}
			}
		}},
		{"case that is refused", "cases", "want the shape", func(o *opdef.Op[args]) {
			o.Cases = func(g opdef.Gen) []*args {
				return []*args{{Self: g.Normal(tensor.Float64, 3), Other: g.Normal(tensor.Float64, 2),
					Alpha: opdef.Int(1)}}
			}
		}},
		{"cases without gradients", "cases", "no case asks for a gradient", func(o *opdef.Op[args]) {
			o.Cases = func(g opdef.Gen) []*args {
				x := tensor.Scalar(tensor.Float64, 1.0)
				return []*args{{Self: x, Other: x, Alpha: opdef.Int(1)}}
			}
		}},
		{"exempt without a reason", "cases", "exempt from",
			func(o *opdef.Op[args]) { o.Exempt = map[string]string{"strides": ""} }},
		{"exempt from no check", "cases", "exempt from",
			func(o *opdef.Op[args]) { o.Exempt = map[string]string{"stride": "reason"} }},
		{"kink at the case", "gradients", "not smooth", func(o *opdef.Op[args]) {
			o.Kernel = real64(func(a *args) []*tensor.Tensor {
				return []*tensor.Tensor{opdef.Map(a.Self.DType, a.Self,
					func(x float64) float64 { return math.Sin(1e7 * x) })}
			})
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			o := multiplyAdd()
			m.mutate(&o)
			found := (&Suite{}).Entry(o.Entry())
			if !slices.ContainsFunc(found, func(f Finding) bool {
				return f.Check == m.check && strings.Contains(f.Detail, m.detail)
			}) {
				t.Errorf("check %s found nothing with %q, all findings: %q", m.check, m.detail, found)
			}
		})
	}
}

// TestOverload gives one name two overloads of which the first takes the
// second's calls.
func TestOverload(t *testing.T) {
	first, second := multiplyAdd(), multiplyAdd()
	first.Schema = "muladd.first(Tensor self, Tensor? other=None, *, Scalar alpha=1) -> Tensor"
	first.Names, second.Names = "muladd", "muladd"
	first.InPlace, second.InPlace = false, false
	first.Kernel = func(a *args) ([]*tensor.Tensor, error) { return []*tensor.Tensor{a.Self}, nil }
	reg, err := opdef.NewRegistry([]*opdef.Entry{first.Entry(), second.Entry()})
	if err != nil {
		t.Fatal(err)
	}
	found := (&Suite{Registry: reg, Only: []string{"binding"}}).Entry(reg.Entries()[1])
	if len(found) == 0 || !strings.Contains(found[0].Detail, "answers with muladd.first(") {
		t.Errorf("findings %q, want that the first overload answers", found)
	}
}

// TestDeterminism runs an op that adds in the order in which goroutines happen
// to be: it depends on GOMAXPROCS in a fixed way here.
func TestDeterminism(t *testing.T) {
	sound := multiplyAdd()
	if found := (&Suite{}).Determinism([]*opdef.Entry{sound.Entry()}); len(found) > 0 {
		t.Errorf("sound op: %q", found)
	}
	calls := 0.0
	odd := multiplyAdd()
	odd.Kernel = real64(func(a *args) []*tensor.Tensor {
		calls++
		return []*tensor.Tensor{tensor.Full(a.Self.DType, a.Self.Shape, calls)}
	})
	if found := (&Suite{}).Determinism([]*opdef.Entry{odd.Entry()}); len(found) == 0 {
		t.Error("an op that counts its calls: no finding")
	}
}

// TestEndless abandons a check that does not end.
func TestEndless(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	x := &subject{entry: multiplyAdd().Entry(), check: "special"}
	found, ended := x.runCheck(func(x *subject) {
		x.doing.Store("NaN")
		<-stop
	}, time.Millisecond)
	if ended || len(found) != 1 || found[0].Detail != "NaN: not done after 1ms" {
		t.Errorf("ended %v, findings %q", ended, found)
	}
}

// A device is a Runner that computes like an accelerator: it rounds every
// result to its dtype.
type device struct{ swapped bool }

func (d device) Forward(c *opdef.Call) (*opdef.Forward, error) {
	f, err := c.Forward()
	if err != nil {
		return nil, err
	}
	for i, o := range f.Outs {
		f.Outs[i] = o.Rounded()
	}
	return f, nil
}

func (d device) Backward(c *opdef.Call, f *opdef.Forward, out []*tensor.Tensor, need map[string]bool) (opdef.Grads,
	error) {
	g, err := c.Backward(f, out, need)
	if err != nil {
		return nil, err
	}
	if d.swapped && !c.Tensors()[0].Tensor.IsContiguous() { // a device that is wrong for strided tensors only
		g["self"], g["other"] = g["other"], g["self"]
	}
	for name := range g {
		g[name] = []*tensor.Tensor{g[name][0].Rounded()}
	}
	return g, nil
}

func TestDevice(t *testing.T) {
	sound := multiplyAdd()
	for _, f := range (&Suite{Runner: device{}, Rounds: true}).Entry(sound.Entry()) {
		t.Error(f)
	}
	found := (&Suite{Runner: device{swapped: true}, Rounds: true}).Entry(sound.Entry())
	if !slices.ContainsFunc(found, func(f Finding) bool {
		return f.Check == "strides" && strings.Contains(f.Detail, "gradient of")
	}) {
		t.Errorf("a device that swaps gradients of strided arguments: %q", found)
	}
}

func TestChecksHaveDocs(t *testing.T) {
	for _, c := range Checks() {
		if c.Doc == "" || strings.HasSuffix(c.Doc, ".") {
			t.Errorf("check %s: doc %q", c.Name, c.Doc)
		}
	}
}
