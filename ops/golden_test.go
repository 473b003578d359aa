package ops_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

const goldenDir = "testdata/golden"

// A goldenRecord is one line of what record.py writes.
type goldenRecord struct {
	Torch  string `json:"torch"` // of the header alone
	Op     string
	Names  []string
	Random string
	Args   []json.RawMessage
	Kwargs json.RawMessage
	Out    json.RawMessage
	After  map[string]json.RawMessage
	From   []int
	Grads  map[string]json.RawMessage

	at string // file and line
}

// TestGolden compares every operator under every name, forward and backward,
// with what torch gave, by the operator's own error model. An operator or a name
// without a value must be in missing.tsv, with the reason.
func TestGolden(t *testing.T) {
	reg := ops.Default()
	names, entries, seen := map[string]bool{}, map[string]bool{}, map[int]bool{}
	for _, r := range readGolden(t, goldenDir) {
		for _, name := range r.Names {
			j := &goldenJudge{record: r}
			j.guard(func() { j.run(reg, name) })
			for _, p := range j.problems {
				if !known(goldenDeviations, r.Op, p, seen) {
					t.Errorf("%s: %s: %s", r.at, name, p)
				}
			}
			names[name] = true
			if j.call != nil {
				entries[j.call.Entry.Schema.Name] = true
			}
		}
	}
	for i, d := range goldenDeviations {
		if !seen[i] {
			t.Errorf("no %s deviates from torch in %q any more (%s)", d.op, d.problem, d.why)
		}
	}
	missing := readMissing(t)
	for _, e := range reg.Entries() {
		ours := slices.DeleteFunc(slices.Clone(e.Names), foreign)
		if len(ours) > 0 {
			checkGoldenCoverage(t, "op "+e.Schema.Name, entries[e.Schema.Name], missing)
		}
		for _, n := range ours {
			checkGoldenCoverage(t, n, names[n], missing)
		}
	}
	t.Logf("%d of %d operators, %d names", len(entries), len(reg.Entries()), len(names))
}

// TestGoldenNotices changes one element of what torch gave, of every record, by
// a few units of its dtype: nearly every such error must be found.
func TestGoldenNotices(t *testing.T) {
	shorttest.Computes(t)
	planted, found := 0, 0
	for _, r := range readGolden(t, goldenDir) {
		if r.Random != "" {
			continue
		}
		j := &goldenJudge{record: r, plant: scaleLargest}
		j.guard(func() { j.run(ops.Default(), r.Names[0]) })
		if !j.planted {
			continue
		}
		planted++
		if len(j.problems) > 0 {
			found++
		} else {
			t.Logf("%s: %s: not found", r.at, r.Names[0])
		}
	}
	t.Logf("%d of %d errors found", found, planted)
	if planted < 2000 || found < planted*99/100 {
		t.Errorf("%d of %d errors found", found, planted)
	}
}

// scaleLargest multiplies the largest finite element by 1 + max(1/64, 32 eps).
func scaleLargest(t *tensor.Tensor) (*tensor.Tensor, bool) {
	if !t.DType.IsFloat() {
		return t, false
	}
	v := slices.Clone(tensor.Data[float64](t))
	at, largest := -1, 0.0
	for i, x := range v {
		if a := math.Abs(x); a > largest && !math.IsInf(x, 0) {
			at, largest = i, a
		}
	}
	if at < 0 {
		return t, false
	}
	v[at] *= 1 + max(0x1p-6, 32*t.DType.Eps())
	return tensor.New(t.DType, t.Shape, v).Rounded(), true
}

// foreign reports whether a name is another library's, of which torch knows nothing.
func foreign(name string) bool {
	library, ok := strings.CutPrefix(name, "torch.ops.")
	return ok && !strings.HasPrefix(library, "aten.") || !strings.HasPrefix(name, "torch.")
}

func checkGoldenCoverage(t *testing.T, what string, has bool, missing map[string]string) {
	t.Helper()
	switch why := missing[what]; {
	case !has && why == "":
		t.Errorf("%s has no golden value: record it (%s/record.py), or add %q to missing.tsv", what,
			goldenDir, what+"\treason")
	case has && why != "":
		t.Errorf("%s has golden values, but is in missing.tsv: %s", what, why)
	}
}

