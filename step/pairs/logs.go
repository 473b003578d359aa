package pairs

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/alignment"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Digest is what is known of a tensor: the hash of a log, recorded statistics, or both computed of its elements.
type Digest struct {
	Hash string // of a log, "" if there is none

	like    *tensor.Tensor  // a summarised tensor of its dtype and shape; nil of a log
	known   bool            // the elements, so that the hashes below are known
	norm    float64         // sum of absolute values, as DebugMode's hash_fn="norm"
	xor     uint64          // of the bits in 64 bits, as hash_fn="hash_tensor"
	summary *tensor.Summary // nil of a log
}

// digestOf is the digest of a tensor of a recording.
func digestOf(t *tensor.Tensor) Digest {
	d := Digest{like: t, summary: t.Summary()}
	if d.summary != nil || !t.DType.Computable() || t.DType.IsComplex() || readable(t) != nil {
		return d
	}
	n := 0.0 // any number: all statistics are to be computed
	s, err := Summarise(t, &tensor.Summary{Max: &n, Min: &n, Mean: &n, Norm: &n})
	if err != nil {
		return d
	}
	d.summary, d.known = s, true
	switch {
	case t.DType.IsFloat():
		for _, x := range tensor.Data[float64](t) {
			d.norm += math.Abs(x)
			d.xor ^= math.Float64bits(x)
		}
	default:
		for _, x := range tensor.Data[int64](t) {
			d.norm += math.Abs(float64(x))
			d.xor ^= uint64(x)
		}
	}
	if like, err := tensor.Summarised(t.DType, slices.Clone(t.Shape), *s); err == nil {
		d.like = like // the elements are no longer needed
	}
	return d
}

// roundedHash is a hash of a log that prints six decimals.
var roundedHash = lazyregexp.New(`^-?\d\.\d{6}e[-+]\d+$`)

// same reports whether two digests are of equal tensors; known is false if that cannot be told.
func (d Digest) same(e Digest) (same, known bool) {
	switch {
	case d.Hash != "" && e.Hash != "":
		return d.Hash == e.Hash, true
	case d.Hash == "" && e.Hash != "":
		return e.same(d)
	case d.Hash != "":
		if !e.known {
			return false, false
		}
		if u, err := strconv.ParseUint(d.Hash, 10, 64); err == nil {
			return u == e.xor, true
		}
		x, err := strconv.ParseFloat(d.Hash, 64)
		if err != nil || x-x != 0 || e.norm-e.norm != 0 { // versions of DebugMode count what is not finite otherwise
			return false, false
		}
		order := 1e-10 // of sums in float64, relative
		if roundedHash().MatchString(d.Hash) {
			order = 1e-6
		}
		return math.Abs(x-e.norm) <= order*math.Abs(x), true
	case d.summary == nil || e.summary == nil:
		return false, false
	case d.like.DType != e.like.DType || d.like.Numel() != e.like.Numel():
		return false, true
	}
	tol, _ := (*compare.Tolerances)(nil).For("", "", "", d.like.DType)
	n, beyond := statistics(d.summary, e.summary, d.like.DType, float64(d.like.Numel()), tol)
	return len(beyond) == 0, n > 0
}

// differ says how two digests differ.
func (d Digest) differ(e Digest) string {
	if d.Hash == "" && e.Hash == "" {
		tol, _ := (*compare.Tolerances)(nil).For("", "", "", d.like.DType)
		if d.like.DType != e.like.DType || d.like.Numel() != e.like.Numel() {
			return fmt.Sprintf("%s against %s", d.like.Meta(), e.like.Meta())
		}
		_, beyond := statistics(d.summary, e.summary, d.like.DType, float64(d.like.Numel()), tol)
		return strings.Join(beyond, ", ")
	}
	return fmt.Sprintf("hash %s, in the other run %s", d.beside(e), e.beside(d))
}

// beside is the hash of a digest in the way of another one.
func (d Digest) beside(e Digest) string {
	if d.Hash != "" {
		return d.Hash
	}
	if _, err := strconv.ParseUint(e.Hash, 10, 64); err == nil {
		return strconv.FormatUint(d.xor, 10)
	}
	return strconv.FormatFloat(d.norm, 'g', -1, 64)
}

