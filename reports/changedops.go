package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
)

// The kinds of changed calls, by their worst value, the worst first.
const (
	newlyWrong    = "newly wrong"
	expiredCalls  = "known until its last day, expired"
	farWorseCalls = "wrong before, far worse now"
	lessJudged    = "no longer judged"
	goneWrong     = "gone, was wrong"
	repaired      = "repaired"
	warnedCalls   = string(Warned)
	betterCalls   = "better"
	stillWrong    = "still wrong"
	knownCalls    = "known"
	newCalls      = "new"
	newValues     = "with new values"
	goneCalls     = "gone"
	lackingWrong  = "with values gone that were wrong"
	lackingCalls  = "with values gone"
	unneededCalls = string(Unneeded)
	unseenCalls   = "not looked at"
	unreadCalls   = "could not be read"
	readAgain     = "readable again"
)

var callChanges = []string{newlyWrong, expiredCalls, farWorseCalls, lessJudged, goneWrong, lackingWrong, stillWrong,
	repaired, warnedCalls, betterCalls, unreadCalls, knownCalls, readAgain, newCalls, newValues, goneCalls,
	lackingCalls, unneededCalls, unseenCalls}

// asGood is the kind of the calls of a run that are as good as before.
const asGood = "as good as before"

// told reports whether ChangedOps has lines for a kind.
func told(kind string) bool {
	return slices.Index(callChanges, kind) < slices.Index(callChanges, unreadCalls)
}

// A changedCall is a call with changed values.
type changedCall struct {
	op           string
	kind         int // of callChanges: the least of its values
	since, right *Night
	old          bool // only the old run has it
	ofNoCall     bool // it is what is said of no call
	warned       bool // a value of it is a new warning
}

// changedCalls are the calls with changed values, in the order of changes.
func changedCalls(changes []ResultChange) (calls []*changedCall) {
	type call struct{ capture, op string }
	of := map[call]*changedCall{}
	for i := range changes {
		c := &changes[i]
		kind, r := slices.Index(callChanges, c.kind()), c.Result()
		if c.New == nil && c.Call != nil {
			if r = c.Call; c.Change == Unneeded { // the call is as it would be without
				continue
			}
		}
		at := call{r.Capture, r.Op}
		was := of[at]
		if was == nil {
			was = &changedCall{op: r.Op, kind: kind, old: true, ofNoCall: r.ofNoCall()}
			of[at] = was
			calls = append(calls, was)
		}
		was.warned = was.warned || c.Word() == Warned
		was.kind, was.old = min(was.kind, kind), was.old && c.New == nil && c.Call == nil
		if c.Since != nil && (was.since == nil || c.Since.age > was.since.age) {
			was.since, was.right = c.Since, c.LastRight
		}
	}
	return calls
}

// CountCalls counts the calls of each kind, and those that are as good as before, of a run with so many calls. Each
// call of the run is of one kind. Calls that only the run before has are counted apart:
// "479 calls: 4 newly wrong, 1 known, 474 as good as before; 2 calls only before: 2 gone".
func CountCalls(changes []ResultChange, calls int) string {
	now, before := make([]int, len(callChanges)+1), make([]int, len(callChanges))
	now[len(callChanges)] = calls
	warned := 0
	for _, c := range changedCalls(changes) {
		switch {
		case c.old:
			before[c.kind]++
		case !c.ofNoCall:
			now[c.kind]++
			now[len(callChanges)]--
			warned += btoi(c.warned && callChanges[c.kind] == repaired)
		}
	}
	kinds := append(slices.Clone(callChanges), asGood)
	list := func(count []int) (total int, text string) {
		var parts []string
		for i, n := range count {
			if n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, kinds[i]))
				if kinds[i] == repaired && warned > 0 {
					parts[len(parts)-1] += fmt.Sprintf(" (%d of them %s)", warned, Warned)
				}
			}
			total += n
		}
		return total, strings.Join(parts, ", ")
	}
	_, text := list(now)
	text = Count(calls, "call") + ": " + cmp.Or(text, "none")
	if n, gone := list(before); n > 0 {
		text += fmt.Sprintf("; %s only before: %s", Count(n, "call"), gone)
	}
	return text
}

