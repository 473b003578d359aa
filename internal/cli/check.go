package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

type checkOptions struct {
	selection
	json string
}

func newCheckCmd(a *app) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check PATH...",
		Short: "Find inf and nan in recorded values",
		Long: `Check every recorded value for inf and nan, and print min, max, mean, std and
norm of each tensor over its finite elements. Tables are printed for calls that
hold inf or nan, and for all with --all. Exit code 1 means that some were found.`,
		Example: `  optool check op_tools_results
  optool check --all --op torch.nn.functional.softmax op_tools_results
  optool check --json overflow.jsonl op_tools_results`,
		Args: somePaths,
	}
	all := cmd.Flags().Bool("all", false, "print the tables of all calls")
	cmd.RunE = func(cmd *cobra.Command, paths []string) error { return runCheck(cmd, a, &o, *all && !a.quiet, paths) }
	o.addFlags(cmd)
	addJSONFlag(cmd, &o.json)
	return cmd
}

// A checked is what one capture gave.
type checked struct {
	title    string
	rows     []reports.OverflowRow
	lines    []*reports.Result
	failures []error
	selected bool
	overflow bool
}

func runCheck(cmd *cobra.Command, a *app, o *checkOptions, all bool, paths []string) error {
	if err := o.parse(cmd, a, "OVERFLOW_CHECK"); err != nil {
		return err
	}
	j, err := a.openJSON(o.json, "none")
	if err != nil {
		return err
	}
	defer j.close()
	var t tally
	values, found := 0, 0
	bar := a.newProgress("check")
	err = ordered(cmd.Context(), a.jobs, scan(cmd.Context(), paths, capture.Options{}), o.check, func(c checked) error {
		t.walked++
		t.refused += len(c.failures)
		if c.selected {
			t.captures++
		}
		values += len(c.rows)
		if len(c.failures) > 0 || c.overflow || all {
			bar.pause()
		}
		for _, err := range c.failures {
			a.warn("%v", err)
		}
		for i := range c.lines {
			if err := j.result(c.lines[i]); err != nil {
				return err
			}
		}
		if c.overflow {
			found++
		}
		bar.add(c.overflow)
		if !c.overflow && !all {
			return nil
		}
		return c.write(j.text(), a.tableWidth())
	})
	bar.end()
	s := checkSummary{Kind: "summary", Captures: t.captures, Values: values, Overflow: found, Refused: t.refused,
		Interrupted: err != nil}
	empty := o.found(cmd.Context(), t, paths)
	s.Exit = s.exit()
	if empty != nil {
		s.Exit = ExitFailed
	}
	if err := cmp.Or(j.write(s), err, empty); err != nil {
		return failed(err)
	}
	if !a.quiet {
		if _, err := fmt.Fprintln(j.text(), s.text()); err != nil {
			return failed(err)
		}
	}
	return exitWith(s.Exit)
}

// A checkSummary is the last line of a check.
type checkSummary struct {
	Kind        string `json:"kind"`
	Captures    int    `json:"captures"`
	Values      int    `json:"values"`
	Overflow    int    `json:"overflow"` // captures that hold inf or nan
	Refused     int    `json:"refused"`  // files and directories that could not be read
	Interrupted bool   `json:"interrupted"`
	Exit        int    `json:"exit_code"`
}

func (s checkSummary) exit() int {
	switch {
	case s.Interrupted:
		return ExitInterrupted
	case s.Overflow > 0:
		return ExitDiffers
	case s.Refused > 0:
		return ExitFailed
	}
	return ExitOK
}

func (s checkSummary) text() string {
	return fmt.Sprintf("%s, %s: inf or nan in %s", reports.Count(s.Captures, "capture"),
		reports.Count(s.Values, "value"), reports.Count(s.Overflow, "capture"))
}

