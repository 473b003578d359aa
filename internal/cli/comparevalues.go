package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/checkpoint"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step/pairs"
	"github.com/optool/optool/tensor/value"
)

// A holding is what a path of compare holds.
type holding int

const (
	calls  holding = iota // recorded calls, or nothing
	unread                // one file that cannot be read
	named                 // values by name
)

// comparesValues reports whether two paths are compared by the names of values: both
// hold them, or one does and the other is a file that does not read. Values of SGLang's
// dumper have names if ranks are to be joined, else they are compared as recorded.
func (o *compareOptions) comparesValues(ctx context.Context, paths []string) bool {
	if len(paths) != 2 {
		return false
	}
	a, b := o.heldBy(ctx, paths[0]), o.heldBy(ctx, paths[1])
	return max(a, b) == named && min(a, b) != calls
}

func (o *compareOptions) heldBy(ctx context.Context, path string) holding {
	found, dumped := false, len(o.unshard) > 0
	for e, err := range capture.Scan(ctx, []string{path}, capture.Options{Loose: true}) {
		if err != nil || e.Layout != capture.File && !(dumped && e.Layout == capture.SGLang) {
			return calls
		}
		found = true
	}
	info, err := files.Stat(path)
	switch {
	case err != nil || !found:
		return calls
	case info.IsDir():
		return named
	}
	f, err := pthformat.Open(path, pthformat.Options{Read: o.read})
	if err != nil {
		return unread
	}
	defer f.Close()
	if _, err = capture.ParseRecord(f.Root); errors.Is(err, capture.ErrNotCapture) {
		return named
	}
	return calls
}

// values compares two files or directories of values by name.
func (r *compareRun) values() error {
	if err := r.open(); err != nil {
		return err
	}
	defer r.json.close()
	sets, names, err := r.openSets()
	defer func() {
		for _, s := range sets {
			s.Close()
		}
	}()
	if err != nil {
		return err
	}
	for _, s := range sets {
		for _, f := range s.Failures {
			r.tally.refused++
			r.a.warn("%v", f.Err)
		}
	}
	all := slices.DeleteFunc(pairs.ByName(sets[0], sets[1], names), func(p pairs.NamedPair) bool {
		r.tally.walked++
		part := r.o.filter.ExcludesOp(p.Name)
		if part != capture.All {
			r.settings.Hide(r.o.sources[part].Name)
		}
		return part != capture.All
	})
	unread := unreadable(sets)
	r.begin("value")
	r.out.bar.expect(len(all)+len(unread), 0)
	alone, err := r.compareNamed(all)
	for _, f := range unread {
		if err != nil {
			break
		}
		again := r.o.reproValues(r.paths)
		x := &reports.Result{Capture: f.Name, Op: f.Name, Phase: "forward", Verdict: verdict.Invalid,
			Reason: f.Err.Error(), Repro: &again}
		r.out.bar.add(false, 0)
		err = r.out.add(reports.NewFinding([]*reports.Result{x}), false)
	}
	if err := r.ended(err); err != nil {
		return err
	}
	if err := writeAlone(r.json, alone); err != nil {
		return failed(err)
	}
	r.out.First = (*reports.Place)(nil)
	return r.finish()
}

// openSets opens the values of both paths, and joins what ranks hold of them. names are the pairs of --map.
func (r *compareRun) openSets() (sets []*checkpoint.Set, names *checkpoint.Map, err error) {
	if r.o.names != "" {
		if names, err = checkpoint.LoadMap(r.o.names); err != nil {
			return nil, nil, usageError("--map: %w", err)
		}
	}
	join, err := checkpoint.ParseJoin(r.o.unshard)
	if err != nil {
		return nil, nil, usageError("--unshard: %w", err)
	}
	for _, path := range r.paths {
		s, err := checkpoint.Open(r.ctx, path, r.o.read, join != nil)
		if err != nil {
			return sets, nil, failed(err)
		}
		sets = append(sets, s)
	}
	return sets, names, failed(unshard(sets, join, names))
}

