package diopi

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A recorded case: arguments without their elements and the C calls the kit made
// (testdata/calls.jsonl.gz, 817 cases of 80 functions).
type recorded struct {
	Case     string         `json:"case"`
	Function string         `json:"function"`
	Args     [][2]any       `json:"args"`
	Grad     []string       `json:"rg"`
	Saved    map[string]int `json:"saved"`
	Backward []int          `json:"rb"`
	InPlace  bool           `json:"inplace"`
	Sparse   []string       `json:"sparse"`
	Outs     []any          `json:"outs"`
	Calls    []struct {
		Phase Phase          `json:"phase"`
		Fn    string         `json:"fn"`
		Args  map[string]any `json:"args"`
	} `json:"calls"`
}

func recordedCases(t *testing.T, file string) []*recorded {
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var cases []*recorded
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.UseNumber()
		c := &recorded{}
		if err := d.Decode(c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

// pythonValue is the value a recorded argument stands for; tensors have the
// recorded elements, or zeros.
func pythonValue(t *testing.T, v any) value.Value {
	switch v := v.(type) {
	case json.Number:
		i, err := v.Int64()
		if err != nil {
			t.Fatal(err)
		}
		return i
	case []any:
		return value.NewList(pythonValues(t, v)...)
	case map[string]any:
		switch {
		case v["$tuple"] != nil:
			return value.NewTuple(pythonValues(t, v["$tuple"].([]any))...)
		case v["$slice"] != nil:
			s := pythonValues(t, v["$slice"].([]any))
			return value.Slice{Start: s[0], Stop: s[1], Step: s[2]}
		case v["$f"] != nil:
			f, err := strconv.ParseFloat(v["$f"].(string), 64)
			if err != nil {
				t.Fatal(err)
			}
			return f
		case v["$dtype"] != nil:
			return dtypeNamed(t, v["$dtype"].(string))
		}
		return storedTensor(t, v)
	}
	return v
}

func pythonValues(t *testing.T, vs []any) []value.Value {
	out := make([]value.Value, len(vs))
	for i, v := range vs {
		out[i] = pythonValue(t, v)
	}
	return out
}

func dtypeNamed(t *testing.T, name string) tensor.DType {
	dt, ok := tensor.ParseDType(name)
	if !ok {
		t.Fatalf("dtype %s", name)
	}
	return dt
}

func storedTensor(t *testing.T, v map[string]any) *tensor.Tensor {
	dt, shape := dtypeNamed(t, v["$t"].(string)), numbers(t, v["sh"])
	n := tensor.Numel(shape)
	if list, ok := v["v"].([]any); ok {
		data := make([]int64, n)
		for i := range data {
			x, err := list[i].(json.Number).Float64()
			if err != nil {
				t.Fatal(err)
			}
			data[i] = int64(x)
		}
		if dt.IsIntegral() {
			return tensor.New(dt, shape, data)
		}
	}
	st, extent := numbers(t, v["st"]), 1
	for i, k := range st {
		extent += (shape[i] - 1) * k
	}
	if n == 0 {
		return zeros(dt, shape)
	}
	r, err := zeros(dt, []int{extent}).Strided(shape, st, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func zeros(dt tensor.DType, shape []int) *tensor.Tensor {
	n := tensor.Numel(shape)
	switch dt.Kind() {
	case tensor.KindFloat:
		return tensor.New(dt, shape, make([]float64, n))
	case tensor.KindComplex:
		return tensor.New(dt, shape, make([]complex128, n))
	}
	return tensor.New(dt, shape, make([]int64, n))
}

func numbers(t *testing.T, v any) []int {
	out := []int{}
	for _, x := range v.([]any) {
		i, err := x.(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, int(i))
	}
	return out
}

func (r *recorded) toCase(t *testing.T) *Case {
	c := &Case{Function: r.Function, Args: &value.Dict{}, RequiresGrad: r.Grad, SavedArgs: r.Saved,
		RequiresBackward: r.Backward, InPlace: r.InPlace, Sparse: r.Sparse}
	for _, a := range r.Args {
		c.Args.Items = append(c.Args.Items, value.Item{Key: a[0], Value: pythonValue(t, a[1])})
	}
	if (r.Function == "index" || r.Function == "masked_select") && len(r.Grad) > 0 { // only the callee knows the shape
		m := r.Outs[0].(map[string]any)
		c.GradOutputs = append(c.GradOutputs, zeros(dtypeNamed(t, m["$t"].(string)), numbers(t, m["sh"])))
	}
	return c
}

// TestRecordedCalls: the plans are the calls that the kit's own functions made.
func TestRecordedCalls(t *testing.T) {
	equal, total := 0, 0
	for _, rec := range recordedCases(t, "calls.jsonl.gz") {
		total++
		r, ok := Find(rec.Function)
		if !ok {
			t.Errorf("%s: no recipe", rec.Case)
			continue
		}
		p, err := r.Plan(rec.toCase(t))
		if err != nil {
			t.Errorf("%s: %v", rec.Case, err)
			continue
		}
		if diff := rec.differs(t, p); diff != "" {
			t.Errorf("%s: %s", rec.Case, diff)
			continue
		}
		equal++
	}
	t.Logf("%d of %d equal", equal, total)
}

// TestPlans: every function has a recipe that declares the C functions the kit
// calls for it (testdata/functions.tsv; the kit also lets the device find the
// longest target of ctc_loss), and the plans of one to four cases of the functions
// without recorded calls fill every parameter with what its kind takes.
func TestPlans(t *testing.T) {
	text, err := os.ReadFile("testdata/functions.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, row := range rows {
		name, functions, _ := strings.Cut(row, "\t")
		r, ok := Find(name)
		if !ok {
			t.Errorf("no recipe for %s", name)
			continue
		}
		for _, f := range strings.Split(functions, ",") {
			if !slices.Contains(r.Functions(), f) {
				t.Errorf("%s does not declare %s", name, f)
			}
		}
		for _, f := range r.Functions() {
			if _, ok := Lookup(f); !ok {
				t.Errorf("%s declares %s, which the interface lacks", name, f)
			}
		}
	}
	if n := len(Recipes()); n != len(rows) {
		t.Errorf("%d recipes for %d functions", n, len(rows))
	}
	planned := map[string]bool{}
	for _, file := range []string{"cases.jsonl.gz", "calls.jsonl.gz"} {
		for _, rec := range recordedCases(t, file) {
			r, ok := Find(rec.Function)
			if !ok {
				t.Fatalf("no recipe for %s", rec.Function)
			}
			p, err := r.Plan(rec.toCase(t))
			if err != nil {
				t.Errorf("%s: %v", rec.Case, err)
				continue
			}
			planned[rec.Function] = true
			for _, c := range p.Calls {
				checkCall(t, rec.Case, c)
			}
			if len(rec.Grad) > len(p.Grads) {
				t.Errorf("%s: gradients %v of %v", rec.Case, p.Grads, rec.Grad)
			}
		}
	}
	if len(planned) != len(rows) {
		t.Errorf("plans of %d functions of %d", len(planned), len(rows))
	}
}

// checkCall checks that every parameter has an argument of its kind.
func checkCall(t *testing.T, name string, c *Call) {
	t.Helper()
	f, ok := Lookup(c.Function)
	if !ok {
		t.Errorf("%s: %s is not in the interface", name, c.Function)
		return
	}
	for _, p := range f.Params {
		if p.Kind == KindContext {
			continue
		}
		a, ok := c.Args[p.Name]
		if !ok {
			t.Errorf("%s: %s of %s is missing", name, p.Name, c.Function)
		}
		ok = ok && fits(p.Kind, a)
		if !ok {
			t.Errorf("%s: %s of %s is %v, which is no %s", name, p.Name, c.Function, a, p.Kind)
		}
	}
}

// fits says that an argument is of the type that the form of its parameter's kind takes.
func fits(k Kind, a Arg) bool {
	how, _ := k.Passing()
	is := func(forms ...Form) bool { return slices.Contains(forms, how.Form) }
	switch a := a.(type) {
	case nil:
		return how.Nullable
	case *Tensor:
		return is(FormTensor)
	case Tensors:
		return is(FormTensors)
	case *Alloc:
		return is(FormTensor, FormAllocAddress)
	case Scalar:
		return is(FormScalar)
	case Size:
		return is(FormSize, FormSizePointer)
	case Integer:
		return is(FormInteger, FormIntegerPointer) && k.Enum() == ""
	case Real:
		return is(FormReal, FormRealPointer)
	case Bool:
		return k == KindBool || k == KindBoolPtr
	case Text:
		return is(FormText)
	case Enum:
		_, ok := Enums()[k.Enum()][string(a)]
		return ok
	case *Generator:
		return is(FormGenerator)
	case *Out:
		return is(FormOut)
	}
	return false
}

// differs says in what p differs from the recorded calls.
func (r *recorded) differs(t *testing.T, p *Plan) string {
	var got, want []string
	for _, c := range p.Calls {
		got = append(got, string(c.Phase)+" "+c.Function)
	}
	for _, c := range r.Calls {
		want = append(want, string(c.Phase)+" "+c.Fn)
	}
	if !slices.Equal(got, want) {
		return fmt.Sprintf("calls %v, want %v", got, want)
	}
	for i, w := range r.Calls {
		c := p.Calls[i]
		if g, w := slices.Sorted(maps.Keys(c.Args)), slices.Sorted(maps.Keys(w.Args)); !slices.Equal(g, w) {
			return fmt.Sprintf("%s: parameters %v, want %v", c.Function, g, w)
		}
		for name, wa := range w.Args {
			if c.Phase == InPlace && c.Function == "diopiBernoulliScalar" && name == "p" {
				continue // the kit takes the mean of what the forward call left in the input
			}
			if g, w := r.shown(p, c.Args[name]), r.shownWant(t, p, wa); g != w {
				return fmt.Sprintf("%s: %s is %s, want %s", c.Function, name, g, w)
			}
		}
	}
	return ""
}

// shown is an argument as text. A tensor the callee fills is new, also where it
// is read later; out0 and saved: name results.
func (r *recorded) shown(p *Plan, a Arg) string {
	switch a := a.(type) {
	case *Tensor:
		if a == nil {
			return "null"
		}
		role := a.Role
		if a.Value == nil || role == "copy" {
			role = "new"
		}
		st := a.Stride
		if st == nil {
			st = rowMajor(a.Shape)
		}
		return fmt.Sprintf("%s %s%v/%v", role, a.DType, a.Shape, st)
	case Tensors:
		var s []string
		for _, t := range a {
			s = append(s, r.shown(p, t))
		}
		return fmt.Sprint(s)
	case *Alloc:
		return "alloc"
	case *Generator:
		return "gen"
	case *Out:
		return "ptr"
	case Scalar:
		if a.DType.IsFloat() {
			return fmt.Sprintf("%s %v", a.DType, a.Float)
		}
		return fmt.Sprintf("%s %d", a.DType, a.Int)
	case nil:
		return "null"
	case Bool:
		return map[Bool]string{true: "1", false: "0"}[a]
	}
	return fmt.Sprint(a)
}

// role is how result i is shown: where nothing is called it is the argument.
func (r *recorded) role(p *Plan, i int) string {
	if t, ok := p.Outputs[i].(*Tensor); ok && t.Value != nil {
		return t.Role
	}
	return "new"
}

// rowMajor are the strides the kit's runtime gives a tensor without any.
func rowMajor(shape []int) []int {
	st, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		st[i] = n
		n *= shape[i]
	}
	return st
}

// shownWant is a recorded argument as text, by shown's rules.
func (r *recorded) shownWant(t *testing.T, p *Plan, v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return map[bool]string{true: "1", false: "0"}[v]
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(f)
	case string:
		if i := strings.LastIndex(v, "."); strings.HasPrefix(v, "diopi") {
			return v[i+1:]
		}
		if s, ok := strings.CutPrefix(v, "bytes:b'"); ok {
			return strings.TrimSuffix(s, "'")
		}
		if _, s, ok := strings.Cut(v, ":"); ok { // a numpy number
			v = s
		}
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return fmt.Sprint(f)
		}
		return v
	case map[string]any:
		if inner, ok := v["p"]; ok {
			return r.shownWant(t, p, inner)
		}
		switch {
		case v["l"] != nil:
			return r.shownWant(t, p, v["l"])
		case v["sz"] != nil:
			return fmt.Sprint(numbers(t, v["sz"]))
		case v["sc"] != nil:
			dt := dtypeNamed(t, v["sc"].(string))
			if dt.IsFloat() {
				return fmt.Sprintf("%s %s", dt, r.shownWant(t, p, v["f"]))
			}
			return fmt.Sprintf("%s %v", dt, v["i"])
		}
		role := v["t"].(string)
		if name, ok := strings.CutPrefix(role, "saved:"); ok {
			role = r.role(p, r.Saved[name])
		} else if role == "out0" {
			role = r.role(p, 0)
		}
		return fmt.Sprintf("%s %s%v/%v", role, v["dt"], numbers(t, v["sh"]), numbers(t, v["st"]))
	case []any:
		var s []string
		for _, x := range v {
			s = append(s, r.shownWant(t, p, x))
		}
		return fmt.Sprint(s)
	}
	t.Fatalf("recorded argument %v", v)
	return ""
}
