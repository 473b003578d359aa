package conformance

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// random checks the results of a random function by its distribution.
func (r *run) random(in *Input) {
	var out value.Value
	if len(r.plan.Outputs) > 0 {
		out = r.value(r.plan.Outputs[0])
	}
	if !r.drawn("forward", in, out) || r.plan.InPlace == nil {
		return
	}
	r.drawn("inplace", in, r.value(r.plan.InPlace))
}

// drawn checks a result of a random function; false where there is nothing to check.
func (r *run) drawn(phase string, in *Input, out value.Value) bool {
	check, ok := distributions[r.function]
	if !ok {
		r.add(phase, verdict.Pass, "only has to run")
		return false
	}
	reason := "no result came back"
	if x, ok := out.(*tensor.Tensor); ok {
		reason = check(in.Kwargs, x)
	}
	v := verdict.Pass
	if reason != "" {
		v = verdict.Fail
	}
	r.add(phase, v, reason)
	return true
}

// distributions are the kit's checks of random functions: they return why the
// elements cannot be of the distribution, or "".
var distributions = map[string]func(kwargs *value.Dict, x *tensor.Tensor) string{
	"dropout": dropout, "dropout2d": dropout,
	"randperm":  randperm,
	"uniform":   uniform,
	"bernoulli": bernoulli,
	"random":    randomIntegers,
	"normal":    normal, "normal_": normal, "randn": normal,
	"multinomial": multinomial,
}

// few is the number of elements up to which means prove nothing.
const few = 100

func float(kwargs *value.Dict, name string, otherwise float64) float64 {
	switch v := get(kwargs, name).(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	case bool: // Python's True is 1
		if v {
			return 1
		}
		return 0
	}
	return otherwise
}

func mean(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s / float64(len(v))
}

// dropout: what is kept is divided by 1-p, about a share of 1-p of it; outside
// of training nothing changes.
func dropout(kwargs *value.Dict, x *tensor.Tensor) string {
	in, ok := get(kwargs, "input").(*tensor.Tensor)
	if !ok || in.Numel() != x.Numel() {
		return "the result has not as many elements as the input"
	}
	p := float(kwargs, "p", 0.5)
	if t, given := kwargs.Get("training"); given && !configs.Truth(t) {
		p = 0
	}
	rtol, atol := 1e-4, 1e-5
	if in.DType == tensor.Float16 {
		rtol, atol = 5e-2, 1e-2
	}
	got, from := tensor.Data[float64](x), tensor.Data[float64](in)
	kept, nonzero := 0, 0
	for i, v := range got {
		if from[i] != 0 {
			nonzero++
		}
		if v == 0 && p > 0 {
			continue
		}
		if from[i] != 0 {
			kept++
		}
		if want := from[i] / (1 - p); math.Abs(v-want) > atol+rtol*math.Abs(want) {
			return fmt.Sprintf("element %d is %g, want 0 or %g", i, v, want)
		}
	}
	if share := float64(kept) / float64(nonzero); nonzero > few && math.Abs(share-(1-p)) > 0.05 {
		return fmt.Sprintf("%.3f of the elements are kept, want about %.3f", share, 1-p)
	}
	return ""
}

func randperm(kwargs *value.Dict, x *tensor.Tensor) string {
	n := int(float(kwargs, "n", 0))
	v := slices.Clone(tensor.Data[int64](x))
	if len(v) != n {
		return fmt.Sprintf("%d elements, want %d", len(v), n)
	}
	if n > 10 && slices.IsSorted(v) {
		return "the numbers are in order"
	}
	slices.Sort(v)
	for i, k := range v {
		if k != int64(i) {
			return fmt.Sprintf("the numbers are no permutation of 0 to %d", n-1)
		}
	}
	return ""
}

func uniform(kwargs *value.Dict, x *tensor.Tensor) string {
	lo, hi := float(kwargs, "start", 0), float(kwargs, "end", 1)
	v := tensor.Data[float64](x)
	for i, e := range v {
		if !(e >= lo-1e-5 && e <= hi+1e-5) {
			return fmt.Sprintf("element %d is %g, outside of %g to %g", i, e, lo, hi)
		}
	}
	if m := mean(v); len(v) > few && math.Abs(m-(lo+hi)/2) > 0.1 {
		return fmt.Sprintf("the mean is %g, want about %g", m, (lo+hi)/2)
	}
	return ""
}

