package mapping

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor/value"
)

// A Mapping is how DIOPI computes an operator: a recipe and what fills its keywords.
type Mapping struct {
	Recipe  *diopi.Recipe
	op      string
	sources []source
	ignored []string // arguments without effect on a device
	unset   []string // flags that must be absent or False
}

// A source is what fills a keyword of a recipe.
type source struct {
	keyword string
	arg     string      // the schema's name of the argument, "" if none
	item    int         // of a list argument; -1 for all of it
	special string      // "@out", "@shape", "@parts"
	literal value.Value // else
}

// A noRecipe is why DIOPI cannot run an operator.
type noRecipe struct{ reason string }

func (e *noRecipe) Error() string { return e.reason }

// Of returns how DIOPI computes an operator. The error says why it cannot.
func Of(e *opdef.Entry) (*Mapping, error) {
	if err := e.Ready(); err != nil {
		return nil, err
	}
	m, err := parse(e, table[e.Op()])
	if err != nil {
		return nil, fmt.Errorf("op %s: %w", e.Op(), err)
	}
	return m, nil
}

// parse reads a line of the table, "" for an operator that is not listed, against
// the operator's schema and the recipe.
func parse(e *opdef.Entry, line string) (*Mapping, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		name, _, _ := strings.Cut(e.Op(), ".")
		words = []string{name}
	}
	r, ok := diopi.Find(words[0])
	switch {
	case words[0] == "none":
		return nil, &noRecipe{"DIOPI has no function for this overload"}
	case !ok && line != "":
		return nil, fmt.Errorf("mapping %q: no recipe is named %s", line, words[0])
	case !ok && e.View:
		return nil, &noRecipe{"DIOPI has no function for it: views are made without a device"}
	case !ok:
		return nil, &noRecipe{"DIOPI has no function for it"}
	}
	m := &Mapping{Recipe: r, op: e.Op()}
	for _, w := range words[1:] {
		if err := m.add(e, w); err != nil {
			return nil, fmt.Errorf("mapping %q: %q: %w", line, w, err)
		}
	}
	if keyword := m.addNamesakes(e); keyword != "" {
		if line != "" {
			return nil, fmt.Errorf("mapping %q: nothing fills %s", line, keyword)
		}
		return nil, &noRecipe{"DIOPI has no function for this overload"}
	}
	return m, nil
}

// add reads one word of a line: "keyword=what", "-argument" or "!argument".
func (m *Mapping) add(e *opdef.Entry, word string) error {
	if name, ok := strings.CutPrefix(word, "-"); ok {
		if !e.HasArgument(name) {
			return errors.New("no argument of the op")
		}
		m.ignored = append(m.ignored, name)
		return nil
	}
	if name, ok := strings.CutPrefix(word, "!"); ok {
		if !e.HasArgument(name) {
			return errors.New("no argument of the op")
		}
		m.unset = append(m.unset, name)
		return nil
	}
	keyword, what, _ := strings.Cut(word, "=")
	if !slices.Contains(m.Recipe.Params(), keyword) {
		return errors.New("no keyword of the recipe")
	}
	s, err := parseSource(e, keyword, what)
	m.sources = append(m.sources, s)
	return err
}

// parseSource reads what fills a keyword.
func parseSource(e *opdef.Entry, keyword, what string) (source, error) {
	s := source{keyword: keyword, item: -1}
	switch what {
	case "@out", "@shape", "@parts":
		s.special = what
		return s, nil
	}
	name, item, isItem := strings.Cut(what, ".")
	if !e.HasArgument(name) {
		v, err := value.ParseLiteral(what)
		s.literal = v
		return s, err
	}
	s.arg = name
	if isItem {
		n, err := strconv.Atoi(item)
		if err != nil || n < 0 {
			return s, errors.New("want the number of an item after the argument's name")
		}
		s.item = n
	}
	return s, nil
}

// addNamesakes fills the keywords that no word fills with the arguments of the same
// name. It returns a keyword that must be filled and cannot, "" if there is none.
func (m *Mapping) addNamesakes(e *opdef.Entry) (unfilled string) {
	keywords := m.Recipe.Params()
	for _, k := range keywords {
		if slices.ContainsFunc(m.sources, func(s source) bool { return s.keyword == k }) {
			continue
		}
		arg := k
		if k == "input" && !e.HasArgument(k) {
			arg = "self"
		}
		if k == "self" && e.HasArgument(k) && slices.Contains(keywords, "input") {
			continue // the tensor is input; self is the number of two operands
		}
		if e.HasArgument(arg) {
			m.sources = append(m.sources, source{keyword: k, arg: arg, item: -1})
		} else if m.Recipe.Required(k) {
			return k
		}
	}
	return ""
}
