package capture

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Patterns is a list of op names as op_tools reads it from its environment
// variables: an op matches if it is equal to an item, or an item is a regular
// expression that matches the whole name. The empty list matches nothing.
type Patterns struct {
	items []*pattern
	asked sync.Map // op -> whether it matches
}

type pattern struct {
	text string
	expr *regexp.Regexp // nil if text is a plain name
	met  atomic.Bool
}

// ParsePatterns parses a comma-separated list.
func ParsePatterns(list string) (*Patterns, error) {
	p := &Patterns{}
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		item := &pattern{text: text}
		p.items = append(p.items, item)
		if regexp.QuoteMeta(text) == strings.ReplaceAll(text, ".", `\.`) {
			continue // a plain name: its dots match nothing else of a dotted name's length
		}
		re, err := regexp.Compile("^(?:" + text + ")$")
		if err != nil {
			why := err.Error()
			if e, ok := errors.AsType[*syntax.Error](err); ok {
				why = fmt.Sprintf("%s: %q", e.Code, e.Expr)
			}
			return nil, fmt.Errorf("op pattern %q: not a regular expression (.* stands for any text): %s", text, why)
		}
		item.expr = re
	}
	return p, nil
}

// Match reports whether op is in the list.
func (p *Patterns) Match(op string) bool {
	if m, ok := p.asked.Load(op); ok {
		return m.(bool)
	}
	match := false
	for _, item := range p.items {
		if item.text == op || item.expr != nil && item.expr.MatchString(op) {
			item.met.Store(true)
			match = true
		}
	}
	p.asked.Store(op, match)
	return match
}

// Unmet are the items of the list that no op matched that Match was asked about.
func (p *Patterns) Unmet() (items []string) {
	for _, item := range p.items {
		if !item.met.Load() {
			items = append(items, item.text)
		}
	}
	return items
}

// Asked are the ops that Match was asked about, sorted.
func (p *Patterns) Asked() (ops []string) {
	p.asked.Range(func(op, _ any) bool {
		ops = append(ops, op.(string))
		return true
	})
	slices.Sort(ops)
	return ops
}

// A Filter selects captures. Its zero value selects all. It is safe for use by
// several goroutines.
type Filter struct {
	Ops    *Patterns      // only these ops; nil means all
	NotOps *Patterns      // but not these
	DTypes []tensor.DType // only calls with an input tensor of one of these
	where  *vm.Program
	uses   map[string]bool // variables of where
}

// A TensorVar is a tensor as an expression of Where sees it.
type TensorVar struct {
	DType        string `expr:"dtype"`
	Shape        []int  `expr:"shape"`
	NDim         int    `expr:"ndim"`
	Numel        int    `expr:"numel"`
	Device       string `expr:"device"`
	Contiguous   bool   `expr:"contiguous"`
	RequiresGrad bool   `expr:"requires_grad"`
}

// vars are the variables of an expression. Those of the first input tensor are
// empty and -1 where there is none.
type vars struct {
	Op      string      `expr:"op"`
	ID      int         `expr:"id"`
	PID     int         `expr:"pid"`
	Rank    int         `expr:"rank"`
	Time    string      `expr:"time"`
	Path    string      `expr:"path"`
	Bytes   int64       `expr:"bytes"`
	Inputs  []TensorVar `expr:"inputs"`
	Outputs []TensorVar `expr:"outputs"`
	DType   string      `expr:"dtype"`
	Shape   []int       `expr:"shape"`
	NDim    int         `expr:"ndim"`
	Numel   int         `expr:"numel"`
}

// identifiers collects the variables that an expression names.
type identifiers map[string]bool

func (ids identifiers) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok {
		ids[id.Value] = true
	}
}

// Where adds a condition, such as `dtype == "float16" && ndim == 2`. It sees
// op, id, pid, rank, time, path, bytes, inputs and outputs (lists of tensors
// with dtype, shape, ndim, numel, device, contiguous, requires_grad), and
// dtype, shape, ndim, numel of the first input tensor. The language is that of
// https://expr-lang.org.
func (f *Filter) Where(condition string) error {
	ids := identifiers{}
	p, err := expr.Compile(condition, expr.Env(vars{}), expr.AsBool(), expr.Patch(ids))
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Errorf("condition %q: %s", condition, first)
	}
	f.where, f.uses = p, ids
	return nil
}

