package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/metric"
)

// A rowsSummary is the last record of compare --rows.
type rowsSummary struct {
	Kind     string         `json:"kind"` // "summary"
	Captures int            `json:"captures"`
	Compared int            `json:"compared"`
	Differ   int            `json:"differ"`
	Origins  int            `json:"origins"`
	First    *reports.Place `json:"first"`
	Logits   *logitsRecord  `json:"logits"`
}

// A logitsRecord is what the difference of two batches does to the last result.
type logitsRecord struct {
	KL     *reports.Number `json:"kl"`
	Flips  int             `json:"flips"`
	MaxAbs *reports.Number `json:"max_abs"`
}

// runCompareRows compares the rows of one batch with those of another.
func runCompareRows(cmd *cobra.Command, a *app, o *compareOptions, paths []string) error {
	if err := o.parse(cmd, a, "AUTOCOMPARE"); err != nil {
		return err
	}
	reg := a.known()
	tol, err := o.tolerances.load(reg)
	if err != nil {
		return err
	}
	settings := append(a.operatorSettings(), o.tolerances.settings(tol)...)
	j, err := a.openRecords(o.records, a.run("none", settings...))
	if err != nil {
		return err
	}
	defer j.close()
	opt := step.Options{Options: replay.Options{Registry: reg, Tolerances: tol, Read: o.read}}
	if err := a.oneProgram(cmd, "--rows", paths...); err != nil {
		return err
	}
	var traces [2]*step.Trace
	o.clock.start()
	lim := o.clock.limits
	refused := 0
	var starting []readiness
	for i, path := range paths {
		n := 0
		if traces[i], n, err = a.readStep(cmd, path, lim, opt, &starting); err != nil {
			return err
		}
		refused += n
	}
	rows, err := metric.CompareRows(cmd.Context(), traces[0], traces[1], opt)
	if err != nil {
		return failed(err)
	}
	if err := a.writeRows(j, rows); err != nil {
		return failed(err)
	}
	if err := j.close(); err != nil {
		return failed(err)
	}
	switch {
	case len(rows.Differ) > 0:
		return &exitError{ExitDiffers, nil}
	case refused > 0 || rows.Compared == 0 || rows.Unlike():
		return &exitError{ExitFailed, nil}
	}
	return nil
}

func (a *app) writeRows(j *jsonOutput, rows *metric.Rows) error {
	s := rowsSummary{Kind: "summary", Captures: rows.Calls, Compared: rows.Compared, Differ: len(rows.Differ),
		Origins: rows.Origins()}
	if rows.Logits != nil {
		s.Logits = &logitsRecord{reports.Num(rows.Logits.KL), len(rows.Logits.Flips), reports.Num(rows.Logits.MaxAbs)}
	}
	if d := rows.First(); d != nil {
		s.First = &reports.Place{Capture: d.A.Entry.Rel, Target: d.Target}
	}
	if j.lines != nil {
		for _, d := range rows.Differ {
			if !d.Origin && d != rows.First() {
				continue // it passes on what another began
			}
			if err := j.write(d.Record()); err != nil {
				return err
			}
		}
		if err := j.write(&s); err != nil {
			return err
		}
	}
	return a.printRows(j.text(), rows)
}

// printRows writes the screen.
func (a *app) printRows(w io.Writer, rows *metric.Rows) error {
	st := a.style()
	if rows.Compared == 0 {
		_, err := fmt.Fprintf(w, "%s in both runs; the rows of A were found in %s\n", reports.Count(rows.Calls, "call"),
			reports.Plural(rows.Calls, "no place", "none of them"))
		return err
	}
	d := rows.First()
	if d == nil {
		_, err := fmt.Fprintln(w, st.Wrap(equalRows(rows), 2))
		return err
	}
	text := fmt.Sprintf("DIFFERS: %s of %s: %s", d.Target, d.A, d.Reason())
	fmt.Fprintln(w, st.Wrap(text, 2))
	for _, line := range []string{d.A.Entry.Rel, d.A.Entry.Module, d.A.Entry.Location} {
		if line != "" {
			fmt.Fprintf(w, "  %s\n", reports.OneLine(line))
		}
	}
	fmt.Fprintf(w, "\n%d of %s %s; %d of %s the same bits\n", len(rows.Differ),
		reports.Count(rows.Compared, "call"), reports.Plural(len(rows.Differ), "differs", "differ"), rows.Origins(),
		reports.Plural(rows.Origins(), "them reads", "them read"))
	if e := rows.Logits; e != nil {
		fmt.Fprintf(w, "last result: KL %.3g, %s, largest change %.3g\n", e.KL, reports.Count(len(e.Flips), "flip"),
			e.MaxAbs)
	}
	_, err := fmt.Fprintf(w, "\nnext: %s\n", reports.OneLine(fmt.Sprintf("optool replay --tables %s %s",
		quotePath(pathOf(d.A.Entry)), quotePath(pathOf(d.B.Entry)))))
	return err
}

// equalRows says what equal rows are worth.
func equalRows(r *metric.Rows) string {
	switch {
	case r.Unlike():
		return fmt.Sprintf("The rows of %d of %s of A were found in B, and are the same bit for bit. "+
			"The runs seem to be of different programs: the other calls were not compared.", r.Compared,
			reports.Count(r.Of, "call"))
	case r.Compared < r.Of:
		return fmt.Sprintf("The rows of %d of %s are the same bit for bit; those of the others were not found.",
			r.Compared, reports.Count(r.Of, "call"))
	}
	return "The rows of " + reports.Plural(r.Compared, "the only call", "all %d calls") + " are the same bit for bit."
}