// A goldenDeviation is a known difference from torch: a problem of an operator
// that contains a text, with the reason.
type goldenDeviation struct{ op, problem, why string }

var goldenDeviations = []goldenDeviation{
	{"trace", "gradient of self", "torch's gradient is wrong for more rows than columns; its own gradcheck refuses it"},
	{"as_strided_scatter", "gradient of self", "torch's gradient is wrong: it keeps what was overwritten"},
	{"native_group_norm", "gradient of input",
		"torch's gradients of mean and rstd are wrong; its gradcheck refuses them"},
	{"logical_not", "torch has a gradient", "torch passes the gradient through the in-place form as if it did nothing"},
	{"matrix_exp", "elements are NaN where a number", "torch gives NaN in bfloat16"},
	{"cond", "gradient of A", "the smallest singular value is small: torch is 70 ulp off, the bound has 4"},
	{"cholesky_inverse", "gradient of self", "torch's gradient also reads the other triangle of a factor that has one"},
	{"cholesky_solve", "gradient of input2", "torch's gradient also reads the other triangle of a factor that has one"},
	{"convolution_backward", "torch has a gradient", "gradients of gradients are not computed"},
	{"silu", "gradient of self", "torch's gradient of the in-place form is another one for complex numbers"},
	{"solve_ex", "output 1", "torch has an info for every matrix, not for every system"},
	{"ormqr", "torch has a gradient", "the gradient is not computed"},
	{"_foreach_clamp_min.List", "gradient of", "torch gives the gradient of a tie to self, not half of it to each"},
	{"matrix_power", "not defined for dtype bfloat16", "torch 2 takes bfloat16 where nothing is inverted"},
	{"histogram.edges", "want dtype float32 or float64, got bfloat16", "torch 2 takes bfloat16"},
	{"histogramdd.edges", "want dtype float32 or float64, got bfloat16", "torch 2 takes bfloat16"},
	{"histogramdd.counts", "want dtype float32 or float64, got bfloat16", "torch 2 takes bfloat16"},
}

// known reports whether the problem of an operator is a known deviation, which
// is then marked as seen.
func known(deviations []goldenDeviation, op, problem string, seen map[int]bool) bool {
	for i, d := range deviations {
		if d.op == op && strings.Contains(problem, d.problem) {
			seen[i] = true
			return true
		}
	}
	return false
}

func readGolden(t *testing.T, dir string) []*goldenRecord {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden values: %v", err)
	}
	var records []*goldenRecord
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			r := &goldenRecord{at: fmt.Sprintf("%s:%d", filepath.Base(file), n)}
			if err := json.Unmarshal(lines.Bytes(), r); err != nil {
				t.Fatalf("%s: %v", r.at, err)
			}
			if r.Torch == "" {
				records = append(records, r)
			}
		}
		if lines.Err() != nil {
			t.Fatal(lines.Err())
		}
	}
	return records
}

func readMissing(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(goldenDir + "/missing.tsv")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, why, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		missing[name] = why
	}
	return missing
}

// A goldenJudge runs one record under one of its names.
type goldenJudge struct {
	record   *goldenRecord
	call     *opdef.Call
	forward  *opdef.Forward
	problems []string

	// plant, if set, changes a value of torch's and reports whether it did.
	plant   func(t *tensor.Tensor) (*tensor.Tensor, bool)
	planted bool
}

func (j *goldenJudge) report(format string, args ...any) {
	j.problems = append(j.problems, fmt.Sprintf(format, args...))
}

func (j *goldenJudge) add(problem string) {
	if problem != "" {
		j.problems = append(j.problems, problem)
	}
}

func (j *goldenJudge) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			j.report("panic: %v", p)
		}
	}()
	f()
}

// disturbed is a value of torch's with the error that is to be planted.
func (j *goldenJudge) disturbed(t *tensor.Tensor) *tensor.Tensor {
	if j.plant != nil && !j.planted {
		t, j.planted = j.plant(t)
	}
	return t
}

