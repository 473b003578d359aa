package opdef

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Calls makes cases from calls as Python writes them, without the name of the operator: one on a line, or several
// with ";" between them; "()" has no arguments. The schema binds the arguments, so defaults are left out. A tensor is
// its dtype (see shortDTypes) and its shape. Braces say what is in it:
//
//	f32[2, 3]             standard normal values (Gen.Normal)
//	f64[3]{0.1..2}        evenly distributed values; integers include both ends (Gen.Uniform, Gen.Int)
//	f32[4]{distinct}      values that differ by at least 0.1 (Gen.Distinct)
//	f32[3, 9]{rows}       a row of rising values, one with a large value first, one of normal values (Gen.Rows)
//	f32[3, 133]{tails}    a row with by far the largest value last, rows of -inf but for or in the tail (Gen.Tails)
//	f32[4]{apart 0 1}     normal values at least 0.2 away from 0 and 1 (Gen.Apart)
//	f64[2, 3, 3]{regular} matrices that are far from singular; {positive}: positive definite too (Gen.Regular)
//	i64[3]{= 2 -1 0}      these values, without a gradient
//	f32[2, 3]{full inf}   one value, stored once, without a gradient
//	f32[3]{fixed}         asks for no gradient
//	f32[2, 3]{gaps}       is not contiguous (NonContiguous)
//	f32[2, 3]{turned}     has its last two dimensions stored in reverse order
//
// The last three words also follow others: f32[3]{0..1 fixed}. After "for T in f64 f32:" the rest of the line is
// repeated with each of the words in place of T. A line that ends in ";" or "," continues on the next.
func Calls[A any](text string) func(g Gen) []*A {
	return casesOf[A](func(g Gen) []*opaque { return g.calls(text) })
}

var shortDTypes = map[string]tensor.DType{
	"f64": tensor.Float64, "f32": tensor.Float32, "f16": tensor.Float16, "bf16": tensor.BFloat16,
	"e4m3": tensor.Float8E4M3FN, "e5m2": tensor.Float8E5M2, "e8m0": tensor.Float8E8M0FNU,
	"c32": tensor.Complex32, "c64": tensor.Complex64, "c128": tensor.Complex128,
	"i64": tensor.Int64, "i32": tensor.Int32, "i16": tensor.Int16, "i8": tensor.Int8, "bool": tensor.Bool,
	"u8": tensor.Uint8, "u16": tensor.Uint16, "u32": tensor.Uint32, "u64": tensor.Uint64,
}

func (g Gen) calls(text string) (out []*opaque) {
	bound, err := g.declared.bound()
	if err != nil {
		panic(err)
	}
	for _, call := range listed(text) {
		args, err := g.call(bound, call)
		if err != nil {
			panic(fmt.Errorf("case %q: %w", call, err))
		}
		out = append(out, pointer(args))
	}
	return out
}

// listed gives the calls of a text.
func listed(text string) (calls []string) {
	joined := ""
	for line := range strings.SplitSeq(text, "\n") {
		joined += strings.TrimSpace(line) + " "
		if strings.HasSuffix(joined, "; ") || strings.HasSuffix(joined, ", ") {
			continue
		}
		line, joined = strings.TrimSpace(joined), ""
		if loop, ok := strings.CutPrefix(line, "for "); ok {
			name, rest, _ := strings.Cut(loop, " in ")
			words, body, _ := strings.Cut(rest, ": ")
			for _, with := range strings.Fields(words) {
				calls = append(calls, listed(regexp.MustCompile(`\b`+name+`\b`).ReplaceAllLiteralString(body, with))...)
			}
			continue
		}
		for call := range strings.SplitSeq(line, ";") {
			if call = strings.TrimSpace(call); call != "" {
				calls = append(calls, call)
			}
		}
	}
	return calls
}

// bound is an operator with what binds the arguments of its own declaration.
func (o *operator) bound() (*Entry, error) {
	s, err := ParseSchema(o.declaration.Schema)
	if err != nil {
		return nil, err
	}
	set, err := makeSetters(s, o.args.Elem())
	return &Entry{op: &operator{declaration: o.declaration, args: o.args}, Schema: s, setters: set}, err
}

// call is the argument struct of one call.
func (g Gen) call(bound *Entry, text string) (any, error) {
	var args []value.Value
	kwargs := &value.Dict{}
	if text == "()" {
		text = ""
	}
	for _, arg := range splitArgs(text) {
		name, item, named := strings.Cut(arg, "=")
		if named = named && isName(name); !named {
			item = arg
		}
		v, err := g.value(item)
		if err != nil {
			return nil, err
		}
		if named {
			kwargs.Items = append(kwargs.Items, value.Item{Key: name, Value: v})
		} else {
			args = append(args, v)
		}
	}
	return bound.bind(args, kwargs)
}

