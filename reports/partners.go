package reports

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/optool/optool/compare/alignment"
	"github.com/optool/optool/internal/run/folder"
)

// Partners are the old results that the current ones belong to: of the same capture or, failing
// that, of the same call. Calls of two recordings belong together by their numbers. Where a call
// more has shifted the numbers, they belong together by their sequence. Calls of different folders
// never belong together: see sameFolders.
func Partners(old, cur []*Result) map[*Result]*Result { return pair(old, cur).of }

// pair pairs the results of two runs as Partners says.
func pair(old, cur []*Result) *partners {
	p := &partners{of: map[*Result]*Result{}, taken: map[*Result]bool{}, unread: map[*Result]*Result{},
		call: map[*Result]*Result{}}
	type capture struct{ capture, op string }
	before := map[capture][]*Result{}
	for _, r := range old {
		k := capture{r.Capture, r.Op}
		before[k] = append(before[k], r)
	}
	now := map[capture][]*Result{}
	for _, r := range cur {
		k := capture{r.Capture, r.Op}
		now[k] = append(now[k], r)
	}
	for k, values := range now {
		p.join(before[k], values)
	}
	processes, renamed := p.unpaired(old), sameFolders(old, cur)
	for process, b := range p.unpaired(cur) {
		if name, ok := renamed[process.folder]; ok {
			process.folder = name
		}
		a := processes[process]
		for _, at := range samePlaces(a, b) {
			p.join(a[at[0]].values, b[at[1]].values)
		}
	}
	return p
}

// partners are pairs of results.
type partners struct {
	of    map[*Result]*Result // the old one of a current one
	taken map[*Result]bool    // old ones that are in of
	// unread are, of results of either run without a partner, the one that says that their call could not be read in
	// the other run.
	unread map[*Result]*Result
	// call is, of a result of either run, one of the results of the same call in the other run.
	call map[*Result]*Result
}

// join pairs the values of a call in both runs.
func (p *partners) join(old, cur []*Result) {
	type value struct{ phase, target, layout, device string }
	valueOf := func(r *Result) value { return value{r.Phase, r.Target, r.Layout, r.Device} }
	left := map[value][]*Result{}
	for _, r := range old {
		left[valueOf(r)] = append(left[valueOf(r)], r)
	}
	for _, r := range cur {
		k := valueOf(r)
		if same := left[k]; len(same) > 0 {
			p.of[r], left[k] = same[0], same[1:]
			p.taken[same[0]] = true
		}
	}
	if len(old) > 0 && len(cur) > 0 {
		for _, r := range old {
			p.call[r] = cur[0]
		}
		for _, r := range cur {
			p.call[r] = old[0]
		}
	}
	unread := func(results []*Result) *Result {
		if i := slices.IndexFunc(results, (*Result).unread); i >= 0 {
			return results[i]
		}
		return nil
	}
	was, is := unread(old), unread(cur)
	for _, r := range old {
		if !p.taken[r] && is != nil {
			p.unread[r] = is
		}
	}
	for _, r := range cur {
		if p.of[r] == nil && was != nil {
			p.unread[r] = was
		}
	}
	for _, r := range old {
		if r.unread() && len(cur) > 0 {
			p.unread[r] = cur[0]
		}
	}
}

// unneeded tells of old results that are gone whether they are Unneeded: they are of calls that a function of the
// program made, forward or backward, which was in the place of torch's and whose own call is in both runs; or they are
// arguments after such a call, and the function is gone.
func (p *partners) unneeded(old []*Result) func(*Result) bool {
	type call struct {
		process string
		id      int
	}
	byID := map[call]*Result{}
	for _, r := range old {
		if r.ForwardID != nil {
			byID[call{path.Dir(r.Capture), *r.ForwardID}] = r
		}
	}
	return func(r *Result) bool {
		if c := p.call[r]; c != nil && r.Phase == "input" && r.Replaced != "" && c.Replaced == "" {
			return true
		}
		at := call{process: path.Dir(r.Capture)}
		for depth := 0; r != nil && depth < maxWithin; depth++ {
			outer := cmp.Or(r.Within, r.WithinBackward)
			if outer == nil {
				break
			}
			at.id = *outer
			if r = byID[at]; r != nil && r.Replaced != "" && p.call[r] != nil {
				return true
			}
		}
		return false
	}
}

// maxWithin is inside of how many calls a call is looked for.
const maxWithin = 100

// A numberedCall is the results of a call that has a number in its process.
type numberedCall struct {
	id     int
	place  folder.Place
	values []*Result
}

func (c *numberedCall) first() *Result { return c.values[0] }

// compareProcess orders the calls of a folder by rank, and those of a rank by when their processes began.
func (c *numberedCall) compareProcess(d *numberedCall) int {
	x, y := c.first(), d.first()
	return cmp.Or(cmp.Compare(c.place.Folder, d.place.Folder), compareKnown(x.Rank, y.Rank),
		cmp.Compare(c.place.Start, d.place.Start), compareKnown(x.PID, y.PID))
}

// A process is the n-th of a rank in a folder, of those without a rank where rank is -1.
type process struct {
	folder  string
	rank, n int
}

// sameFolders are the folders of the old run by those of the current one that they belong to, where the names differ:
// a run of several PATHs has their names in front. If the two runs have no folder in common, those are the same that
// end alike. Else each belongs to the one of its name, or to none.
func sameFolders(old, cur []*Result) map[string]string {
	names := func(results []*Result) map[string]bool {
		folders := map[string]bool{}
		for _, r := range results {
			folders[r.Folder()] = true
		}
		return folders
	}
	ends := func(folders map[string]bool) map[string]string {
		byEnd := map[string]string{}
		for f := range folders {
			end := path.Base(f)
			if _, two := byEnd[end]; two || f == "" {
				f = ""
			}
			byEnd[end] = f
		}
		return byEnd
	}
	before, now := names(old), names(cur)
	for f := range now {
		if before[f] {
			return nil
		}
	}
	same, endsBefore := map[string]string{}, ends(before)
	for end, f := range ends(now) {
		if was := endsBefore[end]; was != "" && f != "" {
			same[f] = was
		}
	}
	return same
}

