package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/explanation"
	"github.com/optool/optool/reports/results"
)

type explainOptions struct {
	selection
	tolerances toleranceFile
	target     string
	all        bool
}

func newExplainCmd(a *app) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain PATH",
		Short: "Explain one wrong value: its bound, its errors, where they are, and why",
		Long: `explain runs a recorded call again, as replay does, and prints everything known about
one value: the rule that decided and its numbers, a histogram of the errors in units
in the last place, percentiles, the smallest tolerance that would pass, the ten worst
elements, where the errors are, and which mistakes reproduce the recorded value. It
says if a wrong result equals an argument or a result of another call.

explain takes the worst value of the first wrong call, one whose cause is known if there
is one, and names the other wrong values. Choose others by --target, --op
and --where 'id in [12, 19]'; --all explains every wrong call in the order of the
program. The exit codes are those of replay.`,
		Example: `  optool explain op_tools_results
  optool explain --op torch.matmul --target output[0] op_tools_results`,
		Args: onePath,
		RunE: func(cmd *cobra.Command, paths []string) error { return runExplain(cmd, a, &o, paths) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	o.tolerances.addFlag(cmd)
	f.StringVar(&o.target, "target", "", "explain this `VALUE`, such as output[0] or grad[1], not the worst one")
	f.BoolVar(&o.all, "all", false, "explain every wrong call, not only the first")
	return cmd
}

func runExplain(cmd *cobra.Command, a *app, o *explainOptions, paths []string) error {
	opt, err := o.judging(cmd, a, o.tolerances)
	if err != nil {
		return err
	}
	ctx, lim := cmd.Context(), newLimits(0, referenceTimeout)
	wrong, err := o.wrongCalls(ctx, a, "explain", lim, opt, paths)
	if len(wrong) == 0 {
		if failure := o.declareUnknown(ctx, a, opt, paths); failure != nil {
			return failed(failure)
		}
		return err
	}
	if !o.all {
		wrong = wrong[:1]
	}
	exit := ExitOK
	for i, e := range wrong {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		code, err := within(ctx, lim, e.Bytes(), func() (int, error) { return a.explain(ctx, e, o, opt, paths) })
		if ctx.Err() != nil {
			return failed(ctx.Err())
		}
		if errors.As(err, new(*exitError)) {
			return err // about the flags or the output, for every call
		}
		if err != nil { // of this call
			a.warn("%s: %v", e.Rel, err)
			code = ExitFailed
		}
		if exit != ExitDiffers && code != ExitOK { // 1 goes before 3
			exit = code
		}
	}
	return exitWith(exit)
}

// explain prints a value of a capture and returns the exit code.
func (a *app) explain(ctx context.Context, e *capture.Entry, o *explainOptions, opt replay.Options,
	paths []string) (int, error) {
	call := replay.Open(e, opt)
	defer call.Close()
	outcome := call.Compare()
	found := results.OfReplay(e, outcome, "", "")
	if _, err := o.choose(found.Results, nil); err != nil {
		return 0, err
	}
	all, err := new(searches).causesOf(ctx, paths, e, call, outcome, &causes.Allowance{})
	if err != nil {
		return 0, err
	}
	at, err := o.choose(found.Results, all)
	if err != nil {
		return 0, err
	}
	x := inFull(call, &outcome.Results[at], found.Results[at], all)
	x.Again, x.Others = o.repro(e), otherValues(found.Results, at, all)
	if dir := recordingAbove(e); dir != "" && x.Unexplained && outcome.Results[at].Phase == replay.Backward &&
		keptWrong(e, outcome, all) {
		x.Step = strings.Join(o.command("step", quotePath(dir)), " ")
	}
	if err := x.Write(a.Out, a.style()); err != nil {
		return 0, failed(err) // which no other call can write either
	}
	if err := printDeclarations(a.Out, declarations(call, e)); err != nil {
		return 0, failed(err)
	}
	s := reports.NewSummary()
	s.Add(x.Result)
	return comparisonExit(s, 0), nil
}

// inFull is all that is known about a result of a call. rec is the record of the result.
func inFull(call *replay.Call, r *replay.Result, rec *reports.Result,
	found []reports.Cause) *explanation.Explanation {
	x := &explanation.Explanation{Result: rec, Profile: call.Profile(r)}
	if rec.Rule != nil {
		x.Rule = *rec.Rule
	}
	if r.Compared != nil && r.Compared.Limit != nil {
		x.Limit = func(index []int) (l compare.Limit, err error) {
			return l, replay.Guard(func() error { l = r.Compared.Limit(index); return nil })
		}
	}
	for _, c := range found {
		if slices.Contains(c.Targets, rec.Target) {
			x.Causes = append(x.Causes, c)
		}
	}
	x.Settled = r.Verdict == verdict.Fail && r.Mistake != ""
	x.Unexplained = r.Verdict == verdict.Fail && r.Compared != nil && r.Device == "" && r.Layout == "" &&
		(r.Source != "device" || r.Phase != replay.Input) // causes of these are not looked for
	return x
}

// causeOf is the first cause of a value, nil if none was found.
func causeOf(r *reports.Result, found []reports.Cause) *reports.Cause {
	for i := range found {
		if c := &found[i]; !c.Pattern && slices.Contains(c.Targets, r.Target) {
			return c
		}
	}
	return nil
}

// shownOthers is how many other wrong values of a call are named.
const shownOthers = 4

// otherValues says what is known of the other wrong values of a call; "" if there are none.
func otherValues(rs []*reports.Result, at int, found []reports.Cause) string {
	var parts []string
	n := 0
	for i, r := range rs {
		if i == at || !r.Finding() || r.Target == rs[at].Target {
			continue
		}
		if n++; n > shownOthers {
			continue
		}
		text := r.Target + ": no cause found"
		if c := causeOf(r, found); c != nil {
			text = r.Target + ": " + c.Text
			if slices.Contains(c.Targets, rs[at].Target) {
				text = r.Target + ": the same cause"
			}
		}
		parts = append(parts, text)
	}
	if n > shownOthers {
		parts = append(parts, fmt.Sprintf("%d more", n-shownOthers))
	}
	if n == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + " (--target VALUE explains one)"
}

// choose is the number of the result to explain: the one of --target, or the worst. Among those it is the first with a
// cause, which is the one that replay tells.
func (o *explainOptions) choose(rs []*reports.Result, found []reports.Cause) (int, error) {
	if o.target == "" {
		at := 0
		for i, r := range rs {
			switch worse := r.Verdict.Rank() - rs[at].Verdict.Rank(); {
			case worse > 0, worse == 0 && causeOf(rs[at], found) == nil && causeOf(r, found) != nil:
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
	args := append(o.command("explain"), o.tolerances.repro()...)
	if o.target != "" {
		args = append(args, "--target", quote(o.target))
	}
	return strings.Join(append(args, quotePath(pathOf(e))), " ")
}
