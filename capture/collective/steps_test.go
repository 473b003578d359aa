package collective_test

import (
	"fmt"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/pthformat"
)

// TestSteps: ranks whose optimizers count differently are in the steps of the rank that counts most.
func TestSteps(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ranks [][]string // calls "operator step backward", of each rank; backward -1 for none
		want  string     // the steps of rank 1
	}{
		{"one counts", [][]string{{"linear 0 1", "all_reduce 0 -1", "broadcast 1 -1", "linear 1 5", "all_reduce 1 -1"},
			{"linear 0 1", "all_reduce 0 -1", "broadcast 0 -1", "linear 0 5", "all_reduce 0 -1"}}, "[0 0 1 1 1]"},
		{"a forward pass", [][]string{{"linear 0 1", "all_reduce 0 -1", "linear 1 4", "all_reduce 1 -1"},
			{"linear 0 1", "all_reduce 0 -1", "linear 0 4", "all_reduce 0 -1"}}, "[0 0 1 1]"},
		{"in turn", [][]string{{"all_reduce 0 -1", "broadcast 1 -1", "broadcast 1 -1"},
			{"all_reduce 0 -1", "broadcast 0 -1", "broadcast 1 -1"}}, "[0 1 1]"},
		{"one is missing", [][]string{{"all_reduce 0 -1", "broadcast 0 -1", "all_reduce 1 -1", "broadcast 1 -1"},
			{"all_reduce 0 -1", "all_reduce 1 -1", "broadcast 1 -1"}}, "[0 1 1]"},
		{"alike", [][]string{{"all_reduce 0 -1", "all_reduce 1 -1"}, {"all_reduce 0 -1", "all_reduce 1 -1"}}, "[0 1]"},
		{"an end that only one has", [][]string{{"all_reduce 0 -1", "linear 1 -1"}, {"all_reduce 0 -1"}}, "[0]"},
	} {
		ranks := map[int][]*capture.Entry{}
		for r, calls := range tc.ranks {
			for i, c := range calls {
				e := &capture.Entry{Order: 2 * i, Group: []int{0, 1}, GroupName: "0"}
				var op string
				if _, err := fmt.Sscan(c, &op, &e.Step, &e.BackwardOrder); err != nil {
					t.Fatal(err)
				}
				if e.Op = "torch.distributed." + op; op == "linear" {
					e.Op = "torch.nn.functional.linear"
				}
				ranks[r] = append(ranks[r], e)
			}
		}
		of, got := collective.Steps(ranks, pthformat.ReadMode(0)), []int{}
		for _, e := range ranks[1] {
			got = append(got, of(e))
		}
		if s := fmt.Sprint(got); s != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, s, tc.want)
		}
	}
}