// place is where the process of a call left it.
func (r *Result) place() folder.Place { return folder.Of(r.Capture, r.Op, known(r.PID), known(r.Rank)) }

// Folder is the directory above those that a recorder made, such as that of a model; "" if there is none.
func (r *Result) Folder() string { return r.place().Folder }

// OnlyFolders says which folders only one of two runs has calls of, as far as the changes say that they are gone, and
// since when, or new. The runs have these names.
func OnlyFolders(old, cur []*Result, changes []ResultChange, oldName, curName string) (lines []string) {
	since := map[*Result]*ResultChange{}
	for i := range changes {
		if c := &changes[i]; c.Change == Gone || c.Change == Added {
			since[c.Result()] = c
		}
	}
	renamed := sameFolders(old, cur)
	type calls struct {
		captures map[string]bool
		since    *ResultChange // of the first result that is gone or new
	}
	count := func(results []*Result, name func(string) string) map[string]*calls {
		folders := map[string]*calls{}
		for _, r := range results {
			f := name(r.Folder())
			if folders[f] == nil {
				folders[f] = &calls{captures: map[string]bool{}}
			}
			folders[f].captures[r.Capture] = true
			folders[f].since = cmp.Or(folders[f].since, since[r])
		}
		return folders
	}
	before := count(old, func(f string) string { return f })
	now := count(cur, func(f string) string {
		if was, ok := renamed[f]; ok {
			return was
		}
		return f
	})
	only := func(a, b map[string]*calls, name string) {
		for _, f := range slices.Sorted(maps.Keys(a)) {
			if b[f] == nil && a[f].since != nil {
				line := fmt.Sprintf("only %s has the folder %s (%s)", name, cmp.Or(f, "."),
					Count(len(a[f].captures), "call"))
				if text := a[f].since.SinceText(); text != "" && a[f].since.New == nil {
					line += ", " + text
				}
				lines = append(lines, line)
			}
		}
	}
	only(before, now, oldName)
	only(now, before, curName)
	return lines
}

// unpaired are the calls of each process of which no result has a partner, in order. Calls without a number belong to
// no sequence.
func (p *partners) unpaired(results []*Result) map[process][]*numberedCall {
	paired := map[string]bool{}
	for cur, before := range p.of {
		paired[cur.Capture], paired[before.Capture] = true, true
	}
	type capture struct {
		path string
		id   int
	}
	calls := map[capture]*numberedCall{}
	var all []*numberedCall
	for _, r := range results {
		if r.ForwardID == nil || paired[r.Capture] {
			continue
		}
		k := capture{r.Capture, *r.ForwardID}
		if calls[k] == nil {
			calls[k] = &numberedCall{id: *r.ForwardID, place: r.place()}
			all = append(all, calls[k])
		}
		calls[k].values = append(calls[k].values, r)
	}
	slices.SortStableFunc(all, func(a, b *numberedCall) int {
		return cmp.Or(a.compareProcess(b), compareKnown(a.first().Order, b.first().Order),
			cmp.Compare(a.id, b.id))
	})
	processes := map[process][]*numberedCall{}
	var at process
	for i, c := range all {
		switch rank := known(c.first().Rank); {
		case i == 0 || rank != at.rank || c.place.Folder != at.folder:
			at = process{folder: c.place.Folder, rank: rank}
		case all[i-1].compareProcess(c) != 0:
			at.n++
		}
		processes[at] = append(processes[at], c)
	}
	return processes
}

// known is a number, -1 where it is not known.
func known(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}

// samePlaces pairs the calls of a process in two runs: by number, unless some number has another
// operator or module in the two runs, else by sequence.
func samePlaces(old, cur []*numberedCall) [][2]int {
	byID := map[int]int{}
	for i, c := range old {
		byID[c.id] = i
	}
	var numbers [][2]int
	for j, c := range cur {
		if i, ok := byID[c.id]; ok {
			numbers = append(numbers, [2]int{i, j})
		}
	}
	if len(numbers) > 0 && !slices.ContainsFunc(numbers, func(p [2]int) bool { return old[p[0]].moved(cur[p[1]]) }) {
		return numbers
	}
	return alignment.Sequences(len(old), len(cur), func(i, j int) int { return old[i].likeness(cur[j]) },
		surelySame, nil).Pairs
}

// moved reports whether a call cannot be the one of the same number in another run.
func (c *numberedCall) moved(d *numberedCall) bool {
	x, y := c.first(), d.first()
	return x.Op != y.Op || x.Module != "" && y.Module != "" && x.Module != y.Module
}

// surelySame is the likeness of two calls that differ at most in number and line.
const surelySame = 5

// likeness is how much two calls of the sequences of two runs are alike.
func (c *numberedCall) likeness(d *numberedCall) int {
	x, y := c.first(), d.first()
	if x.Op != y.Op {
		return 0
	}
	like := 1
	if slices.Equal(x.Shape, y.Shape) && (x.DType == nil || y.DType == nil || *x.DType == *y.DType) {
		like += 2
	}
	if x.Module == y.Module {
		like += 2
	}
	if x.Location != "" && x.Location == y.Location {
		like++
	}
	return like
}
