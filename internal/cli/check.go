package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/overflow"
)

type checkOptions struct {
	selection
	records outputs
	keep    runFlags
	clock   clock

	registry *opdef.Registry
}

func newCheckCmd(a *app) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check PATH...",
		Short: "Find NaN and infinity in recorded values",
		Long: `check looks for NaN and infinity in every recorded value. It prints minimum, maximum,
mean, standard deviation and norm of the finite elements of each tensor. It also
reads files of values: .pt, .pth, .pt2, .safetensors, .npy, .npz and distributed
checkpoints. It prints tables of the calls that hold NaN or infinity; --all prints
all tables.

Exit code 1: some values are NaN or infinity. 3: no value could be checked.`,
		Example: `  optool check op_tools_results
  optool check --all --op torch.nn.functional.softmax op_tools_results
  optool check --json overflow.jsonl op_tools_results
  optool check model.safetensors`,
		Args: somePaths,
	}
	all := cmd.Flags().Bool("all", false, "print the tables of all calls")
	cmd.RunE = func(cmd *cobra.Command, paths []string) error {
		return o.keep.exit(runCheck(cmd, a, &o, *all && !a.quiet, paths))
	}
	o.addFlags(cmd)
	o.records.addFlags(cmd)
	o.keep.addFlags(cmd)
	o.clock.addFlags(cmd, "the check of one call or file")
	return cmd
}

// A checked is what one capture gave.
type checked struct {
	of     found
	call   *overflow.Call // nil if not selected
	hidden string         // the setting that left it out
	bytes  int64
	err    error
}

func runCheck(cmd *cobra.Command, a *app, o *checkOptions, all bool, paths []string) error {
	if err := o.parse(cmd, a, "OVERFLOW_CHECK"); err != nil {
		return err
	}
	o.clock.start()
	s := &overflow.Summary{Kind: "summary", Settings: o.settings()}
	o.registry = a.known()
	walked, digest, tables := 0, reports.NewDigest(nil), &heldTables{}
	dir, err := a.openRun(cmd, o.keep, paths, "OVERFLOW_CHECK", func(c *reports.JournalCall) error {
		walked++
		results, err := c.Results()
		if err == nil {
			s.Add(overflowCall(results))
			digest.Add(&reports.Finding{Results: results})
		}
		return err
	})
	if err != nil {
		return err
	}
	defer dir.close()
	if dir != nil && dir.Ended() {
		return dir.again(a, &reportOptions{tables: all, files: o.records.files})
	}
	j, err := a.openRecordsIn(dir, o.records, a.run("none", s.Settings...))
	if err != nil {
		return err
	}
	defer j.close()
	bar := a.newProgress("check", "capture")
	entries := readAhead(cmd.Context(), dir.scan(cmd.Context(), paths, capture.Options{Loose: true}, bar), bytesAhead,
		func(e *capture.Entry) bool { return o.filter.Surely(e) })
	err = ordered(cmd.Context(), a.jobs, entries, func(f found) checked {
		return o.check(cmd.Context(), dir, j, f)
	}, func(c checked) error {
		if stop := new(stopError); errors.As(c.err, &stop) {
			return stop.error
		}
		if c.of.finished {
			bar.add(false, c.bytes)
			return nil
		}
		walked++
		if c.err != nil {
			s.Refused++
			bar.warn(a, c.err)
		}
		s.Settings.Hide(c.hidden)
		if c.call == nil {
			bar.add(false, c.bytes)
			return nil
		}
		s.Add(c.call)
		defer c.call.Results.Close()
		return a.checked(c, all, j, bar, digest, tables)
	})
	bar.end()
	err = cmp.Or(err, tables.write(j.text(), a.style(), digest.NotFinite()))
	var empty error
	if s.Interrupted = cmd.Context().Err() != nil; s.Interrupted {
		err = nil
	} else if dir == nil || dir.part == nil {
		empty = o.found(tally{captures: s.Captures, walked: walked, refused: s.Refused}, paths)
	}
	s.Exit = checkExit(s)
	if empty != nil {
		s.Exit = ExitFailed
	}
	err = cmp.Or(j.write(s), err, empty)
	j.ended = err == nil && !s.Interrupted
	if err != nil {
		return failed(errors.Join(err, j.end(a)))
	}
	if err := a.writeChecked(j.text(), s); err != nil {
		return failed(err)
	}
	return a.unwritten(s.Exit, j.end(a))
}

// writeChecked writes the totals.
func (a *app) writeChecked(w io.Writer, s *overflow.Summary) error {
	if !a.quiet {
		if err := s.Settings.Write(w, a.outputWidth()); err != nil {
			return err
		}
	}
	return s.Write(w, a.style())
}

// check checks one capture, unless that is finished.
func (o *checkOptions) check(ctx context.Context, dir *runDir, j *jsonOutput, f found) checked {
	if f.finished {
		return checked{of: f}
	}
	if f.err != nil {
		return checked{of: f, err: f.err}
	}
	bytes := f.entry.Bytes()
	if name, err := o.hides(f.entry); err != nil || name != "" {
		return checked{of: f, bytes: bytes, err: err, hidden: name}
	}
	if err := dir.begin(j, f.entry.Rel); err != nil {
		return checked{of: f, err: err}
	}
	call, err := within(ctx, o.clock.limits, bytes, func() (*overflow.Call, error) {
		c := overflow.New(f.entry)
		c.Registry = o.registry
		return c, replay.Guard(func() error {
			c.Check(f.entry, o.read)
			return nil
		})
	})
	if err != nil {
		if call == nil {
			call = overflow.New(f.entry)
		}
		call.GiveUp(f.entry, err)
	}
	return checked{of: f, call: call, bytes: bytes}
}

// checked prints and writes what a call gave.
func (a *app) checked(done checked, all bool, j *jsonOutput, bar *progress, digest *reports.Digest,
	tables *heldTables) error {
	c := done.call
	found := c.Overflow()
	for _, err := range c.Failures {
		bar.warn(a, err)
	}
	for part := range c.Results.Parts() {
		digest.Add(&reports.Finding{Results: part})
		for _, r := range part {
			if err := j.result(r); err != nil {
				return err
			}
		}
		if !found && !all {
			continue
		}
		if err := c.Write(tables, a.tableWidth(), part); err != nil {
			return err
		}
		if tables.Len() >= mostHeld {
			if err := bar.print(func() error { _, err := tables.WriteTo(j.text()); return err }); err != nil {
				return err
			}
		}
	}
	if err := c.Results.Err(); err != nil {
		return err
	}
	bar.add(found, done.bytes)
	return j.done(&reports.Done{Capture: done.of.entry.Rel, Index: done.of.index, Results: c.Results.Len()})
}

// heldTables are tables that wait until it is known which call made the first value that is not finite: a line about
// that comes before them.
type heldTables struct{ bytes.Buffer }

// mostHeld is how many bytes of tables wait; more are printed, and the line comes later.
const mostHeld = 1 << 20

// write writes the line, if there is one, and the tables.
func (h *heldTables) write(w io.Writer, st reports.Style, line string) error {
	if line != "" {
		fmt.Fprintf(w, "%s\n\n", st.Paint(verdict.Fail, st.Wrap(reports.OneLine(line), 2)))
	}
	_, err := h.WriteTo(w)
	return err
}

func checkExit(s *overflow.Summary) int {
	switch {
	case s.Interrupted:
		return ExitInterrupted
	case s.Overflow > 0:
		return ExitDiffers
	case s.Refused > 0 || s.Captures > 0 && s.Values == 0:
		return ExitFailed
	}
	return ExitOK
}
