package causes

import (
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// variances are what is known of those that a call computes: of the elements of a group each.
type variances struct {
	group []int     // of each element of the operand
	n     []float64 // how many elements a group has
	mean  []float64
	vari  []float64 // divided by n
}

// cancelled are variances, and what is made of them, that are a difference of two large float32 numbers: the mean of
// squares less the square of the mean. How such numbers were rounded depends on the order of the sum, which is not
// known. But their difference is a multiple of the space between them, and nothing else is: each group shows that with
// as many bits as lie between that space and the last bit of the result.
func (c *Search) cancelled(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		got, want := c.wrongResult(fails)
		if got == nil || got.DType.Size() < tensor.Float32.Size() {
			return
		}
		target := fails[slices.IndexFunc(fails, func(w Wrong) bool { return w.Forward() })].Target
		all := c.operands()
		if len(all) == 0 {
			return
		}
		var made *tensor.Tensor
		bits, text := 0.0, ""
		_ = c.Guard(func() error { // what cannot be read shows nothing
			c.Work.Elements(4 * all[0].Tensor.Numel())
			made, bits, text = c.cancelledOf(all[0].Tensor, got, want) // the first operand is what is normalised
			return nil
		})
		if made == nil || bits < Required(c.looked+2) {
			return
		}
		yield(Mistake{Text: text, Rounds: true, OnlyHere: true, Known: true,
			Make: c.altering(func(of string, t *tensor.Tensor) *tensor.Tensor {
				if of != target || !slices.Equal(t.Shape, made.Shape) {
					return t
				}
				return made
			})})
	}
}

const cancels = "the variance is the mean of squares less the square of the mean, which cancels in float32"
const cancelsSums = "the variance is made of the sum of squares less n times the square of the mean, which cancels " +
	"in float32"

// cancelledOf is a result with the variances next to the recorded ones that are such differences, with the bits by
// which they are; nil if they are none.
func (c *Search) cancelledOf(x, got, want *tensor.Tensor) (made *tensor.Tensor, bits float64, text string) {
	v := elements(x)
	s, read := c.spreads(x, v, got, want)
	if s == nil {
		return nil, 0, ""
	}
	recorded := read.variances(s, elements(got), elements(want))
	if recorded == nil {
		return nil, 0, ""
	}
	for _, form := range []struct {
		text string
		sums bool
	}{{cancels, false}, {cancelsSums, true}} {
		next, hits, rows, sum := make([]float64, len(recorded)), 0, 0, 0.0
		for i, r := range recorded {
			next[i] = r
			if math.IsNaN(r) || math.IsInf(r, 0) {
				continue
			}
			times := 1.0
			if form.sums {
				times = s.n[i]
			}
			space := tensor.Float32.ULP(math.Nextafter(times*s.mean[i]*s.mean[i]*(1-1e-6), 0))
			k := r * times / space
			off := math.Abs(k - s.vari[i]*times/space)
			near := math.Abs(k) * read.precision(s, i)
			if near > 0.1 || space == 0 || off < 0.5 || math.Round(k) == 0 {
				continue // it shows nothing
			}
			rows++
			if math.Abs(k-math.Round(k)) <= near && off <= s.n[i]+16 {
				hits++
				sum -= math.Log2(2 * near)
			}
			next[i] = math.Round(k) * space / times
		}
		if rows < 2 || 16*(rows-hits) > rows || sum <= bits {
			continue
		}
		made, bits, text = read.with(s, next, elements(got), want), sum, form.text
	}
	return made, bits, text
}

// A spreadReader reads the variances of groups from a result, and makes a result of other ones.
type spreadReader struct {
	precision func(s *variances, g int) float64 // relative, of what is read of a group
	variances func(s *variances, got, due []float64) []float64
	with      func(s *variances, vari, got []float64, want *tensor.Tensor) *tensor.Tensor
}

// spreads are the variances that a call computes of x, whose elements are v, and how they are read from a result; nil
// if it computes none. The due result tells whether it is variances or their roots, and the arguments of a
// normalisation tell which elements it takes together.
func (c *Search) spreads(x *tensor.Tensor, v []float64, got, want *tensor.Tensor) (*variances, *spreadReader) {
	args := map[string]value.Value{}
	for _, a := range c.Bound.Arguments() {
		args[a.Name] = a.Python()
	}
	if !slices.Equal(x.Shape, got.Shape) {
		s := spreadOf(v, groupsAlong(x.Shape, reducedDims(args["dim"], x.Dim())))
		for _, root := range []bool{false, true} {
			if len(s.n) == got.Numel() && s.isMultipleOf(elements(want), root) {
				return s, ofDeviation(root)
			}
		}
		return nil, nil
	}
	eps, ok := args["eps"].(float64)
	if !ok || x.Dim() < 2 {
		return nil, nil
	}
	channels := x.Shape[1]
	inner := tensor.Numel(x.Shape[2:])
	shape, ofShape := args["normalized_shape"].(*value.Sequence)
	groups, ofGroups := args["num_groups"].(int64)
	ofInstances, _ := args["use_input_stats"].(bool)
	ofBatch, _ := args["training"].(bool)
	var group func(i int) int
	switch {
	case ofShape:
		width := tensor.Numel(x.Shape[max(0, x.Dim()-len(shape.Items)):])
		group = func(i int) int { return i / width }
	case ofGroups && groups > 0 && channels%int(groups) == 0:
		width := channels / int(groups) * inner
		group = func(i int) int { return i / width }
	case ofInstances:
		group = func(i int) int { return i / inner }
	case ofBatch:
		group = func(i int) int { return i / inner % channels }
	default:
		return nil, nil
	}
	return spreadOf(v, group), c.ofNormalised(eps)
}

