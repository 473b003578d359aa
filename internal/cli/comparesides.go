package cli

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/run/folder"
	"github.com/optool/optool/reports"
)

// A newAndOld is the new and the old one of two recordings, or of two runs, that are compared.
type newAndOld struct {
	now, old dated
	swapped  string // the command that takes them the other way round; "" if there is none
}

// A dated is a recording or a run with its dates, each zero if it is not known.
type dated struct {
	name             string
	recorded, judged time.Time
}

// dateFormat is how the date of a recording is written.
const dateFormat = "2006-01-02 15:04:05"

func (d dated) String() string {
	var dates []string
	if !d.recorded.IsZero() {
		dates = append(dates, "recorded "+d.recorded.Format(dateFormat))
	}
	if !d.judged.IsZero() {
		dates = append(dates, "judged "+d.judged.Format(dateFormat))
	}
	if len(dates) == 0 {
		return d.name
	}
	return d.name + " (" + strings.Join(dates, ", ") + ")"
}

// facts say which is which, and what is odd about their dates.
func (s *newAndOld) facts() []reports.Fact {
	facts := []reports.Fact{{Name: "new", Text: s.now.String()}, {Name: "old", Text: s.old.String()}}
	verb := ""
	switch {
	case s.now.recorded.IsZero() || s.old.recorded.IsZero():
		if s.now.judged.Before(s.old.judged) {
			verb = "judged"
		}
	case s.now.recorded.Before(s.old.recorded):
		verb = "recorded"
	}
	if verb != "" {
		text := fmt.Sprintf("%s was %s before %s. Is it the old one?", s.now.name, verb, s.old.name)
		if s.swapped != "" {
			text += " Then take " + s.swapped
		}
		facts = append(facts, reports.Fact{Name: "order", Text: text})
	}
	return facts
}

// mostDated is of how many calls a recording's date is sought.
const mostDated = 256

// recordedAt is when a recording began, or made one of its first calls: by their paths, for files may be copies. It is
// the zero time if these do not say it.
func recordedAt(ctx context.Context, dir string) (at time.Time) {
	n := 0
	for e, err := range capture.Scan(ctx, []string{dir}, capture.Options{}) {
		if n++; n > mostDated {
			break
		}
		if err != nil {
			continue
		}
		at = folder.Of(path.Join(filepath.ToSlash(dir), e.Rel), e.Op, e.PID, e.Rank).Time()
		if at.IsZero() {
			at = folder.Place{Start: e.Time}.Time()
		}
		if !at.IsZero() {
			break
		}
	}
	return at
}

// tell prints facts, a line each, unless the run is quiet.
func (s *newAndOld) tell(a *app, w io.Writer) {
	if a.quiet {
		return
	}
	for _, f := range s.facts() {
		fmt.Fprintln(w, a.style().WrapCommand(reports.OneLine(f.Name+": "+f.Text), s.swapped, 2))
	}
	fmt.Fprintln(w)
}
