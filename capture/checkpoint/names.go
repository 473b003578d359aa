package checkpoint

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/optool/optool/internal/smallfile"
)

// A Map says what values are called on the other side.
type Map struct{ rules []rule }

type rule struct {
	from       *regexp.Regexp
	to         string
	transposed bool
}

// LoadMap reads a file of lines such as
//
//	model.layers.*.q_proj.weight -> decoder.layers.*.wq  # a remark
//	lm_head.weight -> output.kernel transposed
//
// in which each * stands for any text, the same on both sides. The first line that
// matches the whole of a name holds; other names stay as they are. A value that is
// transposed has its last two axes exchanged.
func LoadMap(path string) (*Map, error) {
	b, err := smallfile.Read(path, smallfile.Most)
	if err != nil {
		return nil, err
	}
	m, err := ParseMap(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// ParseMap reads the text of a map.
func ParseMap(text string) (*Map, error) {
	m := &Map{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		from, to, ok := strings.Cut(line, "->")
		words := strings.Fields(to)
		from = strings.TrimSpace(from)
		transposed := len(words) == 2 && words[1] == "transposed"
		if !ok || from == "" || len(words) != 1 && !transposed {
			return nil, fmt.Errorf("line %d: want NAME -> NAME, perhaps followed by transposed", n)
		}
		if strings.Count(from, "*") != strings.Count(words[0], "*") {
			return nil, fmt.Errorf("line %d: %d * on the left, %d on the right", n, strings.Count(from, "*"),
				strings.Count(words[0], "*"))
		}
		expr := "^" + strings.ReplaceAll(regexp.QuoteMeta(from), `\*`, "(.*)") + "$"
		re, err := regexp.Compile(expr)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q is too long", n, from)
		}
		m.rules = append(m.rules, rule{re, words[0], transposed})
	}
	return m, nil
}

// Rename is the name on the other side, and whether the value is transposed there.
func (m *Map) Rename(name string) (to string, transposed bool) {
	if m == nil {
		return name, false
	}
	for _, r := range m.rules {
		parts := r.from.FindStringSubmatch(name)
		if parts == nil {
			continue
		}
		var b strings.Builder
		for i, piece := range strings.Split(r.to, "*") {
			if i > 0 {
				b.WriteString(parts[i])
			}
			b.WriteString(piece)
		}
		return b.String(), r.transposed
	}
	return name, false
}
