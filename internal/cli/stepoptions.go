package cli

import (
	"io"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/parallel"
	"github.com/optool/optool/step/view"
)

type stepOptions struct {
	selection
	deviceFlags
	records    outputs
	tolerances toleranceFile
	against    string
	html       string
	layout     string
	graph      string
	dot        string
	mermaid    string
	around     int
	failOn     verdicts
	exact      []string
	in         []string
	metricFlags
	measured
	starting []readiness // of the device
}

// plan reads the layout that the flags give; nil without one.
func (o *stepOptions) plan() (*parallel.Plan, error) {
	text := o.layout
	switch {
	case text == "":
		return nil, nil
	case !strings.HasPrefix(strings.TrimSpace(text), "mesh "):
		b, err := smallfile.Read(text, smallfile.Most)
		if err != nil {
			return nil, failed(err)
		}
		text = string(b)
	}
	p, err := parallel.ParsePlan(text)
	if err != nil {
		return nil, usageError("--layout: %w", err)
	}
	return p, nil
}

// drawings are the pictures that the flags name, of the graph that of makes.
func (o *stepOptions) drawings(of func() *view.Graph) artifacts {
	return artifacts{
		{"html", o.html, func(w io.Writer) error { return of().WriteHTML(w) }},
		{"graph", o.graph, func(w io.Writer) error { return of().WriteJSON(w) }},
		{"dot", o.dot, func(w io.Writer) error { return of().WriteDot(w, of().RegionAround(o.around)) }},
		{"mermaid", o.mermaid, func(w io.Writer) error { return of().WriteMermaid(w, of().RegionAround(o.around)) }},
	}
}

// command is a command of this program, with what decides about verdicts.
func (o *stepOptions) command(args ...string) string {
	args = o.selection.command(args[0], args[1:]...)
	return strings.Join(slices.Insert(args, len(args)-1, o.tolerances.repro()...), " ")
}

// repro is the command that runs a call again: a collective with those of the other ranks.
func (o *stepOptions) repro(t *step.Trace, c *step.Call, onDevice bool, path string) string {
	if c.ByDerivative() && !onDevice {
		return o.page(path)
	}
	args := []string{"replay", "--tables"}
	if onDevice {
		args = append(args, o.deviceFlags.repro()...)
	}
	var paths []string
	for _, e := range t.Exchange(c) {
		paths = append(paths, quotePath(pathOf(e)))
	}
	text := o.command(append(args, strings.Join(paths, " "))...)
	if onDevice {
		return o.withModules([]string{text})
	}
	return text
}

// next are commands that show more.
func (o *stepOptions) next(t *step.Trace, path string) []string {
	var out []string
	if len(t.Findings) > 0 && !t.Findings[0].Alone() {
		f := t.Findings[0]
		if i := slices.IndexFunc(t.Findings, (*step.Finding).IsWrong); f.Between() != "" && i > 0 {
			f = t.Findings[i] // the call of the first one does what it should
		}
		at := quotePath(pathOf(f.Call.Entry))
		if f.Call.ByDerivative() { // only the step tells
			out = append(out, o.command("explain", at)+declares)
			return o.withPage(out, path)
		}
		if f.Rule == verdict.Diverged && f.Peer != nil {
			out = append(out, o.command("compare", "--tables", at, quotePath(pathOf(f.Peer.Entry))))
		} else if f.Between() == "" {
			out = append(out, o.repro(t, f.Call, false, path))
		}
		if f.Rule == verdict.Wrong && len(t.Exchange(f.Call)) == 1 {
			out = append(out, o.command("explain", at))
		}
	} else if wrong := t.SavedWrong(); len(wrong) > 0 {
		out = append(out, o.repro(t, wrong[0], false, path))
	}
	wrong, _ := t.Reruns()
	if i := slices.IndexFunc(wrong, func(r *step.Rerun) bool { return r.Standing != step.NotRepeated }); i >= 0 {
		out = append(out, o.repro(t, wrong[i].Call, true, path))
	}
	return o.withPage(out, path)
}

// declares says what explain prints of a function that optool does not know.
const declares = "  # prints the line that declares the function, for --ops: with it replay judges the call"

// withPage adds the command that shows the step as a page, if no page was asked for.
func (o *stepOptions) withPage(out []string, path string) []string {
	if o.html == "" {
		out = append(out, o.page(path))
	}
	return out
}

// page is the command that shows the step as a page.
func (o *stepOptions) page(path string) string {
	return o.command("step", "--html", "step.html", quotePath(path))
}

// recording is what reports are made of.
func (o *stepOptions) recording(a *app, settings reports.Settings, list []*recordedProgram) (*reports.Recording,
	error) {
	rec := &reports.Recording{Run: a.run(o.device, settings...), Last: []byte("{}"), Summary: reports.NewSummary(),
		Exit: new(int)}
	var results []*reports.Result
	for _, p := range list {
		t := p.trace
		results = append(results, t.Results(func(c *step.Call, onDevice bool) string {
			return o.repro(t, c, onDevice, p.dir)
		}, o.page(p.dir))...)
		for _, f := range t.Findings {
			for i := range f.Causes {
				rec.Causes = append(rec.Causes, &f.Causes[i])
			}
		}
	}
	rec.Results = reports.ResultsOf(results...)
	if err := rec.Count(); err != nil {
		return nil, err
	}
	rec.First = nil // the step's own first fault is among its facts
	for _, p := range list {
		t := p.trace
		if n := t.Unrecorded(); n > 0 {
			rec.Summary.Unjudged.Count("weight gradients were not recorded", "", n)
		}
		t.LeftOut(func(why string, e *capture.Entry) {
			if !e.IsPair() {
				rec.Summary.Unjudged.Count("left out of the step: "+why, e.Op, 1)
			}
		})
	}
	rec.Summary.Settings, rec.Summary.FailOn = settings, o.failOn
	return rec, nil
}