// CallsOf reads the calls of a tree of captures, with digests of what they read and give, in order.
func CallsOf(ctx context.Context, path string) (calls []LoggedCall, err error) {
	entries, errs := collect(ctx, path)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(entries) == 0 && len(errs) > 0 {
		return nil, errs[0]
	}
	inOrder(entries, processes(entries))
	for _, e := range entries {
		if e.Op == "" || strings.HasPrefix(e.Op, "Module.") {
			continue
		}
		rec, _ := e.Load(capture.LoadOptions{Only: capture.Of(capture.Input, capture.Output)})
		c := LoggedCall{Op: e.Op, Module: e.Module, Location: e.Location, Place: e.Rel}
		for _, t := range value.Tensors(value.NewTuple(rec.Args...)) {
			c.Inputs = append(c.Inputs, digestOf(t))
		}
		for _, k := range rec.Kwargs.Items {
			for _, t := range value.Tensors(k.Value) {
				c.Inputs = append(c.Inputs, digestOf(t))
			}
		}
		for _, t := range rec.Outputs() {
			c.Outputs = append(c.Outputs, digestOf(t))
		}
		rec.Close()
		calls = append(calls, c)
	}
	return calls, nil
}

// What a tree holds, for Statistics.
const (
	OtherTensors   = iota // msprobe's dumps with tensors, values, or nothing
	OnlyStatistics        // msprobe's statistics
	OtherRecorder         // calls of another recorder
)

// Statistics says what a tree holds, by its first call with a result.
func Statistics(ctx context.Context, path string) int {
	for e, err := range capture.Scan(ctx, []string{path}, capture.Options{}) {
		if err != nil || e.Op == "" {
			continue
		}
		if e.Layout != capture.MSProbe {
			return OtherRecorder
		}
		rec, _ := e.Load(capture.LoadOptions{Only: capture.Of(capture.Output)})
		ts := rec.Outputs()
		rec.Close()
		if len(ts) > 0 {
			if s := ts[0].Summary(); s != nil && s.Max != nil {
				return OnlyStatistics
			}
			break
		}
	}
	return OtherTensors
}

// A LogComparison is two logs of calls, aligned.
type LogComparison struct {
	Calls    [2]int
	Compared int // pairs with hashes on both sides
	Differ   int
	First    *reports.Place
	Findings []reports.FindingRecord
}

// CompareLogs aligns the calls of two logs by sequence and finds the first whose results differ, and those that only
// one has. names are those of the logs. Logs of two recorders see calls on two levels, torch functions and the kernels
// that they run, and are aligned by what these compute.
func CompareLogs(a, b []LoggedCall, names [2]string, recorders bool) *LogComparison {
	out := &LogComparison{Calls: [2]int{len(a), len(b)}}
	likeness := func(i, j int) int { return a[i].likeness(&b[j]) }
	m := &levels{}
	if recorders {
		a, b = told(a), told(b)
		m.read(a, b)
		likeness = m.likeness
	}
	al := alignment.Sequences(len(a), len(b), likeness, sameShapes, nil)
	for _, p := range al.Pairs {
		x, y := &a[p[0]], &b[p[1]]
		outputs, known := agree(x.Outputs, y.Outputs, recorders)
		if !known {
			continue
		}
		out.Compared++
		inputs, known := agree(x.Inputs, y.Inputs, recorders)
		if inputs = inputs || !known; inputs && outputs {
			continue
		}
		out.Differ++
		if out.First != nil {
			continue
		}
		f := reports.FindingRecord{Kind: "finding", Rule: verdict.Diverged, Op: x.Op, Target: "output",
			Capture: place(names[0], x), Peer: place(names[1], y), Module: x.Module, Location: x.Location}
		got, want := x.Outputs, y.Outputs
		switch {
		case !inputs:
			f.Target, got, want = "input", x.Inputs, y.Inputs
			f.Reason = "the first value that differs, though no result before it does"
		case known:
			f.Reason = "inputs agree, the result does not"
		default:
			f.Reason = "the first result that differs"
		}
		f.Reason += ": " + firstDifference(got, want)
		f.From = &reports.Place{Capture: f.Peer, Target: f.Target}
		out.First = &reports.Place{Capture: f.Capture, Target: f.Target}
		out.Findings = append(out.Findings, f)
	}
	if recorders {
		al.Missing, al.Inserted = m.alone(al)
	}
	alone := func(places []int, calls []LoggedCall, rule verdict.Rule, name string) {
		slices.Sort(places)
		for _, i := range places {
			c := &calls[i]
			out.Findings = append(out.Findings, reports.FindingRecord{Kind: "finding", Rule: rule, Op: c.Op,
				Capture: place(name, c), Module: c.Module, Location: c.Location, Reason: verdict.OnlyIn + name})
		}
	}
	alone(al.Missing, a, verdict.Missing, names[0])
	alone(al.Inserted, b, verdict.Inserted, names[1])
	return out
}