func (j *goldenJudge) run(reg *opdef.Registry, name string) {
	r := j.record
	args, kwargs := parseGoldenArgs(r.Args), &value.Dict{}
	if r.Kwargs != nil {
		kwargs = parseGoldenDict(r.Kwargs)
	}
	given := append(value.Tensors(value.NewList(args...)), value.Tensors(kwargs)...)
	var err error
	if j.call, err = reg.Bind(name, args, kwargs); err != nil {
		j.report("%v", err)
		return
	}
	if j.forward, err = j.call.Forward(); err != nil {
		j.report("%v", err)
		return
	}
	if (j.call.Random() != "") != (r.Random != "") {
		j.report("recorded as random %q, is %q", r.Random, j.call.Random())
		return
	}
	j.outputs(goldenLeaves(parseGolden(r.Out)))
	j.after(given)
	if len(r.Grads) > 0 {
		j.gradients(given)
	}
}

// outputs judges the results.
func (j *goldenJudge) outputs(got []value.Value) {
	want := goldenLeaves(j.forward.Value)
	if n := len(got) - j.call.Entry.Schema.Numbers(); n == len(want) {
		got = got[:n]
	}
	if list := j.forward.After["self"]; j.forward.Value == nil && len(list) > 0 && len(got) == len(list) {
		return // torch 2 returns the list that it changed, which after judges
	}
	if len(got) != len(want) {
		j.report("torch returns %d values, the operator %d", len(got), len(want))
		return
	}
	var wrong []int
	var problems []string
	for i, g := range got {
		if t, ok := g.(*tensor.Tensor); ok {
			got[i] = j.disturbed(t)
		}
	}
	for i := range got {
		g, isTensor := got[i].(*tensor.Tensor)
		w, wantTensor := want[i].(*tensor.Tensor)
		p := ""
		switch {
		case isTensor != wantTensor || !isTensor && value.Repr(got[i]) != value.Repr(want[i]):
			p = fmt.Sprintf("torch: output %d is %s, want %s", i, goldenText(got[i]), goldenText(want[i]))
		case isTensor:
			bound := j.call.OutBound(j.forward, slices.Index(j.forward.Outs, w))
			p = j.check(fmt.Sprintf("output %d", i), g, w, bound)
		}
		if p != "" {
			wrong, problems = append(wrong, i), append(problems, p)
		}
	}
	if len(problems) > 0 && !j.accepted(got, wrong) {
		j.problems = append(j.problems, problems...)
	}
}

// accepted asks the operator whether results that differ are right nevertheless.
func (j *goldenJudge) accepted(got []value.Value, wrong []int) bool {
	if len(got) != len(j.forward.Outs) {
		return false
	}
	ts := make([]*tensor.Tensor, len(got))
	for i, g := range got {
		t, ok := g.(*tensor.Tensor)
		if !ok || t.DType != j.forward.Outs[i].DType || !slices.Equal(t.Shape, j.forward.Outs[i].Shape) {
			return false
		}
		ts[i] = t
	}
	as, ok := j.call.Accept(ts, j.forward.Outs)
	return ok && !slices.ContainsFunc(wrong, func(i int) bool { return !as[i].OK })
}

// after judges the arguments that the call changed.
func (j *goldenJudge) after(given []*tensor.Tensor) {
	type changed struct {
		value *tensor.Tensor
		bound opdef.Bound
	}
	now := map[*tensor.Tensor]changed{}
	for i, t := range j.call.Written() {
		now[t] = changed{j.forward.Outs[i], j.call.OutBound(j.forward, i)}
	}
	for _, a := range j.call.Tensors() {
		if ts, k := j.forward.After[a.Name], max(a.Index, 0); k < len(ts) && ts[k] != nil {
			now[a.Tensor] = changed{ts[k], j.call.AfterBound(a.Name, k, ts[k])}
		}
	}
	for i, raw := range j.record.After {
		k, err := strconv.Atoi(i)
		if err != nil || k >= len(given) {
			j.report("no argument %s", i)
			continue
		}
		n, ok := now[given[k]]
		if !ok {
			j.report("argument %d changes, which the operator does not say", k)
			continue
		}
		got := j.disturbed(parseGolden(raw).(*tensor.Tensor))
		j.add(j.check(fmt.Sprintf("argument %d afterwards", k), got, n.value, n.bound))
	}
}