// isMultipleOf reports whether what is due are the variances, or their roots, times one number.
func (s *variances) isMultipleOf(due []float64, root bool) bool {
	const near = 1e-3 // far from what another statistic of two groups gives
	first := math.NaN()
	for g, y := range due {
		k := y / s.vari[g]
		if root {
			k *= y
		}
		if math.IsNaN(first) {
			first = k
		}
		if s.vari[g] > 0 && !(math.Abs(k/first-1) < near) {
			return false
		}
	}
	return len(due) > 1
}

// spreadOf are means and variances of groups of elements.
func spreadOf(v []float64, group func(i int) int) *variances {
	s := &variances{group: make([]int, len(v))}
	for i := range v {
		g := group(i)
		for len(s.n) <= g {
			s.n, s.mean, s.vari = append(s.n, 0), append(s.mean, 0), append(s.vari, 0)
		}
		s.group[i] = g
		s.n[g]++
		s.mean[g] += v[i]
	}
	for g := range s.n {
		s.mean[g] /= s.n[g]
	}
	for i, g := range s.group {
		s.vari[g] += (v[i] - s.mean[g]) * (v[i] - s.mean[g]) / s.n[g]
	}
	return s
}

// reducedDims are the dimensions that an argument names, all of them by default.
func reducedDims(dim value.Value, n int) (out []int) {
	switch d := dim.(type) {
	case int64:
		return []int{(int(d) + n) % max(n, 1)}
	case *value.Sequence:
		for _, v := range d.Items {
			if k, ok := v.(int64); ok {
				out = append(out, (int(k)+n)%max(n, 1))
			}
		}
	}
	if out == nil {
		return upTo(0, n)
	}
	return out
}

// groupsAlong tells of each element which of those of a reduction over dimensions it is part of.
func groupsAlong(shape, dims []int) func(i int) int {
	return func(i int) int {
		at, size := 0, 1
		for d := len(shape) - 1; d >= 0; d-- {
			if !slices.Contains(dims, d) {
				at += i % shape[d] * size
				size *= shape[d]
			}
			i /= shape[d]
		}
		return at
	}
}

// ofDeviation reads variances from themselves, or from their roots, whatever they are divided by.
func ofDeviation(root bool) *spreadReader {
	power := 1.0
	if root {
		power = 2
	}
	return &spreadReader{
		precision: func(*variances, int) float64 { return 4 * power * tensor.Float32.Eps() },
		variances: func(s *variances, got, due []float64) []float64 {
			out := make([]float64, len(s.n))
			for g := range out {
				out[g] = math.NaN()
				if k := math.Pow(due[g], power) / s.vari[g]; k > 0 {
					out[g] = math.Pow(got[g], power) / k
				}
			}
			return out
		},
		with: func(s *variances, vari, got []float64, want *tensor.Tensor) *tensor.Tensor {
			due, out := elements(want), make([]float64, len(got))
			for g := range out {
				if out[g] = got[g]; finite(vari[g]) {
					out[g] = due[g] * math.Pow(vari[g]/s.vari[g], 1/power)
				}
			}
			return tensor.New(want.DType, want.Shape, out)
		}}
}

// ofNormalised reads variances from normalised elements: what is beyond the bias is divided by the root of the variance
// and eps.
func (c *Search) ofNormalised(eps float64) *spreadReader {
	var beside []float64
	for _, a := range c.operands() {
		if a.Name != "weight" {
			continue
		}
		way, err := c.one(a, func() *tensor.Tensor { return tensor.Full(a.Tensor.DType, a.Tensor.Shape, 0.0) })()
		if err != nil || way.Call == nil {
			continue
		}
		if f, err := way.Call.Forward(); err == nil && len(f.Outs) > 0 {
			beside = elements(f.Outs[0]) // the bias
		}
	}
	return &spreadReader{
		precision: func(s *variances, g int) float64 { // the mean is rounded, too
			return 8 * tensor.Float32.Eps() * (1 + math.Abs(s.mean[g])/math.Sqrt(s.vari[g]*s.n[g]))
		},
		variances: func(s *variances, got, due []float64) []float64 {
			over, under, out := make([]float64, len(s.n)), make([]float64, len(s.n)), make([]float64, len(s.n))
			for i, g := range s.group {
				b := 0.0
				if beside != nil {
					b = beside[i]
				}
				over[g] += (got[i] - b) * (due[i] - b)
				under[g] += (due[i] - b) * (due[i] - b)
			}
			for g := range out {
				k := over[g] / under[g]
				out[g] = (s.vari[g]+eps)/(k*k) - eps
			}
			return out
		},
		with: func(s *variances, vari, got []float64, want *tensor.Tensor) *tensor.Tensor {
			due, out := elements(want), make([]float64, len(got))
			for i, g := range s.group {
				b := 0.0
				if beside != nil {
					b = beside[i]
				}
				if out[i] = got[i]; finite(vari[g]) {
					out[i] = b + (due[i]-b)*math.Sqrt((s.vari[g]+eps)/(vari[g]+eps))
				}
			}
			return tensor.New(want.DType, want.Shape, out)
		}}
}
