// Package pairs finds the recorded calls of two trees that belong together, or the
// two sides of a saved failure, and compares what was recorded value by value.
// Nothing is run.
package pairs

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
)

// A Pair is two recorded calls to compare. In a saved failure both are sides of
// one entry.
type Pair struct {
	A, B *capture.Entry // B is nil if there is nothing to compare with
	Err  error          // what could not be walked; the other fields are then empty
	only string         // why there is no B: "only in run1"
	// inserted says that the one call is of the second recording.
	inserted bool
	bSide    capture.Side
	kinds    []capture.Kind
}

// Saved yields the failures saved with both sides under a path.
func Saved(ctx context.Context, path string) iter.Seq[Pair] {
	return func(yield func(Pair) bool) {
		for e, err := range capture.Scan(ctx, []string{path}, capture.Options{}) {
			if err == nil && !e.IsPair() {
				continue
			}
			p := Pair{A: e, B: e, bSide: capture.Host, Err: err, kinds: []capture.Kind{capture.Input, capture.Output,
				capture.GradInputs}}
			if !yield(p) {
				return
			}
		}
	}
}

// A NoCalls error names the paths below which no recorded call was found.
type NoCalls struct{ Paths []string }

func (e *NoCalls) Error() string { return strings.Join(e.Paths, ", ") + ": no captures found" }

// Corresponding pairs the captures of two trees, in the order in which each process
// of the first made its calls; those of the second that have no partner come last.
// Captures of one path belong together, then calls of one number; where one run made
// calls that the other did not, so that these say nothing, those at the same place of
// the sequence.
func Corresponding(ctx context.Context, pathA, pathB string) (iter.Seq[Pair], error) {
	as, errsA := collect(ctx, pathA)
	bs, errsB := collect(ctx, pathB)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	errs := append(errsA, errsB...)
	if len(errs) > 0 && (len(as) == 0 || len(bs) == 0) {
		return nil, errs[0]
	}
	switch {
	case len(as) == 0 && len(bs) == 0:
		return nil, &NoCalls{[]string{pathA, pathB}}
	case len(as) == 0:
		return nil, &NoCalls{[]string{pathA}}
	case len(bs) == 0:
		return nil, &NoCalls{[]string{pathB}}
	}
	partner := partners(as, bs)
	taken := map[*capture.Entry]bool{}
	for _, b := range partner {
		taken[b] = true
	}
	return func(yield func(Pair) bool) {
		for _, err := range errs {
			if !yield(Pair{Err: err}) {
				return
			}
		}
		for _, a := range as {
			p := Pair{A: a, B: partner[a], kinds: capture.Kinds()}
			if p.B == nil {
				p.only = verdict.OnlyIn + pathA
			}
			if !yield(p) {
				return
			}
		}
		for _, b := range bs {
			if !taken[b] && !yield(Pair{A: b, only: verdict.OnlyIn + pathB, inserted: true}) {
				return
			}
		}
	}, nil
}

// partners sorts the entries of two trees as they were recorded, and gives those of the second by those of the first
// that they belong to.
func partners(as, bs []*capture.Entry) map[*capture.Entry]*capture.Entry {
	rankA, rankB := processes(as), processes(bs)
	inOrder(as, rankA)
	inOrder(bs, rankB)
	partner, taken := map[*capture.Entry]*capture.Entry{}, map[*capture.Entry]bool{}
	join := func(a, b *capture.Entry) {
		if partner[a] == nil && !taken[b] {
			partner[a], taken[b] = b, true
		}
	}
	if givenItself(as) && givenItself(bs) {
		join(as[0], bs[0])
	}
	var steps Steps
	for i, entries := range [2][]*capture.Entry{as, bs} {
		for _, e := range entries {
			steps.Add(i, e.Step)
		}
	}
	places := steps.places()
	callsB := byProcess(bs, rankB, places[1])
	for process, a := range byProcess(as, rankA, places[0]) {
		for _, p := range sameCalls(a, callsB[process]) {
			join(p[0], p[1])
		}
	}
	paths := map[string]*capture.Entry{} // of processes that are not the same by number
	for _, b := range bs {
		if !taken[b] {
			paths[b.Rel] = b
		}
	}
	for _, a := range as {
		if b := paths[a.Rel]; b != nil {
			join(a, b)
		}
	}
	return partner
}

// byProcess groups entries by step and process, in their order. place is another number for a step, if there is one.
func byProcess(entries []*capture.Entry, process map[*capture.Entry]int,
	place map[int]int) map[[2]int][]*capture.Entry {
	out := map[[2]int][]*capture.Entry{}
	for _, e := range entries {
		k := [2]int{e.Step, process[e]}
		if at, ok := place[e.Step]; ok {
			k[0] = at
		}
		out[k] = append(out[k], e)
	}
	return out
}

// inOrder sorts entries as they were recorded: by step, process and place.
func inOrder(entries []*capture.Entry, process map[*capture.Entry]int) {
	slices.SortStableFunc(entries, func(x, y *capture.Entry) int {
		return cmp.Or(cmp.Compare(x.Step, y.Step), cmp.Compare(process[x], process[y]),
			cmp.Compare(x.Position(), y.Position()), cmp.Compare(x.Time, y.Time))
	})
}

// givenItself reports whether the path of a scan was one capture or file.
func givenItself(entries []*capture.Entry) bool {
	return len(entries) == 1 && (entries[0].Rel == "." || entries[0].Layout == capture.File)
}

func collect(ctx context.Context, path string) (entries []*capture.Entry, errs []error) {
	for e, err := range capture.Scan(ctx, []string{path}, capture.Options{}) {
		if err != nil {
			errs = append(errs, err)
		} else {
			entries = append(entries, e)
		}
	}
	return entries, errs
}

// processes numbers the processes that recorded entries, by rank and pid.
func processes(entries []*capture.Entry) map[*capture.Entry]int {
	type process struct{ rank, pid int }
	all := map[process]bool{}
	for _, e := range entries {
		all[process{e.Rank, e.PID}] = true
	}
	var order []process
	for p := range all {
		order = append(order, p)
	}
	slices.SortFunc(order, func(a, b process) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return a.pid - b.pid
	})
	rank := map[*capture.Entry]int{}
	for _, e := range entries {
		rank[e] = slices.Index(order, process{e.Rank, e.PID})
	}
	return rank
}
