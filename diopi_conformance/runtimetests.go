package conformance

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/tensor"
)

// A RuntimeTest checks something of a device that is no operator: what it says
// of itself, its errors, copies, streams, generators. What the tests ask is what
// the kit's mode utest asks, and more.
type RuntimeTest struct {
	Name string // "stream::order"
	Run  func(ctx context.Context, d Device, info devicebridge.Info) (verdict.Verdict, string)
}

// RuntimeTests are all tests, in order.
func RuntimeTests() []RuntimeTest {
	tests := []RuntimeTest{
		{"device_info::vendor_name", vendorName},
		{"device_info::impl_version", implVersion},
		{"device_info::functions", exportedFunctions},
		{"last_error::code", refusal},
		{"last_error::text", refusalText},
		{"last_error::recovers", afterRefusal},
		{"stream::order", streamOrder},
		{"stream::two_at_once", twoStreams},
		{"generator::repeats", generatorRepeats},
		{"generator::seeds_differ", generatorSeeds},
		{"generator::advances", generatorAdvances},
	}
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int16, tensor.Int8,
		tensor.Bool} {
		tests = append(tests, RuntimeTest{"tensor::copy_" + dt.String(), func(ctx context.Context, d Device,
			_ devicebridge.Info) (verdict.Verdict, string) {
			return copies(ctx, d, dt)
		}})
	}
	return tests
}

func vendorName(_ context.Context, _ Device, info devicebridge.Info) (verdict.Verdict, string) {
	switch {
	case info.Vendor == "":
		return verdict.Fail, "diopiGetVendorName is absent or gives no text"
	case !strings.Contains(info.Vendor, "Device"):
		return verdict.Warn, fmt.Sprintf("the vendor's name is %q; DIOPI's kit wants \"Device\" in it", info.Vendor)
	}
	return verdict.Pass, ""
}

func implVersion(_ context.Context, _ Device, info devicebridge.Info) (verdict.Verdict, string) {
	if info.Version == "" {
		return verdict.Warn, "diopiGetImplVersion is absent or gives no text"
	}
	return verdict.Pass, ""
}

func exportedFunctions(_ context.Context, _ Device, info devicebridge.Info) (verdict.Verdict, string) {
	if len(info.Functions) == 0 {
		return verdict.Fail, "the library exports none of DIOPI's operators"
	}
	return verdict.Pass, ""
}

// carryOut runs a plan and says why it did not end well, if it did not.
func carryOut(ctx context.Context, d Device, p *diopi.Plan) (*devicebridge.Result, verdict.Verdict, string) {
	res, err := d.Run(ctx, p)
	if err != nil {
		return nil, verdict.Error, sentence(err)
	}
	if w := res.Worst(); w != nil {
		v, ok := callVerdicts[w.Status]
		if !ok {
			v = verdict.Error
		}
		return res, v, fmt.Sprintf("%s %s: %s", w.Function, w.Status, w.Reason)
	}
	return res, verdict.Pass, ""
}

// refused runs the call that the kit makes to get an error, diopiCat of no
// tensors.
func refused(ctx context.Context, d Device) (*devicebridge.CallResult, verdict.Verdict, string) {
	p := &diopi.Plan{Calls: []*diopi.Call{{Phase: diopi.Forward, Function: "diopiCat", Args: map[string]diopi.Arg{
		"out": &diopi.Tensor{Role: "out", DType: tensor.Float32, Shape: []int{0}}, "tensors": diopi.Tensors{},
		"num_inputs": diopi.Integer(0), "dim": diopi.Integer(0),
	}}}}
	res, err := d.Run(ctx, p)
	if err != nil {
		return nil, verdict.Error, sentence(err)
	}
	c := &res.Calls[0]
	switch c.Status {
	case devicebridge.OK:
		return nil, verdict.Fail, "diopiCat of no tensors gave no error"
	case devicebridge.Failed, devicebridge.Threw:
		return c, verdict.Pass, ""
	}
	return nil, callVerdicts[c.Status], fmt.Sprintf("diopiCat of no tensors %s: %s", c.Status, c.Reason)
}

