package checkpoint

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A sharding says how a value that SGLang's dumper wrote lies on the ranks of a job.
//
// Source: sgl-project/sglang, python/sglang/srt/debug_utils/comparator, dims_spec and
// aligner/unsharder.
type sharding struct {
	dims  []shardedDim // in the order of the tensor's; nil if the recording does not say
	place map[string]axisPlace
}

// A shardedDim is a dimension and the axes of ranks that it is split over, the innermost
// last.
type shardedDim struct {
	text string
	axes []shardedAxis
}

// A shardedAxis is an axis of ranks: tp, cp, ep or sp.
type shardedAxis struct {
	name    string
	zigzag  bool // each rank holds a part from the front and its mirror image from the back
	partial bool // each rank holds a summand
}

// An axisPlace is where on an axis a rank is.
type axisPlace struct{ rank, size int }

// shardedAxes are the axes that parts are joined along. Ranks of others (pp, dp) hold
// values of their own.
var shardedAxes = []string{"tp", "cp", "ep", "sp"}

var (
	dimToken = lazyregexp.New(`^(?:\([^()]*\)|[a-zA-Z_]\w*|1)(?:\[([^\[\]]*)\])?`)
	axisSpec = lazyregexp.New(`^(tp|cp|ep|sp)(?::([a-z+]*))?$`)
)

// parseDims reads a text such as "t (heads*d)[tp] # remark".
func parseDims(text string) ([]shardedDim, error) {
	rest, _, _ := strings.Cut(text, "#")
	dims := []shardedDim{}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		m := dimToken().FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("dims %q: %q is not a dimension", text, rest)
		}
		rest = rest[len(m[0]):]
		d := shardedDim{text: m[0]}
		for spec := range strings.SplitSeq(m[1], ",") {
			if spec = strings.TrimSpace(spec); spec == "" {
				continue
			}
			a := axisSpec().FindStringSubmatch(spec)
			if a == nil {
				return nil, fmt.Errorf("dims %q: %q is not an axis of ranks", text, spec)
			}
			axis := shardedAxis{name: a[1]}
			for q := range strings.SplitSeq(a[2], "+") {
				switch q {
				case "", "sharded", "natural":
				case "zigzag":
					axis.zigzag = true
				case "partial":
					axis.partial = true
				default:
					return nil, fmt.Errorf("dims %q: %q is not known of an axis", text, q)
				}
			}
			d.axes = append(d.axes, axis)
		}
		dims = append(dims, d)
	}
	return dims, nil
}

// addDumped adds the value of a file of SGLang's dumper.
func (s *Set) addDumped(e *capture.Entry, root value.Value, rel string) error {
	d, ok := root.(*value.Dict)
	if !ok {
		return fmt.Errorf("%s: not a dict", rel)
	}
	v, ok := d.Get("value")
	if !ok {
		return fmt.Errorf("%s: the key value is missing", rel)
	}
	n := &Named{Name: e.Call, File: rel, Value: v, Bare: true, group: filepath.Dir(rel), rank: max(e.Rank, 0),
		step: e.Step, index: e.Order, sharding: &sharding{place: map[string]axisPlace{}}}
	if e.Step >= 0 {
		n.Name = fmt.Sprintf("step%d %s", e.Step, e.Call)
	}
	m, _ := d.Get("meta")
	meta, ok := m.(*value.Dict)
	if !ok {
		meta = &value.Dict{}
	}
	if text, ok := textOf(meta, "dims"); ok {
		dims, err := parseDims(text)
		if err != nil {
			return fmt.Errorf("%s: %w", rel, err)
		}
		n.sharding.dims = dims
	}
	infos := []*value.Dict{meta}
	for _, key := range []string{"sglang_parallel_info", "megatron_parallel_info"} {
		if v, _ := meta.Get(key); v != nil {
			if info, ok := v.(*value.Dict); ok {
				infos = append(infos, info)
			}
		}
	}
	for _, info := range infos {
		for _, axis := range append([]string{"pp", "dp"}, shardedAxes...) {
			rank, hasRank := intOf(info, axis+"_rank")
			size, hasSize := intOf(info, axis+"_size")
			if !hasRank || !hasSize || size <= 1 {
				continue
			}
			if rank < 0 || rank >= size {
				return fmt.Errorf("%s: %s rank %d of %d", rel, axis, rank, size)
			}
			switch axis {
			case "dp": // other requests
				n.Name += fmt.Sprintf(" dp%d", rank)
			case "pp": // other layers
				n.group += fmt.Sprintf(" pp%d", rank)
			default:
				n.sharding.place[axis] = axisPlace{rank, size}
			}
		}
	}
	s.Values = append(s.Values, n)
	return nil
}

func textOf(d *value.Dict, key string) (string, bool) {
	v, _ := d.Get(key)
	text, ok := v.(string)
	return text, ok
}

func intOf(d *value.Dict, key string) (int, bool) {
	v, _ := d.Get(key)
	n, ok := v.(int64)
	return int(n), ok
}

