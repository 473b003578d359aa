package step

import "testing"

// TestGradientOf: the gradient of an argument is the one with its number, however many have its shape, as those of the
// items of stack do. Where none has the number, the shape decides if it is one gradient's alone.
func TestGradientOf(t *testing.T) {
	row, table := []int{4}, []int{2, 4}
	call := func(shapes ...[]int) *Call {
		c := &Call{}
		for i, s := range shapes {
			c.Inputs = append(c.Inputs, &Value{Call: c, Shape: s, leaf: i})
		}
		return c
	}
	for _, tc := range []struct {
		name  string
		c     *Call
		grads map[int][]int // shapes by number
		want  []int         // the number of each argument's gradient, -1 if there is none
	}{
		{"stack", call(row, row, row, row), map[int][]int{0: row, 1: row, 2: row, 3: row}, []int{0, 1, 2, 3}},
		{"without one", call(row, row, row), map[int][]int{0: row, 2: row}, []int{0, -1, 2}},
		{"shapes", call(table, row), map[int][]int{0: table, 1: row}, []int{0, 1}},
		{"none", call(table, row), nil, []int{-1, -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i := range tc.c.Inputs {
				if shape := tc.grads[i]; shape != nil {
					tc.c.Grads = append(tc.c.Grads, &Value{Call: tc.c, Shape: shape, leaf: i})
				}
			}
			for i, v := range tc.c.Inputs {
				got := -1
				if g := tc.c.gradientOf(v); g != nil {
					got = g.leaf
				}
				if got != tc.want[i] {
					t.Errorf("argument %d has gradient %d, want %d", i, got, tc.want[i])
				}
			}
		})
	}
}