func (c *checked) write(w io.Writer, width int) error {
	if _, err := fmt.Fprintln(w, reports.OneLine(c.title)); err != nil {
		return err
	}
	if err := reports.WriteOverflow(w, width, c.rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

func (o *checkOptions) check(f found) checked {
	if f.err != nil {
		return checked{failures: []error{f.err}}
	}
	e := f.entry
	if ok, err := o.filter.Match(e, o.read); err != nil || !ok {
		return checked{failures: errs(err)}
	}
	call, _ := e.Load(capture.LoadOptions{Read: o.read})
	defer call.Close()
	c := checked{selected: true, title: fmt.Sprintf("%s    forward_id: %s    %s", call.Op,
		forwardID(e, call.Identifier), e.Rel)}
	for _, k := range capture.Kinds() {
		err := call.Err(k)
		switch {
		case errors.Is(err, capture.ErrNoFile):
		case err != nil:
			c.refuse(e, call.Op, k, err)
		default:
			c.file(e, call, k)
		}
	}
	return c
}

// phaseOf says to which phase of a call the file of kind k belongs, and how
// targets in it are named.
func phaseOf(k capture.Kind) (phase, target string) {
	switch k {
	case capture.Input, capture.After:
		return "input", "input"
	case capture.Output:
		return "forward", "output"
	case capture.GradInputs:
		return "backward", "grad"
	}
	return "backward", "grad_output"
}

func (c *checked) refuse(e *capture.Entry, op string, k capture.Kind, err error) {
	phase, _ := phaseOf(k)
	c.failures = append(c.failures, err)
	reason := err.Error()
	c.lines = append(c.lines, &reports.Result{
		Capture: e.Rel, Op: op, ForwardID: known(e.ID), Phase: phase, Verdict: verdict.Invalid, Reason: reason,
	})
}

// file checks the leaves of one file.
func (c *checked) file(e *capture.Entry, call *capture.Call, k capture.Kind) {
	vs, err := value.Leaves(call.Values(k))
	if err != nil {
		c.refuse(e, call.Op, k, &capture.FileError{Path: e.RelPath(capture.Device, k), Err: err})
		return
	}
	phase, target := phaseOf(k)
	label := k.String()
	for i, v := range vs {
		row := reports.OverflowRow{Name: fmt.Sprintf("%s %s[%d]", call.Op, label, i)}
		line := &reports.Result{
			Label: fmt.Sprintf("%s[%d]", label, i), Stats: &reports.Stats{},
			Capture: e.Rel, Op: call.Op, ForwardID: known(e.ID), Phase: phase,
			Target: fmt.Sprintf("%s[%d]", target, i), Verdict: verdict.Pass,
		}
		if err := examine(v, &row, line); err != nil {
			c.refuse(e, call.Op, k, &capture.FileError{Path: e.RelPath(capture.Device, k), Err: err})
			continue
		}
		if row.Overflow {
			c.overflow = true
			line.Verdict, line.Reason = verdict.Fail, overflowText(row.NaN, row.Inf)
		}
		c.rows, c.lines = append(c.rows, row), append(c.lines, line)
	}
}

// examine fills in what a value's statistics are.
func examine(v value.Value, row *reports.OverflowRow, line *reports.Result) error {
	switch v := v.(type) {
	case float64:
		countSpecial(row, math.IsNaN(v), math.IsInf(v, 0))
	case complex128:
		countSpecial(row, math.IsNaN(real(v)) || math.IsNaN(imag(v)), math.IsInf(real(v), 0) || math.IsInf(imag(v), 0))
	case *tensor.Tensor:
		if !v.DType.Computable() {
			return nil
		}
		st, err := statsOf(v)
		if err != nil {
			return err
		}
		row.Tensor, row.NaN, row.Inf, row.Overflow = true, st.nan, st.inf, st.nan+st.inf > 0
		row.Min, row.Max, row.Mean, row.Std, row.Norm = st.min, st.max, st.mean, st.std, st.norm
		dtype := v.DType.String()
		line.DType, line.Shape, line.Numel = &dtype, nonNil(v.Shape), &st.numel
		line.Min, line.Max, line.Mean, line.Std, line.Norm = finite(st.min), finite(st.max), finite(st.mean),
			finite(st.std), reports.Num(st.norm)
	}
	line.NaN, line.Inf = row.NaN, row.Inf
	return nil
}

// finite is x for JSON, null where a statistic does not exist.
func finite(x float64) *reports.Number {
	if math.IsNaN(x) {
		return nil
	}
	return reports.Num(x)
}

func overflowText(nan, inf int) string {
	var parts []string
	if nan > 0 {
		parts = append(parts, fmt.Sprintf("%d nan", nan))
	}
	if inf > 0 {
		parts = append(parts, fmt.Sprintf("%d inf", inf))
	}
	return strings.Join(parts, ", ")
}

func countSpecial(row *reports.OverflowRow, nan, inf bool) {
	switch {
	case nan:
		row.NaN = 1
	case inf:
		row.Inf = 1
	}
	row.Overflow = nan || inf
}
