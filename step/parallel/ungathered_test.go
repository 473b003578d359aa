package parallel

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// TestNeverGathered: parameters of which ranks updated parts must not be read as they were before.
func TestNeverGathered(t *testing.T) {
	w := func(x ...float64) *array { return &array{tensor.Float32, []int{len(x)}, x} }
	old, updated := w(1, 2, 3), w(1.5, 2.5, 3.5)
	call := &step.Call{Entry: &capture.Entry{}}
	for _, tc := range []struct {
		name        string
		now, after  *array
		never, some bool
	}{
		{name: "gathered", now: updated, after: updated},
		{name: "not gathered", now: old, after: updated, never: true},
		{name: "nothing to gather", now: old, after: w(1, 2, 3)},
		{name: "half gathered", now: old, after: updated, some: true},
	} {
		s := &site{calls: map[int]*step.Call{0: call, 1: call}}
		is := func(a *array) *gradient {
			return &gradient{names: map[int]string{0: "w"}, value: map[int]*array{0: a, 1: a},
				calls: []contribution{{site: s}}}
		}
		p := &part{mesh: &mesh{ranks: []int{0, 1}}, grads: map[string]*gradient{"w": is(tc.now)}}
		u := ungathered{call, []string{"w"}, map[string]*array{"w": old}, map[string]*array{"w": tc.after}}
		if tc.some {
			u.names, u.before["b"], u.after["b"] = append(u.names, "b"), old, updated
			p.grads["b"] = is(updated)
		}
		if p.neverGathered([]ungathered{u}); (len(p.broken) > 0) != tc.never {
			t.Errorf("%s: %v", tc.name, p.broken)
		}
	}
}