func refusal(ctx context.Context, d Device, _ devicebridge.Info) (verdict.Verdict, string) {
	c, v, why := refused(ctx, d)
	if c != nil && c.Status == devicebridge.Threw {
		return verdict.Fail, "an exception left diopiCat instead of an error code: " + c.Reason
	}
	return v, why
}

func refusalText(ctx context.Context, d Device, info devicebridge.Info) (verdict.Verdict, string) {
	if !info.LastError {
		return verdict.Fail, "diopiGetLastErrorString is absent"
	}
	c, v, why := refused(ctx, d)
	if c == nil {
		return v, why
	}
	// The reason ends with the library's text after "(code): ".
	if _, text, ok := strings.Cut(c.Reason, "): "); c.Status == devicebridge.Failed && (!ok || text == "") {
		return verdict.Fail, "diopiGetLastErrorString says nothing after an error: " + c.Reason
	}
	return verdict.Pass, ""
}

func afterRefusal(ctx context.Context, d Device, _ devicebridge.Info) (verdict.Verdict, string) {
	if c, v, why := refused(ctx, d); c == nil {
		return v, why
	}
	return copies(ctx, d, tensor.Float32)
}

// steps is how many products the kit's test of streams chains.
const steps = 10

// chain multiplies a matrix with another again and again without waiting and
// compares with the same in float64.
func chain(ctx context.Context, d Device, seed int) (verdict.Verdict, string) {
	const rows, n = 16, 128
	x, y := waves(rows*n, seed, 1), waves(n*n, seed+1, 1/math.Sqrt(n))
	a := &diopi.Tensor{Role: "a", DType: tensor.Float32, Shape: []int{rows, n}, Value: tensor.New(tensor.Float32,
		[]int{rows, n}, x).Rounded()}
	b := &diopi.Tensor{Role: "b", DType: tensor.Float32, Shape: []int{n, n}, Value: tensor.New(tensor.Float32,
		[]int{n, n}, y).Rounded()}
	p := &diopi.Plan{}
	x = slices.Clone(x)
	for range steps {
		out := &diopi.Tensor{Role: "out", DType: tensor.Float32, Shape: []int{rows, n}}
		p.Calls = append(p.Calls, &diopi.Call{Phase: diopi.Forward, Function: "diopiMatmul",
			Args: map[string]diopi.Arg{"out": out, "input": a, "other": b}})
		a = out
		next := make([]float64, rows*n)
		for i := range rows {
			for k := range n {
				for j := range n {
					next[i*n+j] += x[i*n+k] * y[k*n+j]
				}
			}
		}
		x = next
	}
	res, v, why := carryOut(ctx, d, p)
	if v != verdict.Pass {
		return v, why
	}
	got, ok := res.Tensor(a)
	if !ok {
		return verdict.Error, "the last product was not given back"
	}
	scale := 0.0
	for _, e := range x {
		scale = max(scale, math.Abs(e))
	}
	for i, e := range tensor.Data[float64](got) {
		if !(math.Abs(e-x[i]) <= 1e-2*scale) {
			return verdict.Fail,
				fmt.Sprintf("element %d of %d chained products is %g, want %g: calls on one stream do not run one "+
					"after the other", i, steps, e, x[i])
		}
	}
	return verdict.Pass, ""
}

// waves are n numbers of about the size amplitude.
func waves(n, seed int, amplitude float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = amplitude * math.Sin(float64(i*i%1009+seed*37))
	}
	return v
}

func streamOrder(ctx context.Context, d Device, _ devicebridge.Info) (verdict.Verdict, string) {
	return chain(ctx, d, 0)
}

func twoStreams(ctx context.Context, d Device, _ devicebridge.Info) (v verdict.Verdict, why string) {
	var other sync.WaitGroup
	var v2 verdict.Verdict
	var why2 string
	other.Go(func() { v2, why2 = chain(ctx, d, 2) })
	v, why = chain(ctx, d, 5)
	other.Wait()
	if v == verdict.Pass {
		return v2, why2
	}
	return v, why
}

