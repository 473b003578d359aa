package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/internal/rss"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/view"
)

// ofOneProgram is an error if a flag asks for something about one program, and a path holds several.
func (o *stepOptions) ofOneProgram(cmd *cobra.Command, a *app, path string) error {
	for _, name := range []string{"html", "graph", "dot", "mermaid", "of", "exact", "in", "layout"} {
		if cmd.Flags().Changed(name) && o.against == "" {
			return a.oneProgram(cmd, "--"+name, path)
		}
	}
	if o.against == "" {
		return nil
	}
	return a.oneProgram(cmd, "--against", path, o.against)
}

// several writes the results of several programs, the worst first, and ends the command.
func (r *stepRun) several(list []*recordedProgram, refused int, start time.Time) error {
	o, a := r.o, r.a
	shown, of := []*view.Program{}, map[*view.Program]*recordedProgram{}
	for _, p := range list {
		o.tellEffects(p.trace, r.settings)
		extra, err := o.shown(r.cmd, a, p.trace, r.opt, nil, p.dir)
		if err != nil {
			return failed(err)
		}
		extra.Next = []string{o.command("step", quotePath(p.dir))}
		v := &view.Program{Name: p.name(), Trace: p.trace, Extra: extra}
		shown, of[v] = append(shown, v), p
	}
	view.SortPrograms(shown)
	for i, v := range shown {
		list[i] = of[v]
	}
	rec, err := o.recording(a, r.settings, list)
	if err != nil {
		return failed(err)
	}
	rec.Summary.Facts = view.ProgramFacts(shown)
	if err := r.writePrograms(shown, rec); err != nil {
		return failed(err)
	}
	failures := r.json.close()
	rec.Summary.Elapsed, rec.Summary.PeakRSS = time.Since(start), rss.Peak()
	*rec.Exit = stepExit(list, rec.Summary, refused)
	rec.Summary.Exit = *rec.Exit
	failures = errors.Join(failures, writeReports(a.Out, rec, nil, r.json.files, func(string) {}))
	return a.unwritten(*rec.Exit, failures)
}

// writePrograms writes the records of several programs and the screen.
func (r *stepRun) writePrograms(shown []*view.Program, rec *reports.Recording) error {
	if r.json.lines != nil {
		for _, p := range shown {
			if err := p.Trace.Nodes(func(n *step.Node) error { return r.json.write(n) }); err != nil {
				return err
			}
		}
		for _, p := range shown {
			if err := writeFindings(r.json, p.Trace); err != nil {
				return err
			}
		}
		s := view.SummarizePrograms(shown)
		s.Judged, s.Unjudged, s.Settings = rec.Summary.Judged(), rec.Summary.Unjudged, rec.Summary.Settings
		if err := r.json.write(s); err != nil {
			return err
		}
	}
	w := r.json.text()
	if err := view.Programs(w, shown, r.a.style()); err != nil {
		return err
	}
	return r.writeSettings(w, rec)
}

// writeSettings writes what was not judged, and what the run was told.
func (r *stepRun) writeSettings(w io.Writer, rec *reports.Recording) error {
	if err := r.a.writeTold(w, rec); err != nil {
		return err
	}
	if len(r.settings) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return r.settings.Write(w, r.a.outputWidth())
}
