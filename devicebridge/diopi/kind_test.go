package diopi

import "testing"

// TestKinds: the table has every kind of parameter of the operators, and no other.
func TestKinds(t *testing.T) {
	used := map[Kind]bool{}
	for _, f := range Functions() {
		for _, p := range f.Params {
			kind, _ := p.Kind.split()
			used[kind] = true
		}
	}
	for _, f := range Operators() {
		for _, p := range f.Params {
			if _, ok := p.Kind.Passing(); !ok {
				t.Errorf("%s of %s: kind %s is not in the table", p.Name, f.Name, p.Kind)
			}
		}
	}
	for kind, p := range kinds {
		if !used[kind] {
			t.Errorf("no function has a parameter of kind %s", kind)
		}
		if (p.Form == FormOut) != (p.Read != nil) {
			t.Errorf("kind %s: want Read for plain results, and for them alone", kind)
		}
	}
}
