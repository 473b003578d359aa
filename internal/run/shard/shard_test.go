package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func tree(n int) []Call {
	rng := rand.New(rand.NewPCG(1, 2))
	calls := make([]Call, n)
	for i := range calls {
		op := []string{"torch.add", "torch.matmul", "torch.nn.functional.gelu"}[i%3]
		calls[i] = Call{fmt.Sprintf("%s/25021/%d", op, i), Estimate(op, 1<<rng.IntN(24))}
	}
	return calls
}

// Parts cost the same but for the dearest call, take each call once, and do not depend on
// anything but the list.
func TestAssign(t *testing.T) {
	calls := tree(5000)
	for _, n := range []int{1, 3, 8, 64} {
		of := Assign(calls, n)
		loads, counts, dearest := make([]Cost, n), make([]int, n), Cost(0)
		for i, p := range of {
			loads[p] += calls[i].Cost
			counts[p]++
			dearest = max(dearest, calls[i].Cost)
		}
		least, most := loads[0], loads[0]
		for p, l := range loads {
			least, most = min(least, l), max(most, l)
			if counts[p] == 0 {
				t.Errorf("%d parts: part %d has no calls", n, p)
			}
		}
		if most-least > dearest {
			t.Errorf("%d parts: loads from %v to %v, more apart than the dearest call, %v", n, least, most, dearest)
		}
		if again := Assign(tree(5000), n); fmt.Sprint(again) != fmt.Sprint(of) {
			t.Errorf("%d parts: not the same the second time", n)
		}
	}
	if Digest(calls, 8) == Digest(calls, 4) || Digest(calls, 8) == Digest(calls[1:], 8) {
		t.Error("digests of other lists are the same")
	}
}

func TestMoreParts(t *testing.T) {
	if of := Assign(tree(3), 64); len(of) != 3 || of[0] == of[1] || of[1] == of[2] || of[0] == of[2] {
		t.Errorf("3 calls in 64 parts: %v", of)
	}
	if of := Assign(tree(3), math.MaxInt); fmt.Sprint(of) != fmt.Sprint(Assign(tree(3), 64)) {
		t.Errorf("3 calls in as many parts as can be counted: %v", of)
	}
	if of := Assign(nil, 2); len(of) != 0 {
		t.Errorf("no calls: %v", of)
	}
}

func TestEstimate(t *testing.T) {
	add, mm := Estimate("torch.add", 1<<30), Estimate("torch.mm", 1<<30)
	if add >= mm || Estimate("torch.add", 1<<20) >= add || Estimate("torch.add", 0) <= 0 {
		t.Errorf("1 GiB: an addition costs %v, a product %v", add.Duration(), mm.Duration())
	}
}
