package parallel

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/step"
)

// A Plan is what a user says of a program: the dimensions of its mesh, and where parameters lie, where the recording
// does not say.
type Plan struct {
	names []string // of the dimensions, the slowest first
	sizes []int
	rules []rule
}

// A rule is where the parameters lie whose names match a pattern.
type rule struct {
	pattern string
	places  []place
}

// ParsePlan reads lines, or texts with semicolons between them: first "mesh dp=2 tp=4", the ranks in this order, then
// rules "layers.*.up.weight tp=S(0)" and "* R": the first that matches counts, and dimensions that it does not name
// hold the same.
func ParsePlan(text string) (*Plan, error) {
	p := &Plan{}
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case p.sizes == nil:
			if words[0] != "mesh" || len(words) < 2 {
				return nil, fmt.Errorf("%q: want the dimensions first, as in \"mesh dp=2 tp=4\"", line)
			}
			if err := p.parseMesh(words[1:]); err != nil {
				return nil, err
			}
			continue
		case len(words) < 2:
			return nil, fmt.Errorf("%q: want a pattern and placements, as in \"*.weight tp=S(0)\"", line)
		}
		r := rule{pattern: words[0], places: slices.Repeat([]place{whole}, len(p.sizes))}
		if _, err := path.Match(r.pattern, ""); err != nil {
			return nil, fmt.Errorf("%q is no pattern", r.pattern)
		}
		for _, w := range words[1:] {
			if err := p.parsePlacement(w, r.places); err != nil {
				return nil, err
			}
		}
		p.rules = append(p.rules, r)
	}
	if p.sizes == nil {
		return nil, fmt.Errorf("no mesh: want \"mesh dp=2 tp=4\" first")
	}
	return p, nil
}

// parseMesh reads the dimensions of the mesh.
func (p *Plan) parseMesh(words []string) error {
	for _, w := range words {
		name, size, _ := strings.Cut(w, "=")
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 || n > 1<<20 || name == "" || slices.Contains(p.names, name) {
			return fmt.Errorf("%q is no dimension: want NAME=SIZE", w)
		}
		p.names, p.sizes = append(p.names, name), append(p.sizes, n)
	}
	return nil
}

// parsePlacement reads a placement into places, of which there is one for each dimension of the mesh.
func (p *Plan) parsePlacement(word string, places []place) error {
	if word == "R" {
		return nil
	}
	name, kind, _ := strings.Cut(word, "=")
	at := slices.Index(p.names, name)
	if at >= 0 && kind == "R" {
		return nil
	}
	var dim int
	if n, err := fmt.Sscanf(kind, "S(%d)", &dim); at < 0 || n != 1 || err != nil || dim < 0 {
		return fmt.Errorf("%q is no placement: want R, or DIMENSION=R or S(N)", word)
	}
	places[at] = place{sharded, dim, 0, 1}
	return nil
}

// ranks is how many ranks the mesh has.
func (p *Plan) ranks() int {
	n := 1
	for _, s := range p.sizes {
		n *= s
	}
	return n
}

// covers reports whether there is a plan, and its mesh has as many ranks.
func (p *Plan) covers(ranks []int) bool { return p != nil && p.ranks() == len(ranks) }

// grid arranges ranks; nil if the mesh has another number of them.
func (p *Plan) grid(ranks []int) []dimension {
	if !p.covers(ranks) {
		return nil
	}
	var dims []dimension
	step := len(ranks)
	for _, size := range p.sizes {
		step /= size
		d := dimension{size: size}
		for i := range ranks {
			if i/step%size == 0 {
				var g []int
				for k := range size {
					g = append(g, ranks[i+k*step])
				}
				d.groups = append(d.groups, g)
			}
		}
		dims = append(dims, d)
	}
	return dims
}

// places is where a parameter lies; nil if the plan does not say.
func (p *Plan) places(name string) []place {
	for _, r := range p.rules {
		if ok, _ := path.Match(r.pattern, name); ok {
			return r.places
		}
	}
	return nil
}

// planned is where the plan says that a parameter lies; nil without a plan for this mesh.
func (p *part) planned(name string) []place {
	if name == "" || !p.checker.plan.covers(p.ranks) {
		return nil
	}
	return p.checker.plan.places(name)
}

// keeps finds a parameter that does not lie as the plan says: replicas that differ, and parts that are the same.
func (p *part) keeps(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	for i, a := range lead.ins {
		places := p.planned(a.name)
		if places == nil || p.kept[a.name] {
			continue
		}
		p.kept[a.name] = true
		values := p.column(sides, func(d *side) *array { return d.ins[i].array })
		for m, q := range places {
			same := p.equal(m, values, 0)
			if same == (q.kind == replicated) || same && values[p.ranks[0]].constant() {
				continue
			}
			v := &violation{kind: "replica", site: s, ranks: p.ranks, target: p.target(lead, []string{a.name}),
				reason: fmt.Sprintf("%s differs between ranks %s: --layout says that it is replicated there", a.name,
					rankList(p.dims[m].groups[0]))}
			if same {
				v.kind, v.reason = "shard", fmt.Sprintf("ranks %s hold the same %s: --layout says that they hold its parts "+
					"along dimension %d", rankList(p.dims[m].groups[0]), a.name, q.dim)
			}
			p.found(true, v)
			break
		}
	}
}

// fits reports, as an error, that a plan is for another number of ranks than were recorded.
func (p *Plan) fits(stages [][]*step.Process) error {
	if p == nil {
		return nil
	}
	var counts []string
	for _, stage := range stages {
		if len(stage) == p.ranks() {
			return nil
		}
		counts = append(counts, fmt.Sprint(len(stage)))
	}
	return fmt.Errorf("the mesh of --layout has %d ranks: the recordings have %s of one program", p.ranks(),
		strings.Join(counts, " and "))
}
