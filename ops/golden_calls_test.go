package ops_test

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

var goldenCalls = flag.String("calls", "", "write the calls for testdata/golden/record.py to this `file`")

const (
	goldenCallsPerOp   = 8
	goldenMostElements = 24 // of all arguments together, where a case has so few
)

// TestGoldenCalls writes, with -calls, the calls that record.py makes with torch.
func TestGoldenCalls(t *testing.T) {
	w := callsFile(t)
	for _, e := range ops.Default().Entries() {
		calls := chooseCalls(e)
		for _, c := range calls {
			fmt.Fprintln(w, callJSON(e, c))
		}
		if len(calls) == 0 { // record.py has calls of it
			fmt.Fprintln(w, "{"+operatorJSON(e)+"}")
		}
	}
}

// callsFile is the file of -calls, written when t ends; without it t is skipped.
func callsFile(t *testing.T) *bufio.Writer {
	if *goldenCalls == "" {
		t.Skip("no -calls FILE")
	}
	f, err := os.Create(*goldenCalls)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	t.Cleanup(func() {
		if err := errors.Join(w.Flush(), f.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// chooseCalls picks small cases of e that differ in dtypes and arguments; where those have no
// float32 or bfloat16, the first with float64 is narrowed. The in-place forms of
// operators on lists have no cases and take those of the other form.
func chooseCalls(e *opdef.Entry) []*opdef.Call {
	h := fnv.New64a()
	h.Write([]byte(e.Schema.Name))
	cases := e.Cases(rand.New(rand.NewPCG(7331, h.Sum64())))
	if form := strings.Replace(e.Schema.Name+".", "_.", ".", 1); len(cases) == 0 &&
		strings.HasPrefix(form, "_foreach") {
		for _, o := range ops.Default().Entries() {
			if o.Schema.Name+"." == form {
				cases = o.Cases(rand.New(rand.NewPCG(7331, h.Sum64())))
			}
		}
	}
	slices.SortStableFunc(cases, func(a, b *opdef.Call) int {
		return max(elements(a), goldenMostElements) - max(elements(b), goldenMostElements)
	})
	var chosen []*opdef.Call
	seen := map[string]bool{}
	for _, c := range cases { // those that show a new combination of dtypes or another value of an argument
		fresh := false
		for _, f := range features(c) {
			fresh = fresh || !seen[f]
		}
		if len(chosen) > 0 && (!fresh || len(chosen) == goldenCallsPerOp || elements(c) > 4*goldenMostElements) {
			continue
		}
		for _, f := range features(c) {
			seen[f] = true
		}
		chosen = append(chosen, c)
	}
	if len(chosen) == 0 {
		return nil
	}
	for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		has := func(c *opdef.Call) bool { return strings.Contains(signature(c), dt.String()) }
		wide := slices.IndexFunc(chosen, func(c *opdef.Call) bool { return strings.Contains(signature(c), "float64") })
		if wide >= 0 && !slices.ContainsFunc(chosen, has) {
			chosen = append(chosen, chosen[wide].Map(func(a opdef.Arg) *tensor.Tensor {
				if a.Tensor.DType != tensor.Float64 || a.Tensor.Wrapped {
					return a.Tensor
				}
				n := tensor.New(dt, a.Tensor.Shape, tensor.Data[float64](a.Tensor)).Rounded()
				n.RequiresGrad = a.Tensor.RequiresGrad
				return n
			}))
		}
	}
	return chosen
}

func elements(c *opdef.Call) int {
	n := 0
	for _, a := range c.Tensors() {
		n += a.Tensor.Numel()
	}
	return n
}

// features are what a call can show: the dtypes of its tensors together, words,
// flags and absent arguments, the sign of an int, whether a float is zero or infinite.
func features(c *opdef.Call) []string {
	fs := []string{signature(c)}
	args, kwargs := c.Python()
	for i, it := range kwargs.Items {
		fs = append(fs, feature(fmt.Sprint("keyword ", i), it.Value)...)
	}
	for i, v := range args {
		fs = append(fs, feature(fmt.Sprint("argument ", i), v)...)
	}
	return fs
}

func feature(where string, v value.Value) []string {
	switch v := v.(type) {
	case nil, bool, string:
		return []string{where + " " + value.Repr(v)}
	case int64:
		return []string{fmt.Sprint(where, " ", cmp.Compare(v, 0))}
	case float64:
		return []string{fmt.Sprint(where, " float ", v == 0, v-v != 0)}
	}
	return nil
}

// signature is the dtypes of the tensors of a call.
func signature(c *opdef.Call) string {
	s := ""
	for _, a := range c.Tensors() {
		s += a.Tensor.DType.String() + " "
	}
	return s
}

// callJSON is the line of a call: arguments that have their default at the end
// and keywords that have it are left out.
func callJSON(e *opdef.Entry, c *opdef.Call) string {
	args, kwargs := c.Python()
	var positional []opdef.Param
	keywords := map[string]opdef.Param{}
	for _, p := range c.Entry.Schema.Params {
		if p.Keyword {
			keywords[p.Name] = p
		} else {
			positional = append(positional, p)
		}
	}
	for i, p := range positional {
		if p.Type.Base == "ignored" && p.Required {
			args[i] = true
		}
	}
	isDefault := func(p opdef.Param, v value.Value) bool {
		return !p.Required && (v == nil || value.Repr(v) == p.Default)
	}
	for len(args) > 0 && isDefault(positional[len(args)-1], args[len(args)-1]) {
		args = args[:len(args)-1]
	}
	var b strings.Builder
	b.WriteString("{" + operatorJSON(e) + ",")
	if r := c.Random(); r != "" {
		fmt.Fprintf(&b, `"random":%q,`, r)
	}
	b.WriteString(`"args":` + valueJSON(value.NewList(args...)))
	var given []string
	for _, it := range kwargs.Items {
		if name := it.Key.(string); !isDefault(keywords[name], it.Value) {
			given = append(given, strconv.Quote(name)+":"+valueJSON(it.Value))
		}
	}
	if given != nil {
		b.WriteString(`,"kwargs":{` + strings.Join(given, ",") + `}`)
	}
	b.WriteByte('}')
	return b.String()
}

func operatorJSON(e *opdef.Entry) string {
	return fmt.Sprintf(`"op":%q,"names":["%s"]`, e.Schema.Name, strings.Join(e.Names, `","`))
}

func valueJSON(v value.Value) string {
	list := func(vs []value.Value) string {
		var items []string
		for _, it := range vs {
			items = append(items, valueJSON(it))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	switch v := v.(type) {
	case nil:
		return "null"
	case bool, int64:
		return fmt.Sprint(v)
	case float64:
		s := value.FloatRepr(v)
		if v-v != 0 {
			return `{"float":"` + s + `"}`
		}
		return s
	case complex128:
		return fmt.Sprintf(`{"complex":"%v,%v"}`, real(v), imag(v))
	case string:
		return strconv.Quote(v)
	case tensor.DType:
		return `{"dtype":"` + v.String() + `"}`
	case value.Slice:
		return `{"slice":` + list([]value.Value{v.Start, v.Stop, v.Step}) + `}`
	case value.Ellipsis:
		return `{"ellipsis":true}`
	case value.Device:
		return `{"device":"` + v.String() + `"}`
	case *value.Sequence:
		if v.Kind == value.Tuple {
			return `{"tuple":` + list(v.Items) + `}`
		}
		return list(v.Items)
	case *tensor.Tensor:
		return tensorJSON(v)
	}
	panic(fmt.Sprintf("a %T among the arguments of a case", v))
}

func tensorJSON(t *tensor.Tensor) string {
	var texts []string
	switch {
	case t.DType.IsComplex():
		for _, c := range tensor.Data[complex128](t) {
			texts = append(texts, fmt.Sprintf("%v,%v", real(c), imag(c)))
		}
	case t.DType.IsFloat():
		for _, x := range tensor.Data[float64](t) {
			texts = append(texts, fmt.Sprint(x))
		}
	default:
		for _, n := range tensor.Data[int64](t) {
			texts = append(texts, fmt.Sprint(n))
		}
	}
	shape := strings.ReplaceAll(tensor.ShapeString(t.Shape), " ", "")
	s := `{"tensor":"` + t.DType.String() + shape + `","data":"` + strings.Join(texts, " ") + `"`
	if t.RequiresGrad {
		s += `,"grad":true`
	}
	return s + "}"
}