// needsCall reports whether the files have to be opened to decide.
func (f *Filter) needsCall(e *Entry) bool {
	if len(f.DTypes) > 0 || e.Op == "" && (f.Ops != nil || f.NotOps != nil || f.uses["op"]) {
		return true
	}
	for _, v := range []string{"inputs", "outputs", "dtype", "shape", "ndim", "numel"} {
		if f.uses[v] {
			return true
		}
	}
	return false
}

// A Part is one of the conditions of a filter.
type Part uint8

// The parts, in the order in which they are asked; All leaves nothing out.
const (
	All Part = iota
	ByOps
	ByNotOps
	ByDTypes
	ByWhere
)

// Parts lists the parts that can leave a capture out.
func Parts() []Part { return []Part{ByOps, ByNotOps, ByDTypes, ByWhere} }

// Match reports whether e is selected: whether nothing excludes it.
func (f *Filter) Match(e *Entry, read pthformat.ReadMode) (bool, error) {
	part, err := f.Excludes(e, read)
	return part == All && err == nil, err
}

// Surely reports whether e is selected, if that can be said without opening its files.
func (f *Filter) Surely(e *Entry) bool {
	if f.needsCall(e) {
		return false
	}
	part, err := f.Excludes(e, 0)
	return part == All && err == nil
}

// Excludes is the first part that leaves e out, All if it is selected. Files are
// opened only if the filter asks for what they hold; a capture whose files cannot be
// read is selected, so that its errors are reported. The error is that of the
// condition.
func (f *Filter) Excludes(e *Entry, read pthformat.ReadMode) (Part, error) {
	if e.Op != "" {
		if part := f.ExcludesOp(e.Op); part != All {
			return part, nil
		}
	}
	c := &Call{Op: e.Op, Kwargs: &value.Dict{}}
	if f.needsCall(e) {
		var err error
		c, err = e.Load(LoadOptions{Read: read, Only: Of(Input, Output)})
		if err != nil {
			c.Close()
			return All, nil
		}
		defer c.Close()
	}
	if part := f.ExcludesOp(c.Op); part != All {
		return part, nil
	}
	wanted := func(t *tensor.Tensor) bool { return slices.Contains(f.DTypes, t.DType) }
	if len(f.DTypes) > 0 && !slices.ContainsFunc(c.Inputs(), wanted) {
		return ByDTypes, nil
	}
	if ok, err := f.holds(e, c); err != nil || !ok {
		return ByWhere, err
	}
	return All, nil
}

// holds reports whether the condition of Where holds for a call.
func (f *Filter) holds(e *Entry, c *Call) (bool, error) {
	if f.where == nil {
		return true, nil
	}
	v := vars{
		Op: c.Op, ID: e.ID, PID: e.PID, Rank: e.Rank, Time: e.Time, Path: e.Rel,
		Inputs: tensorVars(c.Inputs()), Outputs: tensorVars(c.Outputs()), NDim: -1, Numel: -1,
	}
	if f.uses["bytes"] {
		v.Bytes = e.Bytes()
	}
	if len(v.Inputs) > 0 {
		t := v.Inputs[0]
		v.DType, v.Shape, v.NDim, v.Numel = t.DType, t.Shape, t.NDim, t.Numel
	}
	out, err := expr.Run(f.where, v)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return false, fmt.Errorf("%s: condition: %s", e.Rel, first)
	}
	return out.(bool), nil
}

// ExcludesOp is the part that leaves out an op of that name, All if none does.
func (f *Filter) ExcludesOp(op string) Part {
	switch {
	case f.Ops != nil && !f.Ops.Match(op):
		return ByOps
	case f.NotOps != nil && f.NotOps.Match(op):
		return ByNotOps
	}
	return All
}

func tensorVars(ts []*tensor.Tensor) []TensorVar {
	vs := make([]TensorVar, len(ts))
	for i, t := range ts {
		vs[i] = TensorVar{
			DType: t.DType.String(), Shape: t.Shape, NDim: t.Dim(), Numel: t.Numel(),
			Device: t.Device, Contiguous: t.IsContiguous(), RequiresGrad: t.RequiresGrad,
		}
	}
	return vs
}