// draws are the numbers of diopiUniformInp, several calls one after the other,
// from a generator in this state.
func draws(ctx context.Context, d Device, seed uint64, calls int) ([][]float64, verdict.Verdict, string) {
	gen, p := &diopi.Generator{Seed: seed}, &diopi.Plan{}
	var outs []*diopi.Tensor
	for range calls {
		t := &diopi.Tensor{Role: "inout", DType: tensor.Float32, Shape: []int{1000}, Value: tensor.New(tensor.Float32,
			[]int{1000}, make([]float64, 1000))}
		outs = append(outs, t)
		p.Calls = append(p.Calls, &diopi.Call{Phase: diopi.InPlace, Function: "diopiUniformInp",
			Args: map[string]diopi.Arg{"inout": t, "from": diopi.Real(0), "to": diopi.Real(1), "generator": gen}})
	}
	res, v, why := carryOut(ctx, d, p)
	if v != verdict.Pass {
		return nil, v, why
	}
	var all [][]float64
	for _, t := range outs {
		got, ok := res.Tensor(t)
		if !ok {
			return nil, verdict.Error, "the numbers drawn were not given back"
		}
		all = append(all, tensor.Data[float64](got))
	}
	return all, verdict.Pass, ""
}

func generatorRepeats(ctx context.Context, d Device, _ devicebridge.Info) (verdict.Verdict, string) {
	return twoDraws(ctx, d, 7, 7, func(same bool) string {
		if !same {
			return "the same seed and offset gave other numbers the second time"
		}
		return ""
	})
}

func generatorSeeds(ctx context.Context, d Device, _ devicebridge.Info) (verdict.Verdict, string) {
	return twoDraws(ctx, d, 7, 8, func(same bool) string {
		if same {
			return "seeds 7 and 8 gave the same numbers"
		}
		return ""
	})
}

func twoDraws(ctx context.Context, d Device, first, second uint64, wrong func(same bool) string) (verdict.Verdict,
	string) {
	a, v, why := draws(ctx, d, first, 1)
	if v != verdict.Pass {
		return v, why
	}
	b, v, why := draws(ctx, d, second, 1)
	if v != verdict.Pass {
		return v, why
	}
	if why := wrong(slices.Equal(a[0], b[0])); why != "" {
		return verdict.Fail, "diopiUniformInp: " + why
	}
	return verdict.Pass, ""
}

func generatorAdvances(ctx context.Context, d Device, _ devicebridge.Info) (verdict.Verdict, string) {
	a, v, why := draws(ctx, d, 7, 2)
	if v != verdict.Pass {
		return v, why
	}
	if slices.Equal(a[0], a[1]) {
		return verdict.Fail,
			"diopiUniformInp: two calls with one generator gave the same numbers: its state does not advance"
	}
	return verdict.Pass, ""
}

// copies sends numbers to the device, copies them there and fetches them.
func copies(ctx context.Context, d Device, dt tensor.DType) (verdict.Verdict, string) {
	shape := []int{2, 3, 5}
	v := make([]int64, 30)
	for i := range v {
		v[i] = int64(i - 15)
		if dt == tensor.Bool {
			v[i] = int64(i % 3 % 2)
		}
	}
	src := &diopi.Tensor{Role: "src", DType: dt, Shape: shape, Value: tensor.New(dt, shape, v)}
	dest := &diopi.Tensor{Role: "dest", DType: dt, Shape: shape}
	res, ended, why := carryOut(ctx, d,
		&diopi.Plan{Calls: []*diopi.Call{{Phase: diopi.Forward, Function: "diopiCopyInp",
			Args: map[string]diopi.Arg{"src": src, "dest": dest}}}})
	if ended != verdict.Pass {
		return ended, why
	}
	got, ok := res.Tensor(dest)
	if !ok {
		return verdict.Error, "the copy was not given back"
	}
	for i, x := range tensor.Data[int64](got) {
		if x != v[i] {
			return verdict.Fail, fmt.Sprintf("element %d of a copied %s tensor is %d, want %d", i, dt, x, v[i])
		}
	}
	if len(res.Findings) > 0 {
		return verdict.Fail, "diopiCopyInp: " + res.Findings[0].String()
	}
	return verdict.Pass, ""
}
