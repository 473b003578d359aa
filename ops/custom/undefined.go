package custom

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
)

// undefined adds to an error about a name that a file does not define which functions there are.
func undefined(err error, known starlark.StringDict) error {
	var list resolve.ErrorList
	if !errors.As(err, &list) || len(list) == 0 {
		return err
	}
	name, ok := strings.CutPrefix(list[0].Msg, "undefined: ")
	if !ok {
		return err
	}
	name, _, _ = strings.Cut(name, " ")
	text := "optool ops --functions lists the functions there are"
	if near := alike(name, slices.Sorted(maps.Keys(known))); len(near) > 0 {
		text = fmt.Sprintf("there are %s; %s", strings.Join(near, ", "), text)
	}
	return fmt.Errorf("%w: %s", err, text)
}

// mostAlike is how many names are proposed.
const mostAlike = 4

// alike are the names that share most of the words of a name, the longest words first: of layer_norm, norm and
// rms_norm. A word is shared if one begins with the other.
func alike(name string, names []string) (near []string) {
	shared := map[string]int{}
	for _, other := range names {
		for word := range strings.SplitSeq(strings.ToLower(name), "_") {
			for of := range strings.SplitSeq(strings.ToLower(other), "_") {
				if n := min(len(word), len(of)); n > 2 && word[:n] == of[:n] {
					shared[other] += n
				}
			}
		}
	}
	near = slices.SortedFunc(maps.Keys(shared), func(a, b string) int {
		return cmp.Or(cmp.Compare(shared[b], shared[a]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return near[:min(len(near), mostAlike)]
}
