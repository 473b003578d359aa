package conformance

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/tensor/value"
)

// A CaseList says which cases a device is to pass and how: the file that
// gen_case writes, people edit and run_test takes.
type CaseList struct {
	Suite      string            `yaml:"suite"`        // "diopi", or a model
	NHWC       bool              `yaml:"nhwc"`         // as Variant.ChannelsLast
	NHWCMinDim int               `yaml:"nhwc_min_dim"` // as Variant.MinDim
	FourBytes  bool              `yaml:"four_bytes"`   // as Variant.FourBytes
	Cases      map[string]Retune `yaml:"cases"`        // by name
	LeftOut    map[string]string `yaml:"left_out"`     // by name: why
}

// A Retune replaces tolerances of a case; nil keeps the suite's.
type Retune struct {
	Atol     *float64 `yaml:"atol,omitempty"`
	Rtol     *float64 `yaml:"rtol,omitempty"`
	AtolHalf *float64 `yaml:"atol_half,omitempty"`
	RtolHalf *float64 `yaml:"rtol_half,omitempty"`
	Mismatch *float64 `yaml:"mismatch_ratio_threshold,omitempty"`
}

// fields are the tolerances under the names they have in a case's item.
func (r *Retune) fields() []retuned {
	return []retuned{{"atol", &r.Atol}, {"rtol", &r.Rtol}, {"atol_half", &r.AtolHalf}, {"rtol_half", &r.RtolHalf},
		{"mismatch_ratio_threshold", &r.Mismatch}}
}

type retuned struct {
	key   string
	value **float64
}

// NewCaseList lists the cases of a suite for a device with these rules.
func NewCaseList(suite string, v Variant, cases []*configs.Case, rules *configs.Rules) (l *CaseList,
	changed []*configs.Case) {
	l = &CaseList{
		Suite: suite, NHWC: v.ChannelsLast, NHWCMinDim: v.MinDim, FourBytes: v.FourBytes,
		Cases: map[string]Retune{}, LeftOut: map[string]string{},
	}
	for _, c := range cases {
		now, why := rules.Apply(c)
		if why != "" {
			l.LeftOut[c.Name] = why
			continue
		}
		var r Retune
		for _, f := range r.fields() {
			if was, is := number(c.Item, f.key), number(now.Item, f.key); was != is {
				*f.value = &is
			}
		}
		l.Cases[c.Name] = r
		changed = append(changed, now)
	}
	return l, changed
}

func number(item *value.Dict, key string) float64 {
	switch v := get(item, key).(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	}
	return 0
}

// Write writes the list; cases gives the order, and what the comments say.
func (l *CaseList) Write(w io.Writer, cases []*configs.Case) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Cases for optool conformance --mode run_test --test_cases_path THIS_FILE.
# To leave a case out, delete its line or move it to left_out with a reason. In
# the braces a case can have tolerances of its own:
#   {atol: 1e-4, rtol: 1e-4, atol_half: 1e-2, rtol_half: 5e-2, mismatch_ratio_threshold: 0.01}
suite: %s
nhwc: %t
nhwc_min_dim: %d
four_bytes: %t
cases:%s
`, l.Suite, l.NHWC, l.NHWCMinDim, l.FourBytes, empty(len(l.Cases)))
	for _, c := range cases {
		r, ok := l.Cases[c.Name]
		if !ok {
			continue
		}
		var parts []string
		for _, f := range r.fields() {
			if *f.value != nil {
				parts = append(parts, fmt.Sprintf("%s: %v", f.key, **f.value))
			}
		}
		fmt.Fprintf(&b, "  %s: {%s}  # %s\n", c.Name, strings.Join(parts, ", "), about(c))
	}
	fmt.Fprintf(&b, "left_out:%s\n", empty(len(l.LeftOut)))
	for _, c := range cases {
		if why, ok := l.LeftOut[c.Name]; ok {
			text, err := yaml.Marshal(why)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "  %s: %s", c.Name, text)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func empty(n int) string {
	if n == 0 {
		return " {}"
	}
	return ""
}

// about are the tensor arguments of a case: "input float32 (2, 3), dim=1".
func about(c *configs.Case) string {
	var parts []string
	for _, a := range c.Args() {
		shape := value.Repr(a.Shape)
		if !a.HasShape {
			shape = value.Repr(a.Value)
		}
		parts = append(parts, fmt.Sprintf("%s %s %s", a.Name, a.DType, shape))
	}
	for _, it := range c.Para().Items {
		parts = append(parts, fmt.Sprintf("%v=%s", it.Key, value.Repr(it.Value)))
	}
	line := strings.Join(parts, ", ")
	if len(line) > 160 {
		line = strings.ToValidUTF8(line[:160], "") + "..."
	}
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(line)
}

// ReadCaseList reads a list.
func ReadCaseList(path string) (*CaseList, error) {
	text, err := smallfile.Read(path, 4*smallfile.Most)
	if err != nil {
		return nil, err
	}
	l := &CaseList{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(l); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %s", path, sentence(err))
	}
	for name := range l.Cases {
		if why, ok := l.LeftOut[name]; ok {
			return nil, fmt.Errorf("%s: case %s is among the cases and left out (%s)", path, name, why)
		}
	}
	if len(l.Cases)+len(l.LeftOut) == 0 {
		return nil, fmt.Errorf("%s: want cases, found none", path)
	}
	return l, nil
}

// Model is the model whose suite the list is about, "" for that of all functions.
func (l *CaseList) Model() string {
	if l.Suite == "diopi" {
		return ""
	}
	return l.Suite
}

// Variant is how the cases are run.
func (l *CaseList) Variant() Variant {
	return Variant{ChannelsLast: l.NHWC, MinDim: cmp.Or(l.NHWCMinDim, 3), FourBytes: l.FourBytes}
}

// Select returns the cases that the list names, in their order.
func (l *CaseList) Select(cases []*configs.Case) ([]*configs.Case, error) {
	known := map[string]bool{}
	var out []*configs.Case
	for _, c := range cases {
		known[c.Name] = true
		_, in := l.Cases[c.Name]
		if _, left := l.LeftOut[c.Name]; in || left {
			out = append(out, c)
		}
	}
	for _, names := range [][]string{slices.Sorted(maps.Keys(l.Cases)), slices.Sorted(maps.Keys(l.LeftOut))} {
		for _, name := range names {
			if !known[name] {
				all := slices.Collect(maps.Keys(known))
				slices.Sort(all)
				return nil, fmt.Errorf("case %q is not in the data of suite %s%s", name, cmp.Or(l.Suite, "diopi"),
					Nearest(name, all))
			}
		}
	}
	return out, nil
}

// Apply returns a case with the list's tolerances, or in why what makes the
// list leave it out.
func (l *CaseList) Apply(c *configs.Case) (changed *configs.Case, why string) {
	if why, ok := l.LeftOut[c.Name]; ok {
		return nil, cmp.Or(why, "left out by the list of cases")
	}
	r := l.Cases[c.Name]
	for _, f := range r.fields() {
		if *f.value == nil {
			continue
		}
		if changed == nil {
			changed = c.Clone()
		}
		changed.Set(f.key, **f.value)
	}
	if changed == nil {
		return c, ""
	}
	return changed, ""
}
