package collective

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Departure is the first call with a group by which a rank leaves the order of the others: they wait for different
// collectives, or exchange values that do not belong together.
type Departure struct {
	Call, Usual *capture.Entry // of the rank that departs, and of one of the others; one of them can be nil
	Rank, Other int            // the ranks of these calls
	Group       []int          // those that were recorded
	Reason      string

	at int // of the calls of the group, from where on they do not belong together
}

// A made is a collective as one rank called it.
type made struct {
	entry *capture.Entry
	what  string // operator, reduction, dtype and size, as far as they must agree
}

// same reports whether two calls of different ranks are one collective of the program.
func (m made) same(o made) bool { return m.what == o.what && m.entry.Location == o.entry.Location }

func (m made) String() string {
	if m.entry.Location == "" {
		return m.what
	}
	return m.what + " (" + m.entry.Location + ")"
}

// Departures finds where ranks of a group do not make the same collectives in the same order, the first of each group
// and step. Recordings without names of groups do not tell groups of the same ranks apart: nothing is said of them.
func Departures(ranks map[int][]*capture.Entry, read pthformat.ReadMode) []Departure {
	out := slices.Collect(maps.Values(departures(ranks, groupKey(Steps(ranks, read)), read)))
	slices.SortFunc(out, func(a, b Departure) int { return cmp.Or(cmp.Compare(a.order(), b.order()), a.Rank-b.Rank) })
	return out
}

// departures are those of each group and step, by their key.
func departures(ranks map[int][]*capture.Entry, key func(*capture.Entry) string,
	read pthformat.ReadMode) map[string]Departure {
	out := map[string]Departure{}
	for key, byRank := range grouped(ranks, key) {
		if d, ok := departure(byRank, ranks, read); ok {
			out[key] = d
		}
	}
	return out
}

// grouped are the collectives of groups with names by a key, then by rank.
func grouped(ranks map[int][]*capture.Entry, key func(*capture.Entry) string) map[string]map[int][]*capture.Entry {
	calls := map[string]map[int][]*capture.Entry{}
	for rank, all := range ranks {
		for _, e := range all {
			if name := Name(e.Op); name == "" || isMessage(name) || e.GroupName == "" || len(e.Group) < 2 ||
				!slices.Contains(e.Group, rank) || name == "wait_tensor" || name == "wrap_tensor_autograd" {
				continue
			}
			k := key(e)
			if calls[k] == nil {
				calls[k] = map[int][]*capture.Entry{}
			}
			calls[k][rank] = append(calls[k][rank], e)
		}
	}
	return calls
}

func (d Departure) order() int { return cmp.Or(d.Call, d.Usual).Order }

// departure finds the first of one group in a step.
func departure(byRank map[int][]*capture.Entry, ranks map[int][]*capture.Entry, read pthformat.ReadMode) (Departure,
	bool) {
	group := recordedOf(byRank, ranks)
	calls := sequences{byRank, read, map[*capture.Entry]made{}}
	for i := range calls.longest() {
		usual := usualAt(group, i, calls.at)
		u, _ := calls.at(usual, i)
		for _, r := range group {
			m, ok := calls.at(r, i)
			d := Departure{Call: m.entry, Usual: u.entry, Rank: r, Other: usual, Group: group, at: i}
			switch {
			case !ok && cut(ranks[r]) && u.entry.Files.Has(capture.Output):
				return Departure{}, false // what it made was not recorded in whole
			case !ok:
				d.Reason = fmt.Sprintf("rank %d makes no such call: rank %d calls %s, and waits for it", r, usual, u)
			default:
				d.Reason = calls.departs(r, usual, i)
			}
			if d.Reason != "" {
				return d, true
			}
		}
	}
	return Departure{}, false
}

// recordedOf are the ranks of a group that were recorded.
func recordedOf(byRank, ranks map[int][]*capture.Entry) (group []int) {
	for _, list := range byRank {
		for _, r := range list[0].Group {
			if ranks[r] != nil && !slices.Contains(group, r) {
				group = append(group, r)
			}
		}
	}
	slices.Sort(group)
	return group
}

