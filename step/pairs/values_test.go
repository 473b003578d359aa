package pairs

import (
	"strings"
	"testing"

	"github.com/optool/optool/capture/checkpoint"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
)

func set(path string, items ...any) *checkpoint.Set {
	s := &checkpoint.Set{Path: path}
	for i := 0; i < len(items); i += 2 {
		s.Values = append(s.Values, &checkpoint.Named{Name: items[i].(string), File: path, Value: items[i+1]})
	}
	return s
}

// TestByName pairs values by name; what only one side has is a difference.
func TestByName(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Comparer{Tolerances: tol}
	names, err := checkpoint.ParseMap("x.* -> y.*")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range ByName(set("a", "x.w", floats(1, 2), "x.b", floats(1), "n", int64(3), "gone", floats(1)),
		set("b", "y.b", floats(2), "n", int64(3), "new", floats(1), "y.w", floats(1, 2)), names) {
		r := c.CompareNamed(p, "again")
		rule := ""
		if f := p.Finding(); f != nil {
			rule = " " + string(f.Rule)
		}
		got = append(got, r.Capture+" "+r.Target+" "+string(r.Verdict)+rule)
		if *r.Repro != "again" || r.Op != r.Target || r.Phase != "forward" {
			t.Errorf("result %+v", r)
		}
	}
	want := "a x.w pass, a x.b fail, a n pass, a gone fail missing, b new fail inserted"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	// A value that stands alone belongs to the only one of the other side; names that differ are a difference.
	alone := set("a", "value", floats(1))
	alone.Values[0].Bare = true
	if p := ByName(alone, set("b", "w", floats(1)), nil); len(p) != 1 ||
		c.CompareNamed(p[0], "").Verdict != verdict.Pass {
		t.Errorf("an array and a dict of one: %+v", p)
	}
	if p := ByName(set("a", "v", floats(1)), set("b", "w", floats(1)), nil); len(p) != 2 || p[0].B != nil ||
		p[1].A != nil {
		t.Errorf("two dicts of one: %+v", p)
	}
}
