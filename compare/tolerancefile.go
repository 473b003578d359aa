package compare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/tensor"
)

// A ToleranceFile is a YAML file of tolerances in layers. Each layer overrides
// the fields it sets of the layers before it:
//
//	default: {atol: 1e-5, rtol: 1e-5}  # everything
//	dtype:                             # the recorded dtype
//	  bfloat16: {ulp: 2}
//	class:                             # the op's error class
//	  accumulated: {rtol: 1e-4}
//	op:                                # full name, or its last part
//	  torch.nn.functional.linear: {atol: 1e-3, rtol: 1e-3}
//	output:                            # one value of an op, by its label
//	  torch.sort:
//	    output[1]: {atol: 0, rtol: 0}
//
// A value passes if it is within atol + rtol*|reference| or within ulp.
type ToleranceFile struct {
	name   string
	all    *limits
	dtype  map[string]*limits
	class  map[string]*limits
	op     map[string]*limits
	output map[string]map[string]*limits
}

// limits are the fields one entry of the file sets.
type limits struct {
	atol, rtol, ulp *float64
	line            int
	rule            string
}

// A Layer names an operator or an error class that a tolerance file is about.
type Layer struct {
	Name  string
	Class bool   // of an error class
	Place string // "FILE:LINE"
}

// Layers are the operators and error classes that the file is about, sorted.
func (f *ToleranceFile) Layers() []Layer {
	var all []Layer
	if f == nil {
		return nil
	}
	add := func(class bool, group map[string]*limits) {
		for name, l := range group {
			all = append(all, Layer{name, class, fmt.Sprintf("%s:%d", f.name, l.line)})
		}
	}
	add(true, f.class)
	add(false, f.op)
	for op, values := range f.output {
		for _, l := range values {
			all = append(all, Layer{op, false, fmt.Sprintf("%s:%d", f.name, l.line)})
			break
		}
	}
	slices.SortFunc(all, func(a, b Layer) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// LoadToleranceFile reads a tolerance file. Errors name the file and the line.
func LoadToleranceFile(path string) (*ToleranceFile, error) {
	data, err := smallfile.Read(path, smallfile.Most)
	if err != nil {
		return nil, err
	}
	return ParseTolerances(path, data)
}

// ParseTolerances parses the contents of a tolerance file; name is used in
// errors and rules.
func ParseTolerances(name string, data []byte) (*ToleranceFile, error) {
	f := &ToleranceFile{name: name}
	var doc yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc)
	if errors.Is(err, io.EOF) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	err = f.each(doc.Content[0], "the file", func(key string, k, v *yaml.Node) (err error) {
		switch key {
		case "default":
			f.all, err = f.limits(v, "default")
		case "dtype":
			f.dtype, err = f.group(v, "dtype")
			for dt := range f.dtype {
				if _, ok := tensor.ParseDType(dt); !ok && err == nil {
					err = f.errorf(v, "unknown dtype %q", dt)
				}
			}
		case "class":
			f.class, err = f.group(v, "class")
		case "op":
			f.op, err = f.group(v, "op")
		case "output":
			f.output = map[string]map[string]*limits{}
			err = f.each(v, "output", func(op string, _, v *yaml.Node) (err error) {
				f.output[op], err = f.group(v, op)
				return err
			})
		default:
			err = f.errorf(k, "unknown layer %q, want default, dtype, class, op or output", key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *ToleranceFile) errorf(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", f.name, n.Line, fmt.Sprintf(format, args...))
}

// each calls do for the entries of a mapping.
func (f *ToleranceFile) each(n *yaml.Node, what string, do func(key string, k, v *yaml.Node) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return f.errorf(n, "%s: want a mapping", what)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if seen[k.Value] {
			return f.errorf(k, "%q is set twice", k.Value)
		}
		seen[k.Value] = true
		if err := do(k.Value, k, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (f *ToleranceFile) group(n *yaml.Node, what string) (map[string]*limits, error) {
	g := map[string]*limits{}
	err := f.each(n, what, func(key string, _, v *yaml.Node) (err error) {
		g[key], err = f.limits(v, what+" "+key)
		return err
	})
	return g, err
}

func (f *ToleranceFile) limits(n *yaml.Node, what string) (*limits, error) {
	l := &limits{line: n.Line, rule: fmt.Sprintf("%s:%d %s", f.name, n.Line, what)}
	err := f.each(n, what, func(key string, k, v *yaml.Node) error {
		var x float64
		if err := v.Decode(&x); err != nil || !valid(x) {
			return f.errorf(v, "%s: %s: want a number that is not negative, got %q", what, key, v.Value)
		}
		switch key {
		case "atol":
			l.atol = &x
		case "rtol":
			l.rtol = &x
		case "ulp":
			l.ulp = &x
		default:
			return f.errorf(k, "%s: unknown field %q, want atol, rtol or ulp", what, key)
		}
		return nil
	})
	if err == nil && l.atol == nil && l.rtol == nil && l.ulp == nil {
		err = f.errorf(n, "%s: sets none of atol, rtol and ulp", what)
	}
	return l, err
}

// find merges the layers that apply; the rule is the strongest one's.
func (f *ToleranceFile) find(op, class, output string, dt tensor.DType) *Tolerance {
	if f == nil {
		return nil
	}
	layers := []*limits{f.all, f.dtype[dt.String()], f.dtype["torch."+dt.String()], f.class[class],
		f.op[lastPart(op)], f.op[op],
		f.output[lastPart(op)][output], f.output[op][output]}
	var t *Tolerance
	for _, l := range layers {
		if l == nil {
			continue
		}
		if t == nil {
			t = &Tolerance{Setting: FileSetting}
		}
		set(&t.Atol, l.atol)
		set(&t.Rtol, l.rtol)
		set(&t.ULP, l.ulp)
		t.Rule = l.rule
	}
	return t
}

func set(dst, src *float64) {
	if src != nil {
		*dst = *src
	}
}
