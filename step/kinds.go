package step

import (
	"slices"
	"strings"
	"unicode"

	"github.com/optool/optool/compare/verdict"
)

// A Kind is findings that are alike, in order of time: what one fault of one operator does, or the calls of one
// operator that only one of two runs makes.
type Kind []*Finding

// Kinds are the findings by kind, in the order of the first finding of each.
func (t *Trace) Kinds() []Kind { return KindsOf(t.Findings) }

// KindsOf groups findings by kind.
func KindsOf(findings []*Finding) (kinds []Kind) {
	for _, f := range findings {
		if i := slices.IndexFunc(kinds, func(k Kind) bool { return f.IsAlike(k[0]) }); i >= 0 {
			kinds[i] = append(kinds[i], f)
			continue
		}
		kinds = append(kinds, Kind{f})
	}
	return kinds
}

// IsAlike reports whether two findings are one kind: wrong values of calls of one operator, the same value for the same
// reason apart from numbers, for which no different causes were found; what was overwritten between the passes of
// calls on one line; values that calls on one line read and that changed for the same reason apart from numbers; or
// calls of one operator that one run lacks.
func (f *Finding) IsAlike(g *Finding) bool {
	if f.Rule != g.Rule || f.Call.Op != g.Call.Op || f.Side != g.Side {
		return false
	}
	if f.Alone() {
		return true
	}
	if f.betweenPasses {
		return g.betweenPasses && f.Target == g.Target && f.Call.onLineOf(g.Call)
	}
	if f.Rule == verdict.Changed {
		return !g.betweenPasses && f.Drawn() == NotDrawn && g.Drawn() == NotDrawn && f.backward == g.backward &&
			f.told == g.told && f.Call.onLineOf(g.Call) && wordsOf(f.Reason) == wordsOf(g.Reason)
	}
	return f.Rule == verdict.Wrong && f.Target == g.Target && f.isLike(g) && wordsOf(f.Reason) == wordsOf(g.Reason)
}

// wordsOf are the words of a text that have no numbers in them.
func wordsOf(text string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(text), func(word string) bool {
		return strings.ContainsFunc(word, unicode.IsDigit)
	}), " ")
}

// Explained is the first finding of a kind with the causes of the first one for which a cause was found.
func (k Kind) Explained() *Finding {
	f := *k[0]
	for _, g := range k {
		if len(g.causesFound()) > 0 {
			f.Causes = g.Causes
			break
		}
	}
	return &f
}
