package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/overflow"
)

type checkOptions struct {
	selection
	records outputs
}

func newCheckCmd(a *app) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check PATH...",
		Short: "Find inf and nan in recorded values",
		Long: `Check every recorded value for inf and nan, and print min, max, mean, std and
norm of each tensor over its finite elements. Files of values (.pt, .pth,
.safetensors, .npy, .npz) are checked by name. Tables are printed for calls that
hold inf or nan, and for all with --all. Exit code 1 means that some were found.`,
		Example: `  optool check op_tools_results
  optool check --all --op torch.nn.functional.softmax op_tools_results
  optool check --json overflow.jsonl op_tools_results
  optool check model.safetensors`,
		Args: somePaths,
	}
	all := cmd.Flags().Bool("all", false, "print the tables of all calls")
	cmd.RunE = func(cmd *cobra.Command, paths []string) error { return runCheck(cmd, a, &o, *all && !a.quiet, paths) }
	o.addFlags(cmd)
	o.records.addFlags(cmd)
	return cmd
}

// A checked is what one capture gave.
type checked struct {
	call   *overflow.Call // nil if not selected
	hidden string         // the setting that left it out
	bytes  int64
	err    error
}

func runCheck(cmd *cobra.Command, a *app, o *checkOptions, all bool, paths []string) error {
	if err := o.parse(cmd, a, "OVERFLOW_CHECK"); err != nil {
		return err
	}
	s := &overflow.Summary{Kind: "summary", Settings: o.settings()}
	j, err := a.openRecords(o.records, a.run("none", s.Settings...))
	if err != nil {
		return err
	}
	defer j.close()
	walked := 0
	bar := a.newProgress("check", "capture")
	bar.index(cmd.Context(), paths)
	entries := scan(cmd.Context(), paths, capture.Options{Loose: true})
	err = ordered(cmd.Context(), a.jobs, entries, o.check, func(c checked) error {
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
		return a.checked(c, all, j, bar)
	})
	bar.end()
	var empty error
	if s.Interrupted = cmd.Context().Err() != nil; s.Interrupted {
		err = nil
	} else {
		empty = o.found(cmd.Context(), tally{captures: s.Captures, walked: walked, refused: s.Refused}, paths)
	}
	s.Exit = checkExit(s)
	if empty != nil {
		s.Exit = ExitFailed
	}
	if err := cmp.Or(j.write(s), err, empty, j.end(a)); err != nil {
		return failed(err)
	}
	if !a.quiet {
		if err := s.Settings.Write(j.text(), a.outputWidth()); err != nil {
			return failed(err)
		}
		if _, err := fmt.Fprintln(j.text(), s); err != nil {
			return failed(err)
		}
	}
	return exitWith(s.Exit)
}

// check checks one capture.
func (o *checkOptions) check(f found) checked {
	if f.err != nil {
		return checked{err: f.err}
	}
	bytes := f.entry.Bytes()
	if name, err := o.hides(f.entry); err != nil || name != "" {
		return checked{bytes: bytes, err: err, hidden: name}
	}
	return checked{call: overflow.Check(f.entry, o.read), bytes: bytes}
}

// checked prints and writes what a call gave.
func (a *app) checked(done checked, all bool, j *jsonOutput, bar *progress) error {
	c := done.call
	found := c.Overflow()
	for _, err := range c.Failures {
		bar.warn(a, err)
	}
	for _, r := range c.Results {
		if err := j.result(r); err != nil {
			return err
		}
	}
	bar.add(found, done.bytes)
	if !found && !all {
		return nil
	}
	return bar.print(func() error { return c.Write(j.text(), a.tableWidth()) })
}

func checkExit(s *overflow.Summary) int {
	switch {
	case s.Interrupted:
		return ExitInterrupted
	case s.Overflow > 0:
		return ExitDiffers
	case s.Refused > 0 || s.Unwritten > 0 && s.Values == 0:
		return ExitFailed
	}
	return ExitOK
}