func (g Gen) value(s string) (value.Value, error) {
	if list, ok := sequence(s); ok {
		for _, item := range splitArgs(s[1 : len(s)-1]) {
			v, err := g.value(item)
			if err != nil {
				return nil, err
			}
			list.Items = append(list.Items, v)
		}
		return list, nil
	}
	if dt, ok := shortDTypes[s]; ok {
		return dt, nil
	}
	name, rest, ok := strings.Cut(s, "[")
	if dt := shortDTypes[name]; ok && dt != tensor.Invalid {
		return g.tensor(dt, rest)
	}
	v, err := value.ParseLiteral(s)
	if c, complexErr := strconv.ParseComplex(strings.ReplaceAll(s, "j", "i"), 128); err != nil && complexErr == nil {
		return c, nil
	}
	return v, err
}

// sequence is an empty list or tuple where s is one.
func sequence(s string) (*value.Sequence, bool) {
	switch s[:1] + s[len(s)-1:] {
	case "[]":
		return value.NewList(), true
	case "()":
		return value.NewTuple(), true
	}
	return nil, false
}

// tensor is a tensor from the text after its dtype and "[": the shape and the words in braces.
func (g Gen) tensor(dt tensor.DType, text string) (*tensor.Tensor, error) {
	dims, how, _ := strings.Cut(text, "]")
	sizes, err := numbers(splitArgs(dims))
	if err != nil {
		return nil, err
	}
	shape := make([]int, len(sizes))
	for i, n := range sizes {
		shape[i] = int(n)
	}
	words := strings.Fields(strings.Trim(how, "{}"))
	last := func(word string) bool {
		n := len(words) - 1
		ok := n >= 0 && words[n] == word
		if ok {
			words = words[:n]
		}
		return ok
	}
	fixed, gaps, turned := last("fixed"), last("gaps"), last("turned")
	n := len(shape)
	if turned {
		shape[n-2], shape[n-1] = shape[n-1], shape[n-2]
	}
	t, err := g.filled(dt, shape, words)
	if turned && err == nil {
		t = t.Transpose(n-2, n-1)
	}
	if gaps && err == nil {
		t = NonContiguous(t)
	}
	if fixed && err == nil {
		t.RequiresGrad = false
	}
	return t, err
}

// filled is a tensor with what these words say.
func (g Gen) filled(dt tensor.DType, shape []int, how []string) (*tensor.Tensor, error) {
	if len(how) == 0 {
		return g.Normal(dt, shape...), nil
	}
	word, rest := how[0], how[1:]
	if low, high, ok := strings.Cut(word, ".."); ok {
		word, rest = "between", []string{low, high}
	}
	ns, err := numbers(rest)
	if err != nil {
		return nil, err
	}
	switch {
	case word == "distinct":
		return g.Distinct(dt, shape...), nil
	case word == "rows" && len(shape) > 0:
		return g.Rows(dt, shape...), nil
	case word == "tails" && len(shape) > 0:
		return g.Tails(dt, shape...), nil
	case word == "apart":
		return g.Apart(dt, ns, shape...), nil
	case word == "regular" || word == "positive":
		return g.Regular(dt, word == "positive", shape...), nil
	case word == "=" && len(ns) == tensor.Numel(shape):
		return given(dt, shape, ns), nil
	case word == "full" && len(ns) == 1:
		t := given(dt, nil, ns)
		t.Shape, t.Stride = shape, make([]int, len(shape))
		return t, nil
	case word == "between" && dt.Kind() <= tensor.KindInt:
		return g.Int(dt, int(ns[0]), int(ns[1]), shape...), nil
	case word == "between":
		return g.Uniform(dt, ns[0], ns[1], shape...), nil
	}
	return nil, fmt.Errorf("%v: want LOW..HIGH, distinct, rows, tails, apart, regular, positive, full or = and all values",
		how)
}

func given(dt tensor.DType, shape []int, values []float64) *tensor.Tensor {
	if dt.Kind() > tensor.KindInt {
		return tensor.New(dt, shape, values)
	}
	ints := make([]int64, len(values))
	for i, v := range values {
		ints[i] = int64(v)
	}
	return tensor.New(dt, shape, ints)
}

func numbers(texts []string) (out []float64, err error) {
	for _, f := range texts {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}