func bernoulli(kwargs *value.Dict, x *tensor.Tensor) string {
	v := tensor.Data[float64](x)
	for i, e := range v {
		if e != 0 && e != 1 {
			return fmt.Sprintf("element %d is %g, want 0 or 1", i, e)
		}
	}
	want := float(kwargs, "p", math.NaN())
	if in, ok := get(kwargs, "input").(*tensor.Tensor); ok && want != want {
		want = mean(tensor.Data[float64](in))
	}
	if m := mean(v); len(v) > few && math.Abs(m-want) > 0.1 {
		return fmt.Sprintf("the mean is %g, want about %g", m, want)
	}
	return ""
}

func randomIntegers(kwargs *value.Dict, x *tensor.Tensor) string {
	lo, hi := float(kwargs, "start", 0), float(kwargs, "end", math.Inf(1))
	for i, e := range tensor.Data[float64](x) {
		if !(e >= lo && e <= hi-1) {
			return fmt.Sprintf("element %d is %g, outside of %g to %g", i, e, lo, hi-1)
		}
	}
	return ""
}

// normal compares the empirical distribution with the normal one by the
// Kolmogorov-Smirnov test, at a probability of 1e-4. Means and deviations that
// are tensors are taken out of each element first.
func normal(kwargs *value.Dict, x *tensor.Tensor) string {
	v := slices.Clone(tensor.Data[float64](x))
	at := func(name string, otherwise float64) func(i int) float64 {
		if t, ok := get(kwargs, name).(*tensor.Tensor); ok {
			if e, err := t.Expand(x.Shape...); err == nil {
				d := tensor.Data[float64](e)
				return func(i int) float64 { return d[i] }
			}
		}
		c := float(kwargs, name, otherwise)
		return func(int) float64 { return c }
	}
	mu, sigma := at("mean", 0), at("std", 1)
	u := v[:0]
	for i, e := range v {
		switch s := sigma(i); {
		case e != e:
			return fmt.Sprintf("element %d is NaN", i)
		case s != 0:
			u = append(u, (e-mu(i))/s)
		case e != mu(i):
			return fmt.Sprintf("element %d is %g, want the mean %g", i, e, mu(i))
		}
	}
	slices.Sort(u)
	n, d := float64(len(u)), 0.0
	for i, e := range u {
		f := 0.5 * math.Erfc(-e/math.Sqrt2)
		d = math.Max(d, math.Max(f-float64(i)/n, float64(i+1)/n-f))
	}
	// 2 exp(-2 n d^2) < 1e-4, the leading term of the limiting distribution.
	if limit := math.Sqrt(math.Log(2/1e-4) / 2 / n); len(u) > 0 && d > limit {
		return fmt.Sprintf("the distribution is off by %.4f, at most %.4f for a normal one", d, limit)
	}
	return ""
}

func multinomial(kwargs *value.Dict, x *tensor.Tensor) string {
	in, ok := get(kwargs, "input").(*tensor.Tensor)
	want := int(float(kwargs, "num_samples", 0))
	if !ok || x.Dim() == 0 || x.Shape[x.Dim()-1] != want {
		return fmt.Sprintf("shape %s, want %d samples", tensor.ShapeString(x.Shape), want)
	}
	classes := in.Shape[in.Dim()-1]
	v := tensor.Data[int64](x)
	for lo := 0; lo+want <= len(v) && want > 0; lo += want {
		seen := map[int64]bool{}
		for _, k := range v[lo : lo+want] {
			if k < 0 || k >= int64(classes) {
				return fmt.Sprintf("sample %d is none of %d classes", k, classes)
			}
			if seen[k] && !configs.Truth(get(kwargs, "replacement")) {
				return fmt.Sprintf("sample %d is drawn twice without replacement", k)
			}
			seen[k] = true
		}
	}
	return ""
}