// orderDumped puts values of a dumper in the order in which they were written, and
// numbers those that one rank wrote more than once in a step.
func (s *Set) orderDumped() {
	slices.SortStableFunc(s.Values, func(a, b *Named) int {
		if a.sharding == nil || b.sharding == nil { // other values first, as they were
			return count(a.sharding != nil) - count(b.sharding != nil)
		}
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.rank, b.rank), cmp.Compare(a.index, b.index))
	})
	type written struct {
		group, name string
		rank        int
	}
	times := map[written]int{}
	for _, n := range s.Values {
		if n.sharding == nil {
			continue
		}
		key := written{n.group, n.Name, n.rank}
		if times[key]++; times[key] > 1 {
			n.Name += fmt.Sprintf(" #%d", times[key])
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A placed tensor has its place on the axes of ranks that are not joined yet.
type placed struct {
	*tensor.Tensor
	place map[string]int
}

// joinDims joins parts as their recording says: along each axis that a dimension is split
// over, the innermost first; ranks of any other axis must hold the same.
func joinDims(parts []*Named, ts []*tensor.Tensor) (*tensor.Tensor, error) {
	first := parts[0].sharding
	if first == nil {
		return nil, fmt.Errorf("%s does not say how ranks share dimensions", parts[0].File)
	}
	if first.dims == nil {
		if err := same(ts); err != nil {
			return nil, fmt.Errorf("no dims were recorded, and %w", err)
		}
		return ts[0], nil
	}
	if len(first.dims) != ts[0].Dim() {
		return nil, fmt.Errorf("%d dims were recorded of %s", len(first.dims), ts[0].Meta())
	}
	shards := make([]placed, len(parts))
	for i, p := range parts {
		shards[i] = placed{ts[i], map[string]int{}}
		for axis, at := range p.sharding.place {
			if at.size != first.place[axis].size {
				return nil, fmt.Errorf("%s has %d ranks of %s, %s %d", parts[0].File, first.place[axis].size, axis,
					p.File, at.size)
			}
			shards[i].place[axis] = at.rank
		}
	}
	joined := map[string]bool{}
	for d, dim := range first.dims {
		for _, axis := range slices.Backward(dim.axes) {
			size := first.place[axis.name].size
			if size == 0 { // one rank alone
				continue
			}
			if joined[axis.name] {
				return nil, fmt.Errorf("axis %s splits two dimensions", axis.name)
			}
			joined[axis.name] = true
			var err error
			if shards, err = along(shards, axis.name, func(parts []*tensor.Tensor) (*tensor.Tensor, error) {
				if len(parts) != size {
					return nil, fmt.Errorf("%d of %d ranks of %s are there", len(parts), size, axis.name)
				}
				return axis.join(parts, d)
			}); err != nil {
				return nil, fmt.Errorf("dimension %s: %w", dim.text, err)
			}
		}
	}
	rest := make([]*tensor.Tensor, len(shards))
	for i, s := range shards {
		rest[i] = s.Tensor
	}
	return rest[0], same(rest)
}

// along joins shards that differ in their place on one axis alone, in its order.
func along(shards []placed, axis string, join func([]*tensor.Tensor) (*tensor.Tensor, error)) ([]placed, error) {
	groups := map[string][]placed{}
	var order []string
	for _, s := range shards {
		key := ""
		for _, other := range shardedAxes {
			if other != axis {
				key += fmt.Sprint(s.place[other], " ")
			}
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], s)
	}
	var out []placed
	for _, key := range order {
		group := groups[key]
		slices.SortStableFunc(group, func(a, b placed) int { return a.place[axis] - b.place[axis] })
		parts := make([]*tensor.Tensor, len(group))
		for i, s := range group {
			parts[i] = s.Tensor
		}
		t, err := join(parts)
		if err != nil {
			return nil, err
		}
		out = append(out, placed{t, group[0].place})
	}
	return out, nil
}

// join makes one tensor of the parts along an axis.
func (a shardedAxis) join(parts []*tensor.Tensor, dim int) (*tensor.Tensor, error) {
	switch {
	case a.partial:
		return summed(parts)
	case !a.zigzag:
		return concatenate(parts, dim, nil)
	}
	var front, back []*tensor.Tensor
	for _, t := range parts {
		n := t.Shape[dim]
		if n%2 != 0 {
			return nil, fmt.Errorf("%d of %s do not divide into halves", n, t.Meta())
		}
		front, back = append(front, t.Slice(dim, 0, n/2, 1)), append(back, t.Slice(dim, n/2, n/2, 1))
	}
	slices.Reverse(back)
	return concatenate(append(front, back...), dim, nil)
}

// summed is the sum of tensors, in float64, rounded once.
func summed(parts []*tensor.Tensor) (*tensor.Tensor, error) {
	first := parts[0]
	if !first.DType.IsFloat() {
		return nil, fmt.Errorf("parts of %s are not summed", first.Meta())
	}
	sum := tensor.Make[float64](first.Numel())
	for _, t := range parts {
		if !slices.Equal(t.Shape, first.Shape) {
			return nil, fmt.Errorf("ranks hold %s and %s", first.Meta(), t.Meta())
		}
		if _, err := bytesOf(t); err != nil {
			return nil, err
		}
		for i, x := range tensor.Data[float64](t) {
			sum[i] += x
		}
	}
	return tensor.New(first.DType, first.Shape, sum).Rounded(), nil
}
