package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/rss"
	"github.com/optool/optool/reports"
)

// A comparison is what a command that compares found so far, and how it is printed.
type comparison struct {
	*reports.Summary
	digest *reports.Digest
	style  reports.Style
	json   *jsonOutput
	bar    *progress
	part   bool // of a run, which may have nothing to do
}

// A verdicts is the flag that names verdicts.
type verdicts []verdict.Verdict

func (v *verdicts) addFlag(cmd *cobra.Command) {
	cmd.Flags().Var(v, "fail-on", "exit with 1 also for these `VERDICTS`: unsupported, mistrusted, skipped, warn")
}

func (v *verdicts) String() string { return verdict.List(*v) }

// Type names the flag's values in the help.
func (v *verdicts) Type() string { return "VERDICTS" }

func (v *verdicts) Set(s string) error {
	may := []verdict.Verdict{verdict.Unsupported, verdict.Mistrusted, verdict.Skipped, verdict.Warn}
	for name := range strings.SplitSeq(s, ",") {
		if !slices.Contains(may, verdict.Verdict(name)) {
			return fmt.Errorf("%q: want some of %v", name, may)
		}
		*v = append(*v, verdict.Verdict(name))
	}
	return nil
}

// An order is the flag that orders findings.
type order reports.Order

func (o *order) addFlag(cmd *cobra.Command) {
	*o = order(reports.OrderExecution)
	cmd.Flags().Var(o, "sort", "sort findings by `ORDER`: order (of execution), worst (by error) or op (by operator)")
}

func (o *order) String() string { return string(*o) }

// Type names the flag's values in the help.
func (o *order) Type() string { return "ORDER" }

func (o *order) Set(s string) error {
	if !slices.Contains(reports.Orders(), reports.Order(s)) {
		return fmt.Errorf("want one of %v", reports.Orders())
	}
	*o = order(s)
	return nil
}

// compare starts a comparison: name is what is being done, noun what is counted.
func (a *app) compare(name, noun string, by order, tables bool, failOn verdicts, j *jsonOutput) *comparison {
	c := &comparison{Summary: reports.NewSummary(), digest: reports.NewDigest(failOn), style: a.style(), json: j}
	c.FailOn = failOn
	c.style.Tables, c.digest.Order = tables, reports.Order(by)
	c.bar = a.newProgress(name, noun)
	return c
}

// add counts and writes what one capture gave; hidden are findings that are listed
// elsewhere.
func (c *comparison) add(f *reports.Finding, hidden bool) error {
	for _, r := range f.Results {
		c.Known.Mark(r)
		c.Summary.Add(r)
		if err := c.json.result(r); err != nil {
			return err
		}
	}
	if hidden {
		return nil
	}
	c.digest.Add(f)
	if !c.style.Tables {
		return nil
	}
	return c.bar.print(func() error { return f.Write(c.json.text(), c.style) })
}

// unread notes a file that gave no result, or only some of its calls.
func (c *comparison) unread(err error) {
	var damaged *capture.FileError
	if errors.As(err, &damaged) && damaged.Rel != "" {
		c.Summary.Unread = append(c.Summary.Unread, reports.UnreadFile{File: damaged.Rel, Reason: damaged.Reason(),
			Cut: damaged.Cut})
		return
	}
	var path *fs.PathError // of a directory, or of PATH itself
	if errors.As(err, &path) {
		c.Summary.Unread = append(c.Summary.Unread, reports.UnreadFile{File: filepath.ToSlash(path.Path),
			Reason: path.Err.Error(), Absent: errors.Is(err, fs.ErrNotExist)})
	}
}

// finish prints what was found and returns the exit code.
func (c *comparison) finish(a *app, t tally, start time.Time) error {
	s := c.Summary
	if !s.Interrupted {
		if err := c.digest.Explain(c.json.cause, c.json.profile); err != nil {
			return failed(err)
		}
		s.NoCause = c.digest.NoCause()
	}
	s.Elapsed, s.PeakRSS = c.json.elapsed(start), rss.Peak()
	s.NotRead = t.refused
	s.LookedAtPart(c.part)
	if s.Exit = comparisonExit(s, t.refused); c.part && t.captures == 0 && t.refused == 0 &&
		!s.Interrupted && s.Left() == 0 {
		s.Exit = ExitOK
	}
	s.FirstWrong = c.digest.FirstWrong()
	if err := c.json.summary(s); err != nil {
		return failed(err)
	}
	if err := cmp.Or(s.WritePrograms(c.json.text(), c.style), c.digest.Write(c.json.text(), c.style)); err != nil {
		return failed(err)
	}
	c.digest.Readers(s)
	if err := s.Write(c.json.text(), c.style); err != nil {
		return failed(err)
	}
	if err := c.digest.WriteLast(c.json.text(), c.style); err != nil {
		return failed(err)
	}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		if err := c.digest.WriteAnnotations(a.Err); err != nil {
			return failed(err)
		}
	}
	c.json.ended = !s.Interrupted
	return a.unwritten(s.Exit, c.json.end(a))
}

// comparisonExit is the exit code of a comparison that refused some inputs
// before they gave a result.
func comparisonExit(s *reports.Summary, refused int) int {
	switch {
	case s.Interrupted:
		return ExitInterrupted
	case s.Differs() || s.Unwanted():
		return ExitDiffers
	case s.Refused() || refused > 0 || s.Compared() == 0:
		return ExitFailed
	}
	return ExitOK
}

// style is how text for people is laid out on standard output.
func (a *app) style() reports.Style {
	return reports.Style{Width: a.outputWidth(), TableWidth: a.tableWidth(), Color: a.colored(), Quiet: a.quiet}
}

// colored says whether standard output has colours: as --color says or, if that is
// auto, by NO_COLOR and CLICOLOR_FORCE, or if it is a terminal that has them.
func (a *app) colored() bool {
	switch a.color {
	case "always":
		return true
	case "never":
		return false
	}
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	if force := os.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	_, tty := terminal(a.Out)
	return tty && os.Getenv("TERM") != "dumb"
}