// place names a call of a log.
func place(log string, c *LoggedCall) string { return log + " " + c.Place }

// agree reports whether what two calls read, or give, is the same; known is false if that cannot be told. Two
// recorders see arguments in another order, and not all of the results.
func agree(x, y []Digest, recorders bool) (same, known bool) {
	if len(x) == 0 || len(y) == 0 {
		return false, false
	}
	if !recorders {
		return slices.EqualFunc(x, y, func(d, e Digest) bool { return d.Hash == e.Hash }), true
	}
	for _, d := range x {
		known = known || slices.ContainsFunc(y, func(e Digest) bool {
			_, told := d.same(e)
			return told
		})
	}
	restX, restY := unequal(x, y)
	return len(restX) == 0 || len(restY) == 0, known
}

// unequal are the values of each side that the other does not have.
func unequal(x, y []Digest) (restX, restY []Digest) {
	restY = slices.Clone(y)
	for _, d := range x {
		at := slices.IndexFunc(restY, func(e Digest) bool {
			same, _ := d.same(e)
			return same
		})
		if at < 0 {
			restX = append(restX, d)
		} else {
			restY = slices.Delete(restY, at, at+1)
		}
	}
	return restX, restY
}

// firstDifference says how the first values that differ do.
func firstDifference(x, y []Digest) string {
	restX, restY := unequal(x, y)
	if len(restX) == 0 || len(restY) == 0 {
		return fmt.Sprintf("%d values, in the other run %d", len(x), len(y))
	}
	return restX[0].differ(restY[0])
}

// likeness is how much speaks for two calls being the same one: name, dtypes and shapes, module.
func (c *LoggedCall) likeness(d *LoggedCall) int {
	if c.Op != d.Op {
		return 0
	}
	n := 1
	if c.Types == d.Types {
		n += 2
	}
	if c.Module == d.Module {
		n++
	}
	return n
}

// told are the calls of whose results something is known.
func told(calls []LoggedCall) []LoggedCall {
	return slices.DeleteFunc(slices.Clone(calls), func(c LoggedCall) bool { return c.Outputs == nil })
}

// levels aligns the calls of two recorders.
type levels struct {
	a, b             []LoggedCall
	kernelA, kernelB []string
	sizeA, sizeB     []int
}

func (m *levels) read(a, b []LoggedCall) {
	m.a, m.b = a, b
	for _, s := range []struct {
		calls   []LoggedCall
		kernels *[]string
		sizes   *[]int
	}{{m.a, &m.kernelA, &m.sizeA}, {m.b, &m.kernelB, &m.sizeB}} {
		for i := range s.calls {
			*s.kernels = append(*s.kernels, kernelOf(s.calls[i].Op))
			*s.sizes = append(*s.sizes, s.calls[i].size())
		}
	}
}

// likeness is how much speaks for two calls of two recorders being the same one: what they compute, the number of
// elements of the result, its digest.
func (m *levels) likeness(i, j int) int {
	n := 0
	if kin(m.kernelA[i], m.kernelB[j]) {
		n++
	}
	if m.sizeA[i] != m.sizeB[j] {
		return n
	}
	if same, _ := agree(m.a[i].Outputs, m.b[j].Outputs, true); same {
		n += 2
	} else if n == 0 {
		return 0
	}
	return n + 1
}