// sequences are the collectives of one group by rank, each read when it is asked for.
type sequences struct {
	byRank map[int][]*capture.Entry
	read   pthformat.ReadMode
	known  map[*capture.Entry]made
}

func (s sequences) longest() (n int) {
	for _, list := range s.byRank {
		n = max(n, len(list))
	}
	return n
}

// at is the i-th call of a rank, if it makes so many.
func (s sequences) at(r, i int) (made, bool) {
	if i >= len(s.byRank[r]) {
		return made{}, false
	}
	e := s.byRank[r][i]
	m, ok := s.known[e]
	if !ok {
		m = made{e, describe(e, s.read)}
		s.known[e] = m
	}
	return m, true
}

// later reports whether a rank makes a call behind its i-th: anywhere, or at a line.
func (s sequences) later(r, i int, m made, line bool) bool {
	for k := i + 1; ; k++ {
		switch o, ok := s.at(r, k); {
		case !ok:
			return false
		case o.what == m.what && (!line || o.entry.Location == m.entry.Location):
			return true
		}
	}
}

// departs says how the i-th call of a rank departs from that of the usual one, "" if it does not.
func (s sequences) departs(r, usual, i int) string {
	m, _ := s.at(r, i)
	u, _ := s.at(usual, i)
	if m.same(u) {
		return ""
	}
	line := m.what == u.what // then only lines tell another order
	n, others := len(s.byRank[r]), len(s.byRank[usual])
	switch swapped := s.later(r, i, u, line) && s.later(usual, i, m, line); {
	case line && !swapped:
		return ""
	case !line && n < others && s.later(usual, i, m, line):
		return fmt.Sprintf("rank %d does not call %s, as rank %d does, and goes on with %s", r, u, usual, m)
	case !line && n > others && s.later(r, i, u, line):
		return fmt.Sprintf("only rank %d calls %s: in its place rank %d calls %s", r, m, usual, u)
	case swapped:
		return fmt.Sprintf("ranks call collectives of one group in another order: rank %d calls %s where "+
			"rank %d calls %s", r, m, usual, u)
	}
	return fmt.Sprintf("rank %d calls %s where rank %d calls %s", r, m, usual, u)
}

// usualAt is the rank whose i-th call most of its group make, the first of them where several are as many.
func usualAt(group []int, i int, at func(r, i int) (made, bool)) int {
	best, most := -1, 0
	for _, r := range group {
		m, ok := at(r, i)
		if !ok {
			continue
		}
		n := 0
		for _, o := range group {
			if x, ok := at(o, i); ok && x.same(m) {
				n++
			}
		}
		if n > most {
			best, most = r, n
		}
	}
	return best
}

// cut reports whether a recording has no end: the rank died, or was killed while it waited.
func cut(calls []*capture.Entry) bool { return len(calls) > 0 && calls[len(calls)-1].Unended != "" }

// describe says of a call what all ranks of its group must agree on.
func describe(e *capture.Entry, read pthformat.ReadMode) string {
	name := Name(e.Op)
	rec, err := e.Load(capture.LoadOptions{Read: read, Only: capture.Of(capture.Input)})
	//lint:ignore SA5001 Load always returns a Call
	defer rec.Close()
	words := []string{name}
	if err != nil {
		return name
	}
	if r := (&side{rec: rec}).reduction(); r != "" {
		words = append(words, r)
	}
	ts := value.Tensors(value.NewTuple(append(slices.Clone(rec.Args), rec.Kwargs)...))
	if len(ts) == 0 {
		return strings.Join(words, " ")
	}
	t := ts[len(ts)-1]
	words = append(words, "of "+t.DType.String())
	switch name {
	case "all_reduce", "reduce", "broadcast", "all_gather_into_tensor", "all_gather_base", "reduce_scatter_tensor",
		"reduce_scatter_base", "reduce_scatter_single", "all_gather_single": // others may have parts of other sizes
		words = append(words, tensor.ShapeString(t.Shape))
	}
	return strings.Join(words, " ")
}
