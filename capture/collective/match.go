package collective

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/pthformat"
)

// Name is the name of a call between processes, without its module; "" of any other operator.
func Name(op string) string {
	for _, module := range []string{"torch.distributed.", "torch.ops.c10d.", "torch.ops._c10d_functional."} {
		if strings.HasPrefix(op, module) {
			return strings.Trim(op[strings.LastIndexByte(op, '.')+1:], "_")
		}
	}
	return ""
}

// An Exchange is one collective call of all ranks of a group, in the order of the group. Or it is a call that sends
// and the call that receives.
type Exchange struct {
	Name  string
	Group []int
	Calls []*capture.Entry
}

// A Match is the exchange that a call belongs to.
type Match struct {
	Exchange *Exchange // nil if not all ranks recorded it
	At       int       // the place of the call's rank in the group
	Why      string    // why there is no exchange
}

var rankName = lazyregexp.New(`(?i)^rank[-_=]?(\d{1,9})$`)

// Rank is the rank that recorded a call: what the recorder says, or a folder named rank0; -1 if neither does.
func Rank(e *capture.Entry) int {
	if e.Rank >= 0 {
		return e.Rank
	}
	rank, _ := rankFolder(e)
	return rank
}

// rankFolder is the rank in the name of a folder, and the text before it; -1 if there is none.
func rankFolder(e *capture.Entry) (rank int, above string) {
	at := 0
	for part := range strings.SplitSeq(e.Rel, "/") {
		if m := rankName().FindStringSubmatch(part); m != nil {
			n, err := strconv.Atoi(m[1])
			if err == nil {
				return n, e.Rel[:at]
			}
		}
		at += len(part) + 1
	}
	return -1, ""
}

// MatchAll finds the exchanges among the calls of all ranks, each in the order of the program. Those of one group run
// in the same order on every rank.
func MatchAll(ranks map[int][]*capture.Entry, read pthformat.ReadMode) map[*capture.Entry]Match {
	out := map[*capture.Entry]Match{}
	step := Steps(ranks, read)
	keyOf := groupKey(step)
	calls := map[int]map[string][]*capture.Entry{} // by rank, then by group and step
	messages := map[string][]message{}             // by sender, receiver, step and direction
	for rank, all := range ranks {
		calls[rank] = map[string][]*capture.Entry{}
		for _, e := range all {
			switch name := Name(e.Op); {
			case name == "" || isFunctional(e.Op) && len(e.Group) == 0:
				// Of wait_tensor and its like the one that they wait for decides.
			case isMessage(name):
				m, why := ends(e, rank, read)
				if out[e] = (Match{Why: why}); why == "" {
					k := m.key(name, step)
					messages[k] = append(messages[k], m)
				}
			case len(e.Group) == 0:
				out[e] = Match{Why: "the ranks of its group were not recorded"}
			default:
				k := keyOf(e)
				calls[rank][k] = append(calls[rank][k], e)
			}
		}
	}
	departed := departures(ranks, keyOf, read)
	for rank, byKey := range calls {
		for key, list := range byKey {
			d, departs := departed[key]
			for i, e := range list {
				if departs && i >= d.at {
					out[e] = Match{Why: "the ranks do not make the same calls: " + d.Reason}
					continue
				}
				out[e] = matched(e, rank, i, len(list), calls, key)
			}
		}
	}
	for rank, all := range ranks {
		for _, e := range all {
			if name := Name(e.Op); isMessage(name) && out[e].Why == "" {
				m, _ := ends(e, rank, read)
				out[e] = m.matched(rank, step, messages, ranks)
			}
		}
	}
	return out
}

// groupKey is the key of the collectives of a group in a step.
func groupKey(step func(*capture.Entry) int) func(*capture.Entry) string {
	return func(e *capture.Entry) string { return fmt.Sprint(wholeKey(e), step(e)) }
}

// wholeKey is the key of all collectives of a group.
func wholeKey(e *capture.Entry) string { return fmt.Sprint(e.Group, e.GroupName) }

// matched is the exchange of the i-th of n calls of a rank in a group.
func matched(e *capture.Entry, rank, i, n int, calls map[int]map[string][]*capture.Entry, key string) Match {
	at := slices.Index(e.Group, rank)
	if at < 0 {
		return Match{Why: "the ranks of its group were not recorded"}
	}
	x := &Exchange{Name: Name(e.Op), Group: e.Group}
	var missing []int
	for _, r := range e.Group {
		if calls[r] == nil {
			missing = append(missing, r)
			continue
		}
		switch other := calls[r][key]; {
		case len(other) != n:
			return Match{Why: fmt.Sprintf("rank %d made %d calls with this group in the step, rank %d made %d", rank, n,
				r, len(other))}
		case other[i].Op != e.Op:
			return Match{Why: fmt.Sprintf("rank %d called %s in its place", r, other[i].Op)}
		default:
			x.Calls = append(x.Calls, other[i])
		}
	}
	if len(missing) > 0 {
		return Match{Why: Missing(missing)}
	}
	return Match{Exchange: x, At: at}
}

// Missing says that ranks of a group were not recorded.
func Missing(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d of the group was not recorded", ranks[0])
	}
	words := make([]string, len(ranks))
	for i, r := range ranks {
		words[i] = strconv.Itoa(r)
	}
	return fmt.Sprintf("ranks %s of the group were not recorded", strings.Join(words, ", "))
}

// isFunctional reports whether an operator is a functional collective, whose result is there after wait_tensor.
func isFunctional(op string) bool { return strings.Contains(op, "c10d_functional") }

