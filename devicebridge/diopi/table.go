package diopi

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/tensor/value"
)

// The recipes, by family.
var recipes = sync.OnceValue(func() *registry {
	g := &registry{byName: map[string]*Recipe{}}
	for _, family := range [][]*Recipe{
		pointwise(), reductions, matrices, convolutions, pools, norms, losses, indexing, shapes, creations, optimizers,
		attentions,
	} {
		for _, r := range family {
			if _, twice := g.byName[r.Function]; twice {
				panic("diopi: two recipes for " + r.Function)
			}
			g.byName[r.Function] = r
			g.all = append(g.all, r)
		}
	}
	for _, r := range beyond {
		g.byName[r.Function] = r
	}
	slices.SortFunc(g.all, func(a, b *Recipe) int { return strings.Compare(a.Function, b.Function) })
	return g
})

type registry struct {
	all    []*Recipe
	byName map[string]*Recipe
}

// A param is a parameter of a function of the kit.
type param struct {
	name     string
	value    value.Value // the default
	optional bool
	rest     bool // takes any further keyword
}

// parameters are the parameters that sig lists, as Python writes them.
func (r *Recipe) parameters() ([]param, error) {
	r.once.Do(func() {
		for _, s := range fields(r.sig) {
			if s == "**" {
				r.once.params = append(r.once.params, param{rest: true})
				continue
			}
			name, text, optional := strings.Cut(s, "=")
			p := param{name: name, optional: optional}
			if optional {
				v, err := value.ParseLiteral(text)
				if err != nil {
					r.once.err = fmt.Errorf("signature %q: %w", r.sig, err)
				}
				p.value = v
			}
			r.once.params = append(r.once.params, p)
		}
	})
	return r.once.params, r.once.err
}

// fields splits a list at commas and blanks.
func fields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
