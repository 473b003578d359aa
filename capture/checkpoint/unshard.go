package checkpoint

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/tensor"
)

// A Join says how parts that ranks hold make one tensor.
type Join struct {
	rules []joinRule
}

// A joinRule joins values whose name matches a pattern.
type joinRule struct {
	pattern string // of path.Match; "" matches all
	dim     int    // -1: the one along which the parts make the other side's shape
	blocks  []int  // sizes, in proportion, of what each part holds one after the other; nil: one
	row     bool   // of a weight that is split by columns: a vector is the same everywhere
	dims    bool   // as SGLang's dumper recorded it
}

// ParseJoin reads rules: dim=N, column (dim=0), row (dim=1, vectors are the same on
// every rank), auto (the dimension that gives the other side's shape), qkv=N (each
// part holds a third of query, key and value; qkv=N:4,1,1 in these proportions), dims
// (as the dims that SGLang's dumper recorded say).
// PATTERN:RULE holds for names that match, the first that does decides.
func ParseJoin(rules []string) (*Join, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	j := &Join{}
	for _, text := range rules {
		pattern, spec := "", text
		if i := strings.LastIndexByte(beforeEquals(text), ':'); i >= 0 {
			pattern, spec = text[:i], text[i+1:]
			if _, err := path.Match(pattern, ""); err != nil {
				return nil, fmt.Errorf("%q is not a pattern", pattern)
			}
		}
		r, ok := parseRule(spec)
		if !ok {
			return nil, fmt.Errorf("rule %q: want dim=N, column, row, auto, dims, qkv=N or qkv=N:SIZES, perhaps after PATTERN and a colon",
				text)
		}
		r.pattern = pattern
		j.rules = append(j.rules, r)
	}
	return j, nil
}

// parseRule reads a rule without its pattern.
func parseRule(spec string) (r joinRule, ok bool) {
	what, number, _ := strings.Cut(spec, "=")
	var err error
	switch what {
	case "auto":
		r.dim = -1
		return r, true
	case "dims":
		r.dims = true
	case "column":
	case "row":
		r.dim, r.row = 1, true
	case "dim":
		r.dim, err = strconv.Atoi(number)
	case "qkv":
		dim, sizes, given := strings.Cut(number, ":")
		r.dim, err = strconv.Atoi(dim)
		r.blocks = []int{1, 1, 1}
		if given {
			r.blocks = parseSizes(sizes)
		}
		return r, err == nil && r.dim >= 0 && r.blocks != nil
	default:
		return r, false
	}
	return r, err == nil && r.dim >= 0
}

// parseSizes reads sizes with commas between, nil if they do not read.
func parseSizes(text string) (sizes []int) {
	for s := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1<<20 {
			return nil
		}
		sizes = append(sizes, n)
	}
	return sizes
}

// beforeEquals is what stands before the first equals sign: a colon after it belongs
// to a rule's sizes.
func beforeEquals(s string) string {
	before, _, _ := strings.Cut(s, "=")
	return before
}

// Unshard joins the parts that ranks hold of values of one name. shapeOf gives the
// shape of the other side's value of a name, nil if it has none: a part of that
// shape is whole already, and must be the same on every rank.
func (s *Set) Unshard(j *Join, shapeOf func(name string) []int) error {
	if j == nil {
		return nil
	}
	byGroup := map[[2]string][]*Named{}
	var order [][2]string
	for _, n := range s.Values {
		key := [2]string{n.group, n.Name}
		if byGroup[key] == nil {
			order = append(order, key)
		}
		byGroup[key] = append(byGroup[key], n)
	}
	var out []*Named
	for _, key := range order {
		parts := byGroup[key]
		slices.SortStableFunc(parts, func(a, b *Named) int { return a.rank - b.rank })
		whole := *parts[0]
		if r := j.rule(whole.Name); len(parts) > 1 || r != nil && r.dims {
			v, err := j.join(whole.Name, parts, shapeOf(whole.Name))
			if err != nil {
				s.Failures = append(s.Failures, Failure{whole.Name, fmt.Errorf("%s: %w", whole.Name, err)})
				continue
			}
			whole.Value = v
		}
		out = append(out, &whole)
	}
	s.Values = out
	return nil
}

// rule is the first that holds for a name, nil if none does.
func (j *Join) rule(name string) *joinRule {
	for i := range j.rules {
		if ok, _ := path.Match(j.rules[i].pattern, name); ok || j.rules[i].pattern == "" {
			return &j.rules[i]
		}
	}
	return nil
}

