package conformance

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/tensor"
)

// A RuntimeTest checks something of a device that is no operator: what it says
// of itself, its errors, copies, streams, generators. What the tests ask is what
// the kit's mode utest asks, and more.
type RuntimeTest struct {
	Name string // "stream::order"
	Run  func(ctx context.Context, d Device, info devicebridge.Info) (compare.Verdict, string)
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
			_ devicebridge.Info) (compare.Verdict, string) {
			return copies(ctx, d, dt)
		}})
	}
	return tests
}

func vendorName(_ context.Context, _ Device, info devicebridge.Info) (compare.Verdict, string) {
	switch {
	case info.Vendor == "":
		return compare.Fail, "diopiGetVendorName is absent or gives no text"
	case !strings.Contains(info.Vendor, "Device"):
		return compare.Warn, fmt.Sprintf("the vendor's name is %q; DIOPI's kit wants \"Device\" in it", info.Vendor)
	}
	return compare.Pass, ""
}

func implVersion(_ context.Context, _ Device, info devicebridge.Info) (compare.Verdict, string) {
	if info.Version == "" {
		return compare.Warn, "diopiGetImplVersion is absent or gives no text"
	}
	return compare.Pass, ""
}

func exportedFunctions(_ context.Context, _ Device, info devicebridge.Info) (compare.Verdict, string) {
	if len(info.Functions) == 0 {
		return compare.Fail, "the library exports none of DIOPI's operators"
	}
	return compare.Pass, ""
}

// carryOut runs a plan and says why it did not end well, if it did not.
func carryOut(ctx context.Context, d Device, p *diopi.Plan) (*devicebridge.Result, compare.Verdict, string) {
	res, err := d.Run(ctx, p)
	if err != nil {
		return nil, compare.Error, sentence(err)
	}
	if w := res.Worst(); w != nil {
		v, ok := callVerdicts[w.Status]
		if !ok {
			v = compare.Error
		}
		return res, v, fmt.Sprintf("%s %s: %s", w.Function, w.Status, w.Reason)
	}
	return res, compare.Pass, ""
}

// refused runs the call that the kit makes to get an error, diopiCat of no
// tensors.
func refused(ctx context.Context, d Device) (*devicebridge.CallResult, compare.Verdict, string) {
	p := &diopi.Plan{Calls: []*diopi.Call{{Phase: diopi.Forward, Function: "diopiCat", Args: map[string]diopi.Arg{
		"out": &diopi.Tensor{Role: "out", DType: tensor.Float32, Shape: []int{0}}, "tensors": []*diopi.Tensor{},
		"num_inputs": int64(0), "dim": int64(0),
	}}}}
	res, err := d.Run(ctx, p)
	if err != nil {
		return nil, compare.Error, sentence(err)
	}
	c := &res.Calls[0]
	switch c.Status {
	case devicebridge.OK:
		return nil, compare.Fail, "diopiCat of no tensors gave no error"
	case devicebridge.Failed, devicebridge.Threw:
		return c, compare.Pass, ""
	}
	return nil, callVerdicts[c.Status], fmt.Sprintf("diopiCat of no tensors %s: %s", c.Status, c.Reason)
}

func refusal(ctx context.Context, d Device, _ devicebridge.Info) (compare.Verdict, string) {
	c, v, why := refused(ctx, d)
	if c != nil && c.Status == devicebridge.Threw {
		return compare.Fail, "an exception left diopiCat instead of an error code: " + c.Reason
	}
	return v, why
}

func refusalText(ctx context.Context, d Device, info devicebridge.Info) (compare.Verdict, string) {
	if !info.LastError {
		return compare.Fail, "diopiGetLastErrorString is absent"
	}
	c, v, why := refused(ctx, d)
	if c == nil {
		return v, why
	}
	// The reason ends with the library's text after "(code): ".
	if _, text, ok := strings.Cut(c.Reason, "): "); c.Status == devicebridge.Failed && (!ok || text == "") {
		return compare.Fail, "diopiGetLastErrorString says nothing after an error: " + c.Reason
	}
	return compare.Pass, ""
}

func afterRefusal(ctx context.Context, d Device, _ devicebridge.Info) (compare.Verdict, string) {
	if c, v, why := refused(ctx, d); c == nil {
		return v, why
	}
	return copies(ctx, d, tensor.Float32)
}

// steps is how many products the kit's test of streams chains.
const steps = 10

// chain multiplies a matrix with another again and again without waiting and
// compares with the same in float64.
func chain(ctx context.Context, d Device, seed int) (compare.Verdict, string) {
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
	if v != compare.Pass {
		return v, why
	}
	got, ok := res.Tensor(a)
	if !ok {
		return compare.Error, "the last product was not given back"
	}
	scale := 0.0
	for _, e := range x {
		scale = max(scale, math.Abs(e))
	}
	for i, e := range tensor.Data[float64](got) {
		if !(math.Abs(e-x[i]) <= 1e-2*scale) {
			return compare.Fail,
				fmt.Sprintf("element %d of %d chained products is %g, want %g: calls on one stream do not run one "+
					"after the other", i, steps, e, x[i])
		}
	}
	return compare.Pass, ""
}