// alone are the calls that only one recorder has and that the other would have recorded: those of a kind that was
// paired, between the first and the last pair, that do not only move values.
func (m *levels) alone(al alignment.Alignment) (missing, inserted []int) {
	if len(al.Pairs) == 0 {
		return nil, nil
	}
	paired := map[string]bool{}
	for _, p := range al.Pairs {
		if kin(m.kernelA[p[0]], m.kernelB[p[1]]) {
			paired[m.kernelA[p[0]]], paired[m.kernelB[p[1]]] = true, true
		}
	}
	keep := func(places []int, kernels []string, side int) (out []int) {
		first, last := al.Pairs[0][side], al.Pairs[len(al.Pairs)-1][side]
		for _, i := range places {
			if i > first && i < last && paired[kernels[i]] && !slices.Contains(moving, kernels[i]) {
				out = append(out, i)
			}
		}
		return out
	}
	inserted = keep(al.Inserted, m.kernelB, 1)
	for _, i := range keep(al.Missing, m.kernelA, 0) {
		// Of two calls that do not depend on each other either may come first.
		if k := slices.IndexFunc(inserted, func(j int) bool {
			return kin(m.kernelA[i], m.kernelB[j]) && m.sizeA[i] == m.sizeB[j]
		}); k >= 0 {
			inserted = slices.Delete(inserted, k, k+1)
			continue
		}
		missing = append(missing, i)
	}
	return missing, inserted
}

// moving are kernels that only move values: recorders see different ones.
var moving = strings.Fields("view t reshape expand transpose permute squeeze unsqueeze slice select as_strided alias " +
	"detach clone contiguous flatten split chunk unbind copy to_copy")

// loggedType is a tensor in a log: t: f32[2, 4].
var loggedType = lazyregexp.New(`\w\[([\d, ]*)\]`)

// size is the number of elements of the first result, -1 if it is not known.
func (c *LoggedCall) size() int {
	if len(c.Outputs) > 0 && c.Outputs[0].like != nil {
		return c.Outputs[0].like.Numel()
	}
	_, result, _ := strings.Cut(c.Types, " -> ")
	m := loggedType().FindStringSubmatch(result)
	if m == nil {
		return -1
	}
	n := 1
	for _, d := range strings.Fields(strings.ReplaceAll(m[1], ",", " ")) {
		x, _ := strconv.Atoi(d)
		n *= x // of a log, only compared
	}
	return n
}

// kernelOf is what an operator computes, without what tells kernels from functions: aten::_softmax,
// torch.softmax; aten::native_layer_norm, torch.nn.functional.layer_norm; torch.Tensor.__add__, aten::add_.Tensor.
func kernelOf(op string) string {
	if _, name, ok := strings.Cut(op, "::"); ok {
		op, _, _ = strings.Cut(name, ".")
	}
	name := strings.Trim(Operator(op), "_")
	for _, prefix := range []string{"native_", "fused_", "unsafe_"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return strings.TrimSuffix(name, "_forward")
}

// kernels are those that functions of other names run.
var kernels = map[string]string{
	"linear":        "addmm mm bmm matmul",
	"matmul":        "mm bmm mv dot addmm",
	"bmm":           "baddbmm",
	"truediv":       "div",
	"true_divide":   "div",
	"divide":        "div",
	"rtruediv":      "div reciprocal mul",
	"radd":          "add",
	"iadd":          "add",
	"rmul":          "mul",
	"imul":          "mul",
	"multiply":      "mul",
	"rsub":          "sub",
	"subtract":      "sub",
	"square":        "pow",
	"getitem":       "index select slice",
	"to":            "to_copy",
	"float":         "to_copy",
	"half":          "to_copy",
	"bfloat16":      "to_copy",
	"type_as":       "to_copy",
	"cross_entropy": "nll_loss",
	"rms_norm":      "fused_rms_norm",
	"conv1d":        "convolution",
	"conv2d":        "convolution",
	"conv3d":        "convolution",
	"scaled_dot_product_attention": "scaled_dot_product_flash_attention scaled_dot_product_flash_attention_for_cpu " +
		"scaled_dot_product_efficient_attention scaled_dot_product_cudnn_attention scaled_dot_product_attention_math",
}

// kin reports whether two operators compute the same, perhaps one as a part of the other.
func kin(a, b string) bool {
	return a == b || slices.Contains(strings.Fields(kernels[a]), b) || slices.Contains(strings.Fields(kernels[b]), a)
}
