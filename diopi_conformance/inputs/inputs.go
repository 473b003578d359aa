// Package inputs draws the arguments of cases of DIOPI's conformance test, by
// the generating functions and policies that their configuration names.
//
// The seed and the name of a case give it a stream of its own. So neither order nor parallelism
// changes a value. Distributions are the kit's; the numbers are not, since the kit never seeds
// its generator.
package inputs

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// An Input is the arguments of a case in the kit's form.
type Input struct {
	Kwargs       *value.Dict // tensors (array, list of arrays, or None) in order of the case's args, then parameters
	RequiresGrad *value.Dict // argument name → [True]
	Item         *value.Dict // the case's item; lists have got their tensors_num
}

// Draw makes the arguments of a case.
func Draw(c *configs.Case, seed uint64) (*Input, error) {
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	g := &generator{rand.New(rand.NewPCG(seed, h.Sum64()))}
	own := c.Clone()
	in := &Input{Kwargs: &value.Dict{}, RequiresGrad: &value.Dict{}, Item: own.Item}
	put := func(d *value.Dict, key string, v value.Value) {
		for i := range d.Items {
			if d.Items[i].Key == key {
				d.Items[i].Value = v
				return
			}
		}
		d.Items = append(d.Items, value.Item{Key: key, Value: v})
	}
	for _, a := range own.Args() {
		v, err := g.argument(a)
		if err != nil {
			return nil, fmt.Errorf("case %s: argument %s: %w", c.Name, a.Name, err)
		}
		put(in.Kwargs, a.Name, v)
		if a.RequiresGrad && v != nil {
			put(in.RequiresGrad, a.Name, a.GradList)
		}
	}
	for _, it := range own.Para().Items {
		put(in.Kwargs, it.Key.(string), it.Value)
	}
	return in, nil
}

// More of either is a mistake in the configuration.
const (
	maxElements = 1 << 40 // of a tensor
	maxTensors  = 1 << 16 // of a list
)

// A generator draws the arguments of one case.
type generator struct{ *rand.Rand }

// argument draws one argument.
func (g *generator) argument(a configs.Arg) (value.Value, error) {
	if a.HasShape && a.Shape == nil || a.HasValue && a.Value == nil {
		return nil, nil
	}
	if a.GenPolicy == "gen_tensor_by_value" {
		if !a.HasValue {
			return nil, fmt.Errorf("gen_policy %s needs a value", a.GenPolicy)
		}
		return fromValue(a.Value, a.DType)
	}
	if !a.HasShape {
		return nil, fmt.Errorf("gen_policy %s needs a shape", a.GenPolicy)
	}
	draw, err := newDistribution(a)
	if err != nil {
		return nil, err
	}
	switch a.GenPolicy {
	case "default":
		return g.array(draw, a, a.Shape)
	case "gen_tensor_list":
		n, err := g.length(a)
		if err != nil {
			return nil, err
		}
		a.Dict.Items = append(a.Dict.Items, value.Item{Key: "tensors_num", Value: int64(n)})
		return g.list(draw, a, slices.Repeat([]value.Value{a.Shape}, n))
	case "gen_tensor_list_diff_shape":
		shapes, ok := a.Shape.(*value.Sequence)
		if !ok {
			return nil, fmt.Errorf("shape %s: want a list of shapes", value.Repr(a.Shape))
		}
		return g.list(draw, a, shapes.Items)
	}
	return nil, fmt.Errorf("gen_policy %q is not known", a.GenPolicy)
}

// length draws the number of tensors of a list.
func (g *generator) length(a configs.Arg) (int, error) {
	if len(a.NumRange) != 2 {
		return 0, fmt.Errorf("gen_num_range %v: want two numbers", a.NumRange)
	}
	n := a.NumRange[0]
	if span := a.NumRange[1] - n; span > 0 {
		n += g.IntN(span)
	}
	if n < 0 || n > maxTensors {
		return 0, fmt.Errorf("gen_num_range %v: want at most %d tensors", a.NumRange, maxTensors)
	}
	return n, nil
}

// list draws an array of each shape.
func (g *generator) list(d distribution, a configs.Arg, shapes []value.Value) (value.Value, error) {
	list := value.NewList()
	for _, s := range shapes {
		x, err := g.array(d, a, s)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, x)
	}
	return list, nil
}

// array draws one array.
func (g *generator) array(d distribution, a configs.Arg, shape value.Value) (*tensor.Tensor, error) {
	dims, err := shapeOf(shape)
	if err != nil {
		return nil, err
	}
	// The numbers drawn, and their bytes.
	if err := quota.CheckMemory(16 * int64(tensor.Numel(dims))); err != nil {
		return nil, fmt.Errorf("shape %s: %w", tensor.ShapeString(dims), err)
	}
	x, err := d.draw(g, a.DType, dims)
	if err != nil {
		return nil, err
	}
	if a.NoContiguous {
		order := make([]int, len(dims))
		for i := range order {
			order[i] = len(dims) - 1 - i
		}
		x = x.Permute(order...)
	}
	x.Device = "numpy"
	return x, nil
}

func shapeOf(v value.Value) ([]int, error) {
	s, ok := v.(*value.Sequence)
	if !ok {
		if n, isInt := v.(int64); isInt && n >= 0 && n <= maxElements { // (3) is 3 in Python
			return []int{int(n)}, nil
		}
		return nil, fmt.Errorf("shape %s: want a tuple of sizes", value.Repr(v))
	}
	dims := make([]int, len(s.Items))
	elements := int64(1)
	for i, it := range s.Items {
		n, ok := it.(int64)
		if !ok || n < 0 {
			return nil, fmt.Errorf("shape %s: want sizes", value.Repr(v))
		}
		if dims[i] = int(n); n > maxElements/elements {
			return nil, fmt.Errorf("shape %s: too many elements", value.Repr(v))
		}
		elements = max(elements*n, 1)
	}
	return dims, nil
}

// A distribution is a gen_fn with its arguments.
type distribution struct {
	name            string
	low, high       float64
	density         float64
	sparse, limited bool
}

func newDistribution(a configs.Arg) (distribution, error) {
	d := distribution{low: 0, high: 10, density: 0.2, sparse: a.Sparse}
	name := a.GenFn
	if spec, ok := a.GenFn.(*value.Dict); ok {
		for _, it := range spec.Items {
			x, isNumber := number(it.Value)
			switch {
			case it.Key == "fn":
				name = it.Value
				continue
			case !isNumber:
				return d, fmt.Errorf("gen_fn %v=%s: want a number", it.Key, value.Repr(it.Value))
			case it.Key == "low":
				d.low, d.limited = x, true
			case it.Key == "high":
				d.high, d.limited = x, true
			case it.Key == "density":
				d.density = x
			default:
				return d, fmt.Errorf("gen_fn argument %v is not known", it.Key)
			}
		}
	}
	s, _ := name.(string)
	d.name = strings.TrimPrefix(s, "Genfunc.")
	if base, ok := strings.CutSuffix(d.name, "_sparse"); ok {
		d.name, d.sparse = base, true
	}
	if d.sparse && d.name == "uniform" && !d.limited {
		d.high = 1
	}
	return d, nil
}

func number(v value.Value) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
