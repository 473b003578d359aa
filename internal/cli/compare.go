package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

type compareOptions struct {
	selection
	json       string
	tolerances string
	tables     bool
	times      bool
	threshold  float64
}

func newCompareCmd(a *app) *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "Compare recorded values, nothing is run",
		Long: `Compare two captures, two trees of captures or two .pth files value by value;
with A alone, the device/cpu pairs that op_tools saved under it. A (or device) is
judged, B (or cpu) is the reference.

A value passes if op_tools' allclose holds, or if every element is within one
unit in the last place of the reference rounded to its dtype. Whether a larger
difference is a bug depends on the op: replay knows, compare does not.

In two trees a capture belongs to the one with the same path; failing that, to
the one of the same op and id in the corresponding process.`,
		Example: `  optool compare op_tools_results
  optool compare run1/op_tools_results run2/op_tools_results
  optool compare --json result.jsonl a/output.pth b/output.pth
  optool compare --time old.jsonl new.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError("compare: want A or A and B, got %d paths", len(args))
			}
			switch {
			case o.times && len(args) != 2:
				return usageError("compare --time: want OLD and NEW, got %d paths", len(args))
			case o.threshold < 0:
				return usageError("--threshold: want at least 0, got %v", o.threshold)
			case cmd.Flags().Changed("threshold") && !o.times:
				return usageError("--threshold needs --time")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, paths []string) error {
			if o.times {
				return a.compareTimes(paths[0], paths[1], o.threshold/100, o.json)
			}
			return runCompare(cmd, a, &o, paths)
		},
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	addJSONFlag(cmd, &o.json)
	f.StringVar(&o.tolerances, "tolerances", "", "tolerances from a YAML `FILE`")
	f.BoolVar(&o.tables, "tables", false, "print op_tools' table of every capture, not only of findings")
	f.BoolVar(&o.times, "time", false,
		"A and B are JSON lines of optool time: what became slower or faster; exit code 1 if anything is slower")
	f.Float64Var(&o.threshold, "threshold", 0, "with --time, how many percent slower is no reason for exit code 1")
	return cmd
}

// A match is two sides to compare. In a saved failure both are of one entry.
type match struct {
	a, b         *capture.Entry
	aSide, bSide capture.Side
	kinds        []capture.Kind
	only         string // why there is nothing to compare: "only in A"
	err          error
}

// A compared is what one match gave.
type compared struct {
	results  []*reports.Result
	selected bool
	err      error
}

func runCompare(cmd *cobra.Command, a *app, o *compareOptions, paths []string) error {
	if err := o.parse(cmd, a, "AUTOCOMPARE"); err != nil {
		return err
	}
	tol, err := loadTolerances(o.tolerances)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	matches := savedPairs(ctx, paths[0])
	if len(paths) == 2 {
		if matches, err = corresponding(ctx, paths[0], paths[1]); err != nil {
			return failed(err)
		}
	}
	start := time.Now()
	j, err := a.openJSON(o.json, "none")
	if err != nil {
		return err
	}
	defer j.close()
	summary := reports.NewSummary()
	var t tally
	bar := a.newProgress("compare")
	err = ordered(ctx, a.jobs, matches,
		func(m match) compared { return o.compare(m, tol) },
		func(c compared) error {
			t.walked++
			if c.err != nil {
				t.refused++
				bar.pause()
				a.warn("%v", c.err)
			}
			if !c.selected {
				return nil
			}
			t.captures++
			finding := reports.NewFinding(c.results)
			bar.add(finding.Bad())
			for _, r := range c.results {
				summary.Add(r)
				if err := j.result(r); err != nil {
					return err
				}
			}
			if !finding.Bad() && !o.tables {
				return nil
			}
			bar.pause()
			return finding.Write(j.text(), a.tableWidth())
		})
	bar.end()
	if err != nil && ctx.Err() == nil {
		return failed(err)
	}
	summary.Interrupted = ctx.Err() != nil
	if err == nil {
		if t.walked == 0 && len(paths) == 1 {
			return &exitError{ExitFailed, fmt.Errorf("%s: no saved device/cpu pairs found", paths[0])}
		}
		if err := o.found(cmd.Context(), t, paths); err != nil {
			return err
		}
	}
	return a.finish(j, summary, t, start)
}

// savedPairs yields the failures saved with both sides under a path.
func savedPairs(ctx context.Context, path string) iter.Seq[match] {
	return func(yield func(match) bool) {
		for e, err := range capture.Scan(ctx, []string{path}, capture.Options{}) {
			if err == nil && !e.IsPair() {
				continue
			}
			m := match{a: e, b: e, bSide: capture.Host, err: err, kinds: []capture.Kind{capture.Input, capture.Output,
				capture.GradInputs}}
			if !yield(m) {
				return
			}
		}
	}
}

// corresponding pairs the captures of two trees, in the order of the first;
// those of the second that have no partner come last.
func corresponding(ctx context.Context, pathA, pathB string) (iter.Seq[match], error) {
	as, errsA := collect(ctx, pathA)
	bs, errsB := collect(ctx, pathB)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if errs := append(errsA, errsB...); len(errs) > 0 && (len(as) == 0 || len(bs) == 0) {
		return nil, errs[0]
	}
	partner := map[*capture.Entry]*capture.Entry{}
	taken := map[*capture.Entry]bool{}
	pair := func(key func(*capture.Entry) any) {
		free := map[any]*capture.Entry{}
		for _, b := range bs {
			if k := key(b); k != nil && !taken[b] {
				free[k] = b
			}
		}
		for _, a := range as {
			if b := free[key(a)]; b != nil && partner[a] == nil && !taken[b] {
				partner[a], taken[b] = b, true
			}
		}
	}
	if givenItself(as) && givenItself(bs) {
		partner[as[0]], taken[bs[0]] = bs[0], true
	}
	pair(func(e *capture.Entry) any { return e.Rel })
	rankA, rankB := processes(as), processes(bs)
	pair(func(e *capture.Entry) any {
		if e.Op == "" || e.ID < 0 {
			return nil
		}
		rank, ok := rankA[e]
		if !ok {
			rank = rankB[e]
		}
		return [3]any{e.Op, e.ID, rank}
	})
	return func(yield func(match) bool) {
		for _, err := range append(errsA, errsB...) {
			if !yield(match{err: err}) {
				return
			}
		}
		for _, a := range as {
			m := match{a: a, b: partner[a], kinds: capture.Kinds()}
			if m.b == nil {
				m.only = "only in " + pathA
			}
			if !yield(m) {
				return
			}
		}
		for _, b := range bs {
			if !taken[b] && !yield(match{a: b, only: "only in " + pathB}) {
				return
			}
		}
	}, nil
}

// givenItself reports whether the path of a scan was one capture or file.
func givenItself(entries []*capture.Entry) bool {
	return len(entries) == 1 && (entries[0].Rel == "." || entries[0].Layout == capture.File)
}

func collect(ctx context.Context, path string) (entries []*capture.Entry, errs []error) {
	for e, err := range capture.Scan(ctx, []string{path}, capture.Options{}) {
		if err != nil {
			errs = append(errs, err)
		} else {
			entries = append(entries, e)
		}
	}
	return entries, errs
}

// processes numbers the processes that recorded entries, by rank and pid.
func processes(entries []*capture.Entry) map[*capture.Entry]int {
	type process struct{ rank, pid int }
	all := map[process]bool{}
	for _, e := range entries {
		all[process{e.Rank, e.PID}] = true
	}
	var order []process
	for p := range all {
		order = append(order, p)
	}
	slices.SortFunc(order, func(a, b process) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return a.pid - b.pid
	})
	rank := map[*capture.Entry]int{}
	for _, e := range entries {
		rank[e] = slices.Index(order, process{e.Rank, e.PID})
	}
	return rank
}

// compare compares the files of one match.
func (o *compareOptions) compare(m match, tol *compare.Tolerances) compared {
	if m.err != nil {
		return compared{err: m.err}
	}
	if ok, err := o.filter.Match(m.a, o.read); err != nil || !ok {
		return compared{err: err}
	}
	c := &comparison{match: m, tol: tol, tolerances: o.tolerances, op: m.a.Op, compared: compared{selected: true}}
	if m.b == nil {
		c.whole("", verdict.Skipped, m.only)
		return c.compared
	}
	a, _ := m.a.Load(capture.LoadOptions{Read: o.read, Side: m.aSide, Only: capture.Of(m.kinds...)})
	defer a.Close()
	b, _ := m.b.Load(capture.LoadOptions{Read: o.read, Side: m.bSide, Only: capture.Of(m.kinds...)})
	defer b.Close()
	c.op = a.Op
	for _, k := range m.kinds {
		c.precision = tensor.Invalid
		if k == capture.GradInputs {
			c.precision = precision(a.Inputs())
		}
		c.kind(k, a, b)
	}
	if len(c.results) == 0 {
		c.whole("", verdict.Skipped, "the two sides have no file in common")
	}
	return c.compared
}

// A comparison is being made.
type comparison struct {
	compared
	match match
	tol   *compare.Tolerances
	op    string

	tolerances string // the file of tol, "" if there is none

	// precision is the dtype that gradients have the precision of although
	// op_tools stored them wider; Invalid if there is none.
	precision tensor.DType
}

// precision is the narrowest floating dtype among the tensors of a call.
func precision(ts []*tensor.Tensor) tensor.DType {
	least := tensor.Invalid
	for _, t := range ts {
		if t.DType.IsFloat() && (least == tensor.Invalid || t.DType.Eps() > least.Eps()) {
			least = t.DType
		}
	}
	return least
}

// kind compares one file of both sides.
func (c *comparison) kind(k capture.Kind, a, b *capture.Call) {
	phase, target := phaseOf(k)
	for _, err := range []error{a.Err(k), b.Err(k)} {
		if errors.Is(err, capture.ErrNoFile) {
			return
		}
		if err != nil {
			c.whole(phase, verdict.Invalid, err.Error())
			return
		}
	}
	got, errA := value.Leaves(a.Values(k))
	want, errB := value.Leaves(b.Values(k))
	if err := errors.Join(errA, errB); err != nil {
		c.whole(phase, verdict.Invalid, err.Error())
		return
	}
	if len(got) != len(want) {
		c.whole(phase, verdict.Fail, fmt.Sprintf("%s: %d values against %d", k, len(got), len(want)))
		return
	}
	for i := range got {
		label := target
		if len(got) > 1 {
			label = fmt.Sprintf("%s[%d]", target, i)
		}
		c.leaf(phase, fmt.Sprintf("%s[%d]", target, i), label, got[i], want[i])
	}
}

// whole adds the one result of a phase that could not be compared.
func (c *comparison) whole(phase string, v verdict.Verdict, reason string) {
	c.add(&reports.Result{Phase: phase, Verdict: v, Reason: reason})
}

func (c *comparison) add(r *reports.Result) {
	args := append(settings(os.Environ()), program(), "compare", "--tables")
	if c.tolerances != "" {
		args = append(args, "--tolerances", quotePath(c.tolerances))
	}
	args = append(args, quotePath(pathOf(c.match.a)))
	if b := c.match.b; b != nil && b != c.match.a {
		args = append(args, quotePath(pathOf(b)))
	}
	repro := strings.Join(args, " ")
	r.Capture, r.Op, r.ForwardID, r.Repro = c.match.a.Rel, c.op, known(c.match.a.ID), &repro
	c.results = append(c.results, r)
}

// leaf compares one value with its reference.
func (c *comparison) leaf(phase, target, label string, got, want value.Value) {
	g, isTensor := got.(*tensor.Tensor)
	w, wantTensor := want.(*tensor.Tensor)
	res := compare.Result{Verdict: verdict.Pass, Numel: 1, MaxULP: math.NaN()}
	dt, reference := tensor.Invalid, "python"
	var shape []int
	if isTensor && wantTensor {
		dt, shape, reference = g.DType, g.Shape, w.DType.String()
		res = c.tensors(label, g, w)
	} else {
		res.OpTools, res.Rule = compare.OpToolsValues(got, want), "op_tools' rule for values"
		if !res.OpTools.AllClose && (isTensor || wantTensor || value.Repr(got) != value.Repr(want)) {
			res.Verdict, res.Mismatched = verdict.Fail, 1
			res.Reason = fmt.Sprintf("%s against %s", value.Str(got), value.Str(want))
		}
	}
	r := results.OfComparison(&res, dt, shape)
	source := "captured"
	r.Phase, r.Target, r.Label, r.Verdict, r.Reason, r.Source, r.Reference = phase, target, label, res.Verdict,
		res.Reason, &source, &reference
	c.add(r)
}

// tensors compares two tensors: a unit in the last place is rounding whatever
// the op, and where that is not enough op_tools' tolerance decides.
func (c *comparison) tensors(label string, g, w *tensor.Tensor) (res compare.Result) {
	if err := readable(g, w); err != nil {
		return compare.Result{Verdict: verdict.Invalid, Reason: err.Error(), MaxULP: math.NaN()}
	}
	tol, override := c.tol.For(c.op, "", label, g.DType)
	model := compare.Model{ULPs: 1, Cast: true}
	if c.precision != tensor.Invalid && g.DType.IsFloat() && c.precision.Eps() > g.DType.Eps() {
		model.Round = c.precision
	}
	res = compare.Check(g, w, model, tol, override)
	if n := res.OpTools; override == nil && n.AllClose && (res.Verdict == verdict.Fail || res.Verdict == verdict.Warn) {
		res.Verdict, res.Reason, res.Mismatched = verdict.Pass, "", 0
		res.Rule = fmt.Sprintf("allclose atol=%g rtol=%g", n.Atol, n.Rtol)
	}
	return res
}

// readable reads the storages of tensors once, so that what follows cannot
// fail.
func readable(ts ...*tensor.Tensor) error {
	for _, t := range ts {
		if s := t.Storage(); s != nil {
			if _, err := s.Load(); err != nil {
				return err
			}
		}
	}
	return nil
}