func (j *Join) join(name string, parts []*Named, want []int) (any, error) {
	var ts []*tensor.Tensor
	for _, p := range parts {
		t, ok := p.Value.(*tensor.Tensor)
		if !ok {
			return parts[0].Value, nil // numbers and names of a run
		}
		ts = append(ts, t)
	}
	for _, t := range ts {
		if t.DType != ts[0].DType || t.Dim() != ts[0].Dim() {
			return nil, fmt.Errorf("ranks hold %s and %s", ts[0].Meta(), t.Meta())
		}
	}
	r := j.rule(name)
	if r != nil && r.dims {
		return joinDims(parts, ts)
	}
	if r == nil || slices.Equal(ts[0].Shape, want) || r.row && ts[0].Dim() < 2 || ts[0].Dim() == 0 {
		return ts[0], same(ts)
	}
	dim := r.dim
	if dim < 0 {
		if dim = fitting(ts, want); dim < 0 {
			return nil, fmt.Errorf("no dimension of %d parts %s makes %s", len(ts), ts[0].Meta(),
				tensor.ShapeString(want))
		}
	}
	if dim >= ts[0].Dim() {
		return nil, fmt.Errorf("%s has no dimension %d", ts[0].Meta(), dim)
	}
	return concatenate(ts, dim, r.blocks)
}

// same checks that every rank holds the same elements.
func same(ts []*tensor.Tensor) error {
	first, err := bytesOf(ts[0])
	if err != nil {
		return err
	}
	for i, t := range ts[1:] {
		b, err := bytesOf(t)
		if err != nil {
			return err
		}
		if !slices.Equal(t.Shape, ts[0].Shape) || !bytes.Equal(first, b) {
			return fmt.Errorf("the first rank and number %d hold different values of %s", i+2, t.Meta())
		}
	}
	return nil
}

func bytesOf(t *tensor.Tensor) ([]byte, error) {
	if s := t.Storage(); s != nil {
		if _, err := s.Load(); err != nil {
			return nil, err
		}
	}
	return t.AppendBytes(nil), nil
}

// fitting is the dimension along which parts make a shape, -1 if there is none.
func fitting(ts []*tensor.Tensor, want []int) int {
	if len(want) != ts[0].Dim() {
		return -1
	}
	for dim := range want {
		total := 0
		for _, t := range ts {
			total += t.Shape[dim]
		}
		whole := slices.Clone(ts[0].Shape)
		whole[dim] = total
		if slices.Equal(whole, want) {
			return dim
		}
	}
	return -1
}

// concatenate joins parts along a dimension. Where each part holds several blocks
// one after the other, so does the result: all of the first, then all of the second.
func concatenate(ts []*tensor.Tensor, dim int, blocks []int) (*tensor.Tensor, error) {
	shape := slices.Clone(ts[0].Shape)
	shape[dim] = 0
	if blocks == nil {
		blocks = []int{1}
	}
	unit := 0
	for _, b := range blocks {
		unit += b
	}
	var raw [][]byte
	for _, t := range ts {
		rest := slices.Clone(t.Shape)
		rest[dim] = ts[0].Shape[dim]
		if !slices.Equal(rest, ts[0].Shape) {
			return nil, fmt.Errorf("ranks hold %s and %s", ts[0].Meta(), t.Meta())
		}
		if t.Shape[dim]%unit != 0 {
			return nil, fmt.Errorf("%d of %s do not divide into %d", t.Shape[dim], t.Meta(), unit)
		}
		shape[dim] += t.Shape[dim]
		b, err := bytesOf(t)
		if err != nil {
			return nil, err
		}
		raw = append(raw, b)
	}
	outer, inner := 1, ts[0].DType.Size()
	for i, d := range ts[0].Shape {
		switch {
		case i < dim:
			outer *= d
		case i > dim:
			inner *= d
		}
	}
	var out []byte
	for o := range outer {
		at := 0 // of the block, in units of the dimension
		for _, block := range blocks {
			for i, t := range ts {
				row, n := t.Shape[dim]*inner, t.Shape[dim]/unit*inner
				out = append(out, raw[i][o*row+at*n:][:block*n]...)
			}
			at += block
		}
	}
	t, err := tensor.NewView(tensor.NewStorage(out), tensor.View{DType: ts[0].DType, Shape: shape,
		Stride: tensor.Contiguous(shape)})
	if err != nil {
		return nil, err
	}
	t.Device = ts[0].Device
	return t, nil
}
