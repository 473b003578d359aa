package reports

import (
	"fmt"
	"io"
	"strings"

	"github.com/optool/optool/verdict"
)

// A Finding is what is said of one capture: its results, which are not empty,
// and the rows of op_tools' table.
type Finding struct {
	Results []*Result
	Rows    []CompareRow
	Casts   [][]string // name, target, action and config of values that were cast for the device
}

// NewFinding returns a finding with the rows that the results make.
func NewFinding(results []*Result) *Finding {
	f := &Finding{Results: results}
	for _, r := range results {
		if row, ok := r.CompareRow(); ok {
			f.Rows = append(f.Rows, row)
		}
	}
	return f
}

// Worst is the worst verdict of the results.
func (f *Finding) Worst() verdict.Verdict {
	worst := verdict.Skipped
	for _, r := range f.Results {
		worst = verdict.Worse(worst, r.Verdict)
	}
	return worst
}

// Bad reports whether any result is a finding.
func (f *Finding) Bad() bool {
	for _, r := range f.Results {
		if r.Finding() {
			return true
		}
	}
	return false
}

// Write prints which call it is, what is wrong with it, how to run it again,
// and op_tools' table, which keeps to width as WriteCompare does.
func (f *Finding) Write(w io.Writer, width int) error {
	first := f.Results[0]
	if _, err := fmt.Fprintf(w, "%s  %s\n  capture  %s\n", strings.ToUpper(string(f.Worst())), OneLine(first.Op),
		OneLine(first.Capture)); err != nil {
		return err
	}
	for _, r := range f.Results {
		if r.Verdict == verdict.Pass && r.Reason == "" {
			continue
		}
		target := r.Target
		if target == "" {
			target = "call"
		}
		if r.Layout != "" {
			target += " (" + r.Layout + ")"
		}
		if _, err := fmt.Fprintf(w, "  %-8s %s: %s\n", OneLine(target), r.Verdict, OneLine(r.Reason)); err != nil {
			return err
		}
	}
	if f.Bad() {
		if first.Repro != nil {
			fmt.Fprintf(w, "  again    %s\n", OneLine(*first.Repro))
		}
		if first.Saved != "" {
			fmt.Fprintf(w, "  saved to %s\n", OneLine(first.Saved))
		}
	}
	if err := WriteCasts(w, width, f.Casts); err != nil {
		return err
	}
	if err := WriteCompare(w, width, f.Rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
