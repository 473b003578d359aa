package reports

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
)

// call names the call of r in a way that runs of one program have in common: by its folder and by the how many-th call
// of its operator it is in its process or, where that is not known, by its capture.
func (r *Result) call() string {
	if r.Occurrence == nil {
		return r.Capture
	}
	name := "call " + strconv.Itoa(*r.Occurrence)
	if r.Rank != nil {
		name = fmt.Sprintf("rank %d %s", *r.Rank, name)
	}
	return strings.TrimSpace(r.Folder() + " " + name)
}

// caseNames gives values and series names that the history of a CI system knows again: without process numbers
// and dates. What would have the name of another one gets a number.
// Names are kept as hashes, since a run may have millions of them.
type caseNames struct {
	seed maphash.Seed
	seen map[uint64]int
}

func newCaseNames() caseNames { return caseNames{maphash.MakeSeed(), map[uint64]int{}} }

// of is the name of a case with these words.
func (n caseNames) of(class string, words ...string) string {
	name := Cell(strings.Join(strings.Fields(strings.Join(words, " ")), " "))
	k := maphash.Comparable(n.seed, [2]string{class, name})
	n.seen[k]++
	if n.seen[k] > 1 {
		name += fmt.Sprintf(" (%d)", n.seen[k])
	}
	return name
}