// compareNamed compares values by name; alone are the findings about those that only one side has.
func (r *compareRun) compareNamed(all []pairs.NamedPair) (alone []*reports.FindingRecord, err error) {
	again := r.o.reproValues(r.paths)
	type done struct {
		pair   pairs.NamedPair
		result *reports.Result
	}
	err = ordered(r.ctx, r.a.jobs, slices.Values(all),
		func(p pairs.NamedPair) done {
			x, err := within(r.ctx, r.o.clock.limits, 0, func() (*reports.Result, error) {
				return r.comparer.CompareNamed(p, again), nil
			})
			if err != nil {
				x = r.comparer.GiveUpNamed(p, again, err)
			}
			return done{p, x}
		},
		func(d done) error {
			r.tally.captures++
			if f := d.pair.Finding(); f != nil {
				alone = append(alone, f)
			}
			// Those without a partner are listed together.
			r.out.bar.add(d.result.Finding(), 0)
			return r.out.add(reports.NewFinding([]*reports.Result{d.result}), d.pair.A == nil || d.pair.B == nil)
		})
	return alone, err
}

// unshard joins the parts of both sides, each with the shapes of the other.
func unshard(sets []*checkpoint.Set, join *checkpoint.Join, names *checkpoint.Map) error {
	if join == nil {
		return nil
	}
	shapes := [2]map[string][]int{{}, {}}
	count := map[*checkpoint.Set]map[string]int{}
	for i, s := range sets {
		count[s] = map[string]int{}
		for _, n := range s.Values {
			count[s][n.Name]++
			for _, t := range value.Tensors(n.Value) {
				shapes[i][n.Name] = t.Shape
			}
		}
	}
	back := map[string]string{}
	for _, n := range sets[0].Values {
		to, _ := names.Rename(n.Name)
		back[to] = n.Name
	}
	other := func(s *checkpoint.Set, shapes map[string][]int, name func(string) string) func(string) []int {
		return func(n string) []int {
			if n = name(n); count[s][n] == 1 { // parts say nothing of the whole
				return shapes[n]
			}
			return nil
		}
	}
	if err := sets[0].Unshard(join, other(sets[1], shapes[1], func(n string) string {
		to, _ := names.Rename(n)
		return to
	})); err != nil {
		return err
	}
	return sets[1].Unshard(join, other(sets[0], shapes[0], func(n string) string { return back[n] }))
}

// unreadable are what could not be read, each once, be it on one side or on both.
func unreadable(sets []*checkpoint.Set) (out []checkpoint.Failure) {
	for _, s := range sets {
		for _, f := range s.Failures {
			same := func(o checkpoint.Failure) bool { return o.Name == f.Name }
			if i := slices.IndexFunc(out, same); i < 0 {
				out = append(out, f)
			} else if o := &out[i]; o.Err.Error() != f.Err.Error() {
				o.Err = fmt.Errorf("%w; %w", o.Err, f.Err)
			}
		}
	}
	return out
}

// writeAlone lists the values that only one side has.
func writeAlone(j *jsonOutput, alone []*reports.FindingRecord) error {
	for _, rule := range []verdict.Rule{verdict.Missing, verdict.Inserted} {
		var list []string
		why := ""
		for _, f := range alone {
			if f.Rule == rule {
				list, why = append(list, "  "+reports.OneLine(f.Target)), f.Reason
				if err := j.write(f); err != nil {
					return err
				}
			}
		}
		if len(list) == 0 {
			continue
		}
		const most = 20
		n := len(list)
		if n > most {
			list = append(list[:most], fmt.Sprintf("  ... and %d more", n-most))
		}
		if _, err := fmt.Fprintf(j.text(), "%s: %s\n%s\n\n", reports.Count(n, "value"), reports.OneLine(why),
			strings.Join(list, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// reproValues is the command line that compares the values again.
func (o *compareOptions) reproValues(paths []string) string {
	args := append(o.command("compare"), o.tolerances.repro()...)
	if o.names != "" {
		args = append(args, "--map", quotePath(o.names))
	}
	for _, r := range o.unshard {
		args = append(args, "--unshard", quote(r))
	}
	return strings.Join(append(args, quotePath(paths[0]), quotePath(paths[1])), " ")
}
