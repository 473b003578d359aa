package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/explanation"
	"github.com/optool/optool/reports/results"
)

type explainOptions struct {
	selection
	tolerances string
	target     string
}

func newExplainCmd(a *app) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain PATH",
		Short: "One compared value in full: its rule, its errors, where they lie, and why",
		Long: `Run a recorded call again, as replay does, and print all that is known of one
value: the rule that decided with its numbers, a histogram of the errors in units
in the last place, percentiles, the smallest tolerance that would pass, the ten
worst elements, the dimensions and indices that hold the errors, a map, and the
mistakes that reproduce what was recorded.

Of a tree the first wrong call is explained; its worst value, or --target.

Exit codes are those of replay.`,
		Example: `  optool explain op_tools_results
  optool explain --op torch.matmul --target output[0] op_tools_results`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("explain: want one PATH, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, paths []string) error { return runExplain(cmd, a, &o, paths) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.tolerances, "tolerances", "", "tolerances from a YAML `FILE`")
	f.StringVar(&o.target, "target", "", "the `VALUE` to explain, such as output[0] or grad[1], instead of the worst")
	return cmd
}

func runExplain(cmd *cobra.Command, a *app, o *explainOptions, paths []string) error {
	if err := o.parse(cmd, a, "AUTOCOMPARE"); err != nil {
		return err
	}
	reg := ops.Default()
	tol, err := loadTolerances(o.tolerances, reg)
	if err != nil {
		return err
	}
	ctx, lim := cmd.Context(), newLimits(0, referenceTimeout)
	opt := replay.Options{Registry: reg, Tolerances: tol, Read: o.read}
	e, t, err := o.firstWrong(ctx, a, lim, opt, paths)
	switch {
	case err != nil:
		return failed(err)
	case e == nil:
		if err := o.found(ctx, t, paths); err != nil {
			return err
		}
		if t.captures == 0 {
			return exitWith(ExitFailed)
		}
		fmt.Fprintf(a.Out, "none of %s failed; --target explains a value of one capture\n",
			reports.Count(t.captures, "capture"))
		return exitWith(t.code())
	}
	exit, err := within(ctx, lim, e.Bytes(), func() (int, error) { return a.explain(e, o, opt) })
	if err != nil {
		return failed(err)
	}
	return exitWith(exit)
}

// firstWrong is the first call below the paths that fails, or the only call.
func (o *explainOptions) firstWrong(ctx context.Context, a *app, lim *limits, opt replay.Options,
	paths []string) (*capture.Entry, tally, error) {
	type judged struct {
		entry *capture.Entry
		found *reports.Finding
		bytes int64
		err   error
	}
	digest, bar := reports.NewDigest(), a.newProgress("explain", "capture")
	bar.index(ctx, paths)
	var t tally
	var first, last *capture.Entry
	err := ordered(ctx, a.jobs, scan(ctx, paths, capture.Options{}), func(f found) judged {
		if f.err != nil {
			return judged{err: f.err}
		}
		bytes := f.entry.Bytes()
		if ok, err := o.filter.Match(f.entry, o.read); err != nil || !ok {
			return judged{bytes: bytes, err: err}
		}
		bar.begin(f.entry.Op)
		outcome, err := within(ctx, lim, bytes, func() (*replay.Outcome, error) {
			return replay.Run(f.entry, opt), nil
		})
		if err != nil {
			outcome = replay.NotDone(f.entry.Op, err)
		}
		return judged{entry: f.entry, found: results.OfReplay(f.entry, outcome, "", ""), bytes: bytes}
	}, func(j judged) error {
		t.walked++
		bar.add(j.found != nil && j.found.Bad(), j.bytes)
		switch {
		case j.err != nil:
			t.refused++
			bar.warn(a, j.err)
		case j.entry != nil:
			t.captures++
			last = j.entry
			if digest.Add(j.found); digest.First() == j.found {
				first = j.entry
			}
		}
		return nil
	})
	bar.end()
	if first == nil && t.captures == 1 {
		first = last
	}
	return first, t, err
}

// explain prints a value of a capture and returns the exit code.
func (a *app) explain(e *capture.Entry, o *explainOptions, opt replay.Options) (int, error) {
	call := replay.Open(e, opt)
	defer call.Close()
	outcome := call.Compare()
	found := results.OfReplay(e, outcome, "", "")
	at, err := o.choose(found.Results)
	if err != nil {
		return 0, err
	}
	x := explanation.Explanation{Result: found.Results[at]}
	if r := found.Results[at].Rule; r != nil {
		x.Rule = *r
	}
	if got, want, ok := call.Pair(&outcome.Results[at]); ok && got.DType.IsFloat() {
		err := replay.Guard(func() (err error) {
			x.Profile, err = compare.NewProfile(got, want)
			return err
		})
		if err != nil {
			a.warn("%v", err)
		}
	}
	for _, c := range call.Causes(outcome, time.Now().Add(explainTime)) {
		if slices.Contains(c.Targets, x.Result.Target) {
			x.Causes = append(x.Causes, results.OfCause(e, c))
		}
	}
	x.Again = o.repro(e)
	if err := x.Write(a.Out, a.style()); err != nil {
		return 0, err
	}
	s := reports.NewSummary()
	s.Add(x.Result)
	return comparisonExit(s, 0), nil
}

// explainTime is how long causes are looked for.
const explainTime = 30 * time.Second

// choose is the number of the result to explain: the one that was asked for, or the worst.
func (o *explainOptions) choose(rs []*reports.Result) (int, error) {
	if o.target == "" {
		at := 0
		for i, r := range rs {
			if r.Verdict.Rank() > rs[at].Verdict.Rank() {
				at = i
			}
		}
		return at, nil
	}
	var have []string
	for i, r := range rs {
		if r.Target == o.target {
			return i, nil
		}
		have = append(have, cmp.Or(r.Target, "the call"))
	}
	return 0, usageError("--target %s: want one of %s", o.target, strings.Join(have, ", "))
}

// repro is the command line that explains a capture again.
func (o *explainOptions) repro(e *capture.Entry) string {
	args := append(variables(os.Environ(), "AUTOCOMPARE"), program(), "explain")
	if o.tolerances != "" {
		args = append(args, "--tolerances", quotePath(o.tolerances))
	}
	if o.target != "" {
		args = append(args, "--target", quote(o.target))
	}
	return strings.Join(append(args, quotePath(pathOf(e))), " ")
}