// gradients judges the gradients of the arguments.
func (j *goldenJudge) gradients(given []*tensor.Tensor) {
	if !j.call.Entry.HasGrad {
		if j.zeroGradients() {
			return
		}
		j.report("torch has a gradient, the operator none: %s", j.call.Entry.NoGrad)
		return
	}
	out := make([]*tensor.Tensor, len(j.forward.Outs))
	for _, k := range j.record.From {
		out[k] = incomingGradient(j.forward.Outs[k], k)
	}
	grads, err := j.call.Backward(j.forward, out, nil)
	if err != nil {
		j.report("backward: %v", err)
		return
	}
	for i, raw := range j.record.Grads {
		k, _ := strconv.Atoi(i)
		at := slices.IndexFunc(j.call.Tensors(), func(a opdef.Arg) bool { return a.Tensor == given[k] })
		if at < 0 {
			j.report("no argument %d among the tensors of the call", k)
			continue
		}
		a := j.call.Tensors()[at]
		got, _ := parseGolden(raw).(*tensor.Tensor)
		if got != nil {
			got = j.disturbed(got)
		}
		var want *tensor.Tensor
		if gs := grads[a.Name]; len(gs) > 0 {
			want = gs[max(a.Index, 0)]
		}
		what := "gradient of " + a.Name
		switch {
		case got == nil && want == nil:
		case want == nil:
			if !isZero(got) {
				j.report("%s: torch has one, the operator none", what)
			}
		case got == nil:
			if !isZero(want) {
				j.report("%s: torch has none", what)
			}
		default:
			b := j.call.GradBound(j.forward, out, grads, a.Name, max(a.Index, 0))
			j.add(j.check(what, got, want, b))
		}
	}
}

// zeroGradients reports whether torch's gradients are all zero, as those of
// results that do not change with small changes of the arguments.
func (j *goldenJudge) zeroGradients() bool {
	for _, raw := range j.record.Grads {
		if g, ok := parseGolden(raw).(*tensor.Tensor); ok && !isZero(g) {
			return false
		}
	}
	return true
}

func isZero(t *tensor.Tensor) bool {
	return !slices.ContainsFunc(tensor.Data[complex128](t), func(c complex128) bool { return c != 0 })
}

// incomingGradient is the gradient of result k, as record.py makes it.
func incomingGradient(t *tensor.Tensor, k int) *tensor.Tensor {
	v := make([]complex128, t.Numel())
	for i := range v {
		g := (float64((5*i+3*k)%8) - 3.5) / 4
		v[i] = complex(g, -g)
	}
	if t.DType.IsComplex() {
		return tensor.New(t.DType, t.Shape, v)
	}
	re := make([]float64, len(v))
	for i := range v {
		re[i] = real(v[i])
	}
	return tensor.New(t.DType, t.Shape, re)
}

var goldenTolerances, _ = compare.NewTolerances(nil, nil)

// check judges one tensor: torch's against the operator's.
func (j *goldenJudge) check(what string, got, want *tensor.Tensor, b opdef.Bound) string {
	gradient := strings.HasPrefix(what, "gradient")
	if j.record.Random != "" {
		if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
			return fmt.Sprintf("torch: %s is %s, want %s", what, got.Meta(), want.Meta())
		}
		return ""
	}
	operand, round := tensor.Invalid, tensor.Invalid
	for _, a := range j.call.Tensors() {
		switch dt := a.Tensor.DType; {
		case dt.IsHalf():
			operand = dt
		case dt == tensor.Float32 && gradient:
			round = dt // torch computes gradients of operands of two precisions in the lower one
		}
	}
	m := compare.Model{Exact: b.Class == opdef.Exact, ULPs: b.ULPs, Scale: b.Scale, Covers: b.Covers, Terms: b.Terms,
		Coarse: b.Coarse, Trivial: true, Operand: operand, Round: round, Else: b.Else, Steps: b.Steps,
		OtherDType: b.OtherDType}
	tol, _ := goldenTolerances.For(j.call.Name, "", what, got.DType)
	c := compare.Check(got, want, m, tol, nil)
	switch c.Verdict {
	case verdict.Pass, verdict.Warn, verdict.Mistrusted:
		return ""
	}
	return fmt.Sprintf("torch: %s: %s", what, c.Reason)
}

// Values as record.py writes them.

func goldenLeaves(v value.Value) []value.Value {
	leaves, err := value.Leaves([]value.Value{v})
	if err != nil {
		panic(err)
	}
	return leaves
}

