package cli

import (
	"context"
	"fmt"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step/pairs"
)

// A logsSummary ends the lines of two logs that were compared.
type logsSummary struct {
	Kind     string         `json:"kind"`
	Captures int            `json:"captures"`
	Other    int            `json:"other"` // calls of the second log
	Compared int            `json:"compared"`
	Differ   int            `json:"differ"`
	Missing  int            `json:"missing"`
	Inserted int            `json:"inserted"`
	First    *reports.Place `json:"first"`
}

// comparesLogs reports whether two paths are to be compared as logs: both are, or one is a log or statistics and the
// other one captures with tensors.
func comparesLogs(ctx context.Context, paths []string) bool {
	if len(paths) != 2 {
		return false
	}
	if pairs.IsCallLog(paths[0]) || pairs.IsCallLog(paths[1]) {
		return true
	}
	x, y := pairs.Statistics(ctx, paths[0]), pairs.Statistics(ctx, paths[1])
	return x != y && min(x, y) == pairs.OnlyStatistics
}

// compareLogs compares two logs of calls that hold hashes or statistics, or such a log and captures.
func (a *app) compareLogs(ctx context.Context, paths []string, records outputs) error {
	var logs [2][]pairs.LoggedCall
	written := 0 // logs that are files
	for i, p := range paths {
		var err error
		if pairs.IsCallLog(p) {
			written++
			logs[i], err = pairs.ReadCallLog(p)
		} else {
			logs[i], err = pairs.CallsOf(ctx, p)
		}
		if err != nil {
			return failed(err)
		}
	}
	j, err := a.openRecords(records, a.run("none"))
	if err != nil {
		return err
	}
	defer j.close()
	c := pairs.CompareLogs(logs[0], logs[1], [2]string{paths[0], paths[1]}, written < 2)
	by := "hashes"
	if written == 0 {
		by = "statistics"
	}
	s := logsSummary{Kind: "summary", Captures: c.Calls[0], Other: c.Calls[1], Compared: c.Compared, Differ: c.Differ,
		First: c.First}
	const most = 20
	for i, f := range c.Findings {
		switch f.Rule {
		case verdict.Missing:
			s.Missing++
		case verdict.Inserted:
			s.Inserted++
		}
		if j.lines != nil {
			if err := j.write(&f); err != nil {
				return failed(err)
			}
		}
		if i < most {
			fmt.Fprintf(j.text(), "%s\n\n", f.In(a.style()))
		}
	}
	if n := len(c.Findings) - most; n > 0 {
		fmt.Fprintf(j.text(), "and %d more\n\n", n)
	}
	if j.lines != nil {
		if err := j.write(&s); err != nil {
			return failed(err)
		}
	}
	fmt.Fprintf(j.text(), "%d and %s: %d compared by their %s, %s; %d missing, %d inserted\n", s.Captures,
		reports.Count(s.Other, "call"), s.Compared, by, reports.Plural(s.Differ, "1 differs", "%d differ"), s.Missing,
		s.Inserted)
	if err := j.close(); err != nil {
		return failed(err)
	}
	switch {
	case len(c.Findings) > 0:
		return &exitError{ExitDiffers, nil}
	case c.Compared == 0:
		return &exitError{ExitFailed, fmt.Errorf("no hashes in both logs: record with DebugMode.log_tensor_hashes()")}
	}
	return nil
}