func isMessage(name string) bool { return sends(name) || name == "recv" || name == "irecv" }

func sends(name string) bool { return name == "send" || name == "isend" }

// A message is a call that sends a value from one rank to another, or receives it there.
type message struct {
	entry    *capture.Entry
	from, to int
	tag      int64
}

func (m message) key(name string, step func(*capture.Entry) int) string {
	return fmt.Sprint(m.from, m.to, step(m.entry), sends(name))
}

// ends finds the ranks that a message goes from and to, or says why they are not known.
func ends(e *capture.Entry, rank int, read pthformat.ReadMode) (m message, why string) {
	rec, err := e.Load(capture.LoadOptions{Read: read, Only: capture.Of(capture.Input)})
	//lint:ignore SA5001 Load always returns a Call
	defer rec.Close()
	peer := -1
	if err == nil {
		peer = Peer(e, rec)
	}
	m = message{entry: e, from: peer, to: rank}
	m.tag, _ = option(rec, "tag", 3).(int64)
	switch {
	case peer < 0:
		return m, "the rank at the other end was not recorded"
	case sends(Name(e.Op)):
		m.from, m.to = rank, peer
	}
	return m, ""
}

// Peer is the other rank of a call that sends or receives; -1 if it is not known. The program gives its number of all
// ranks, or of those of its group.
func Peer(e *capture.Entry, rec *capture.Call) int {
	all, own := "dst", "group_dst"
	if !sends(Name(e.Op)) {
		all, own = "src", "group_src"
	}
	if n, ok := option(rec, all, 1).(int64); ok {
		return int(n)
	}
	if n, ok := option(rec, own, -1).(int64); ok && n >= 0 && int(n) < len(e.Group) {
		return e.Group[n]
	}
	return -1
}

// matched pairs the messages of two ranks in their order: those of one tag, unless the tags do not fit.
func (m message) matched(rank int, step func(*capture.Entry) int, messages map[string][]message,
	ranks map[int][]*capture.Entry) Match {
	if other := m.from + m.to - rank; ranks[other] == nil {
		return Match{Why: Missing([]int{other})}
	}
	sent, received := messages[m.key("send", step)], messages[m.key("recv", step)]
	if len(sent) != len(received) {
		return Match{Why: fmt.Sprintf("rank %d sent %d messages to rank %d in the step, which received %d", m.from,
			len(sent), m.to, len(received))}
	}
	if s, r := tagged(sent, m.tag), tagged(received, m.tag); len(s) == len(r) {
		sent, received = s, r
	}
	own, at := sent, 0
	if !sends(Name(m.entry.Op)) {
		own, at = received, 1
	}
	i := slices.IndexFunc(own, func(o message) bool { return o.entry == m.entry })
	return Match{Exchange: &Exchange{"send", []int{m.from, m.to},
		[]*capture.Entry{sent[i].entry, received[i].entry}}, At: at}
}

// tagged are the messages with a tag.
func tagged(ms []message, tag int64) []message {
	return slices.DeleteFunc(slices.Clone(ms), func(m message) bool { return m.tag != tag })
}

// Alone is the match of a call whose group has one rank, so that one recording suffices.
func Alone(e *capture.Entry) (Match, bool) {
	if len(e.Group) != 1 || Name(e.Op) == "" || isMessage(Name(e.Op)) || isFunctional(e.Op) {
		return Match{}, false
	}
	return Match{Exchange: &Exchange{Name(e.Op), e.Group, []*capture.Entry{e}}}, true
}

// An Index finds the exchange of each call among all recordings. It is safe for concurrent use.
type Index struct {
	matches func() map[string]Match
}

// NewIndex is an index of the calls that scan gives. They are read when the first is asked for.
func NewIndex(scan iter.Seq2[*capture.Entry, error], read pthformat.ReadMode) *Index {
	return &Index{sync.OnceValue(func() map[string]Match {
		type process struct {
			above     string
			rank, pid int
		}
		by := map[process][]*capture.Entry{}
		for e, err := range scan {
			if err != nil || Name(e.Op) == "" {
				continue
			}
			_, above := rankFolder(e)
			p := process{above, Rank(e), e.PID}
			by[p] = append(by[p], e)
		}
		programs := map[string]map[int][]*capture.Entry{} // by the folder above those of the ranks
		twice := map[string]bool{}
		for p, calls := range by {
			slices.SortStableFunc(calls, (*capture.Entry).Compare)
			if programs[p.above] == nil {
				programs[p.above] = map[int][]*capture.Entry{}
			}
			twice[p.above] = twice[p.above] || programs[p.above][p.rank] != nil || p.rank < 0
			programs[p.above][p.rank] = append(programs[p.above][p.rank], calls...)
		}
		out := map[string]Match{}
		for above, ranks := range programs {
			if twice[above] {
				for _, calls := range ranks {
					for _, e := range calls {
						out[key(e)] = Match{Why: "recordings of several runs, or of ranks that are not known, lie beside each other"}
					}
				}
				continue
			}
			for e, m := range MatchAll(ranks, read) {
				out[key(e)] = m
			}
		}
		return out
	})}
}

func key(e *capture.Entry) string { return e.Dir + "\x00" + e.Rel }

// Of finds the match of a call.
func (x *Index) Of(e *capture.Entry) Match {
	if m, ok := Alone(e); ok {
		return m
	}
	if x == nil {
		return Match{Why: verdict.BetweenProcesses}
	}
	if m, ok := x.matches()[key(e)]; ok {
		return m
	}
	return Match{Why: verdict.BetweenProcesses}
}