func goldenText(v value.Value) string {
	if t, ok := v.(*tensor.Tensor); ok {
		return t.Meta()
	}
	return value.Repr(v)
}

func parseGoldenArgs(raw []json.RawMessage) []value.Value {
	args := make([]value.Value, len(raw))
	for i, r := range raw {
		args[i] = parseGolden(r)
	}
	return args
}

// parseGoldenDict keeps the order of the keys.
func parseGoldenDict(raw json.RawMessage) *value.Dict {
	d := &value.Dict{}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	mustParse(dec.Token()) // {
	for dec.More() {
		key := mustParse(dec.Token())
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			panic(err)
		}
		d.Items = append(d.Items, value.Item{Key: key, Value: parseGolden(v)})
	}
	return d
}

func mustParse[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func parseGolden(raw json.RawMessage) value.Value {
	switch raw[0] {
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			panic(err)
		}
		return value.NewList(parseGoldenArgs(items)...)
	case '{':
		return parseGoldenObject(raw)
	case '"', 'n', 't', 'f':
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			panic(err)
		}
		return v
	}
	if s := string(raw); strings.ContainsAny(s, ".eE") {
		return mustParse(strconv.ParseFloat(s, 64))
	}
	return mustParse(strconv.ParseInt(string(raw), 10, 64))
}

func parseGoldenObject(raw json.RawMessage) value.Value {
	var o struct {
		Tensor, Data, Float, Complex, DType, Device string
		Grad, Ellipsis                              bool
		Tuple, Slice                                []json.RawMessage
		Dict                                        json.RawMessage
		Layout, Memory                              string
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		panic(err)
	}
	switch {
	case o.Tensor != "":
		t := parseGoldenTensor(o.Tensor, o.Data)
		t.RequiresGrad = o.Grad
		return t
	case o.Float != "":
		return mustParse(strconv.ParseFloat(o.Float, 64))
	case o.Complex != "":
		return parseGoldenComplex(o.Complex)
	case o.DType != "":
		dt, ok := tensor.ParseDType(o.DType)
		if !ok {
			panic("no dtype " + o.DType)
		}
		return dt
	case o.Device != "":
		return value.Device{Type: o.Device, Index: -1}
	case o.Ellipsis:
		return value.Ellipsis{}
	case o.Slice != nil:
		s := parseGoldenArgs(o.Slice)
		return value.Slice{Start: s[0], Stop: s[1], Step: s[2]}
	case o.Dict != nil:
		return parseGoldenDict(o.Dict)
	}
	return value.NewTuple(parseGoldenArgs(o.Tuple)...)
}

func parseGoldenComplex(s string) complex128 {
	re, im, _ := strings.Cut(s, ",")
	return complex(mustParse(strconv.ParseFloat(re, 64)), mustParse(strconv.ParseFloat(im, 64)))
}

// parseGoldenTensor reads "float32[2,3]" with its elements; those of random
// results are not recorded and read as zero.
func parseGoldenTensor(meta, data string) *tensor.Tensor {
	name, dims, _ := strings.Cut(strings.TrimSuffix(meta, "]"), "[")
	dt, ok := tensor.ParseDType(name)
	if !ok {
		panic("no dtype " + name)
	}
	var shape []int
	for s := range strings.FieldsFuncSeq(dims, func(r rune) bool { return r == ',' }) {
		shape = append(shape, mustParse(strconv.Atoi(s)))
	}
	texts := strings.Fields(data)
	n := tensor.Numel(shape)
	if len(texts) != n && len(texts) > 0 {
		panic(fmt.Sprintf("%d elements for %s", len(texts), meta))
	}
	switch {
	case dt.IsComplex():
		v := make([]complex128, n)
		for i, s := range texts {
			v[i] = parseGoldenComplex(s)
		}
		return tensor.New(dt, shape, v).Rounded()
	case dt.IsFloat():
		v := make([]float64, n)
		for i, s := range texts {
			v[i] = mustParse(strconv.ParseFloat(s, 64))
		}
		return tensor.New(dt, shape, v).Rounded()
	}
	v := make([]int64, n)
	for i, s := range texts {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			v[i] = n
		} else { // uint64, by its bits
			v[i] = int64(mustParse(strconv.ParseUint(s, 10, 64)))
		}
	}
	return tensor.New(dt, shape, v).Rounded()
}