// waves are n numbers of about the size amplitude.
func waves(n, seed int, amplitude float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = amplitude * math.Sin(float64(i*i%1009+seed*37))
	}
	return v
}

func streamOrder(ctx context.Context, d Device, _ devicebridge.Info) (compare.Verdict, string) {
	return chain(ctx, d, 0)
}

func twoStreams(ctx context.Context, d Device, _ devicebridge.Info) (v compare.Verdict, why string) {
	var other sync.WaitGroup
	var v2 compare.Verdict
	var why2 string
	other.Go(func() { v2, why2 = chain(ctx, d, 2) })
	v, why = chain(ctx, d, 5)
	other.Wait()
	if v == compare.Pass {
		return v2, why2
	}
	return v, why
}

// draws are the numbers of diopiUniformInp, several calls one after the other,
// from a generator in this state.
func draws(ctx context.Context, d Device, seed uint64, calls int) ([][]float64, compare.Verdict, string) {
	gen, p := &diopi.Generator{Seed: seed}, &diopi.Plan{}
	var outs []*diopi.Tensor
	for range calls {
		t := &diopi.Tensor{Role: "inout", DType: tensor.Float32, Shape: []int{1000}, Value: tensor.New(tensor.Float32,
			[]int{1000}, make([]float64, 1000))}
		outs = append(outs, t)
		p.Calls = append(p.Calls, &diopi.Call{Phase: diopi.InPlace, Function: "diopiUniformInp",
			Args: map[string]diopi.Arg{"inout": t, "from": 0.0, "to": 1.0, "generator": gen}})
	}
	res, v, why := carryOut(ctx, d, p)
	if v != compare.Pass {
		return nil, v, why
	}
	var all [][]float64
	for _, t := range outs {
		got, ok := res.Tensor(t)
		if !ok {
			return nil, compare.Error, "the numbers drawn were not given back"
		}
		all = append(all, tensor.Data[float64](got))
	}
	return all, compare.Pass, ""
}

func generatorRepeats(ctx context.Context, d Device, _ devicebridge.Info) (compare.Verdict, string) {
	return twoDraws(ctx, d, 7, 7, func(same bool) string {
		if !same {
			return "the same seed and offset gave other numbers the second time"
		}
		return ""
	})
}

func generatorSeeds(ctx context.Context, d Device, _ devicebridge.Info) (compare.Verdict, string) {
	return twoDraws(ctx, d, 7, 8, func(same bool) string {
		if same {
			return "seeds 7 and 8 gave the same numbers"
		}
		return ""
	})
}

func twoDraws(ctx context.Context, d Device, first, second uint64, wrong func(same bool) string) (compare.Verdict,
	string) {
	a, v, why := draws(ctx, d, first, 1)
	if v != compare.Pass {
		return v, why
	}
	b, v, why := draws(ctx, d, second, 1)
	if v != compare.Pass {
		return v, why
	}
	if why := wrong(slices.Equal(a[0], b[0])); why != "" {
		return compare.Fail, "diopiUniformInp: " + why
	}
	return compare.Pass, ""
}

func generatorAdvances(ctx context.Context, d Device, _ devicebridge.Info) (compare.Verdict, string) {
	a, v, why := draws(ctx, d, 7, 2)
	if v != compare.Pass {
		return v, why
	}
	if slices.Equal(a[0], a[1]) {
		return compare.Fail,
			"diopiUniformInp: two calls with one generator gave the same numbers: its state does not advance"
	}
	return compare.Pass, ""
}

// copies sends numbers to the device, copies them there and fetches them.
func copies(ctx context.Context, d Device, dt tensor.DType) (compare.Verdict, string) {
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
	res, verdict,
		why := carryOut(ctx, d,
		&diopi.Plan{Calls: []*diopi.Call{{Phase: diopi.Forward, Function: "diopiCopyInp",
			Args: map[string]diopi.Arg{"src": src, "dest": dest}}}})
	if verdict != compare.Pass {
		return verdict, why
	}
	got, ok := res.Tensor(dest)
	if !ok {
		return compare.Error, "the copy was not given back"
	}
	for i, x := range tensor.Data[int64](got) {
		if x != v[i] {
			return compare.Fail, fmt.Sprintf("element %d of a copied %s tensor is %d, want %d", i, dt, x, v[i])
		}
	}
	if len(res.Findings) > 0 {
		return compare.Fail, "diopiCopyInp: " + res.Findings[0].String()
	}
	return compare.Pass, ""
}