// maxChangedOps is how many lines ChangedOps has at most, and one that counts the others.
const maxChangedOps = 20

// ChangedOps says which operators have changed calls, how many, and since when they fail: "newly wrong", "torch.exp, 6
// calls, since ...". New, gone, known and unreadable values are left out, except gone ones that were wrong. A call of
// several values counts once, by its worst one.
func ChangedOps(changes []ResultChange) (lines []Fact) {
	type line struct {
		kind int
		op   string
	}
	count, first, order := map[line]int{}, map[line]*changedCall{}, []line(nil)
	for _, c := range changedCalls(changes) {
		if !told(callChanges[c.kind]) {
			continue
		}
		l := line{c.kind, c.op}
		if count[l]++; count[l] == 1 {
			order = append(order, l)
		}
		if first[l] == nil || c.since != nil && (first[l].since == nil || c.since.age > first[l].since.age) {
			first[l] = c
		}
	}
	slices.SortStableFunc(order, func(a, b line) int { return cmp.Compare(a.kind, b.kind) })
	for i, l := range order {
		if i == maxChangedOps {
			return append(lines, Fact{"changed too", Count(len(order)-i, "more operator")})
		}
		text := fmt.Sprintf("%s, %s", Name(l.op), Count(count[l], "call"))
		if since := sinceText(first[l].since, first[l].right); since != "" {
			text += ", " + since
		}
		lines = append(lines, Fact{callChanges[l.kind], text})
	}
	return lines
}

// kind is one of callChanges.
func (c *ResultChange) kind() string {
	judged := func(r *Result) bool { return r.Verdict == verdict.Pass || r.Verdict == verdict.Warn }
	switch {
	case c.Change == Gone && c.Old.Finding() && c.Call != nil:
		return lackingWrong
	case c.Change == Gone && c.Old.Finding():
		return goneWrong
	case c.Change == Gone && c.Call != nil:
		return lackingCalls
	case c.Change == Gone:
		return goneCalls
	case c.Change == Unneeded:
		return unneededCalls
	case c.Change == Unread:
		return unreadCalls
	case c.Change == Added && c.Old != nil && judged(c.New):
		return readAgain
	case c.Change == Unseen:
		return unseenCalls
	case c.FarWorse():
		return farWorseCalls
	case c.Change == IsKnown:
		return knownCalls
	case c.Regressed() && c.New.Finding() && c.Old != nil && c.Old.Verdict == verdict.Known &&
		c.New.timesWorse(c.Old.Extent()) >= farWorse:
		return farWorseCalls
	case c.Regressed() && c.New.lapsed:
		return expiredCalls
	case c.Regressed() && c.New.Finding():
		return newlyWrong
	case c.Change == StaysBad:
		return stillWrong
	case c.Word() == Warned:
		return warnedCalls
	case c.Regressed():
		return lessJudged
	case c.Change == Better && c.Old.fails() && judged(c.New):
		return repaired
	case c.Change == Better && c.Old.Finding():
		return lessJudged
	case c.Change == Better:
		return betterCalls
	case c.Call != nil:
		return newValues
	}
	return newCalls
}

// RepairedSince says which operators have calls that failed in the last night and pass now, and counts the calls. Those
// of which the changes since an older run say it already are left out.
func RepairedSince(last *Night, now []*Result, changes []ResultChange) (lines []Fact, calls int) {
	said := map[*Result]bool{}
	for i := range changes {
		said[changes[i].New] = said[changes[i].New] || changes[i].kind() == repaired
	}
	since := slices.DeleteFunc(ResultChanges(slices.Collect(last.Results), now), func(c ResultChange) bool {
		return c.kind() == repaired && said[c.New]
	})
	name := repaired + " since " + last.Date()
	for _, f := range ChangedOps(since) {
		if f.Name == repaired {
			lines = append(lines, Fact{name, f.Text})
		}
	}
	for _, c := range changedCalls(since) {
		calls += btoi(callChanges[c.kind] == repaired)
	}
	return lines, calls
}
