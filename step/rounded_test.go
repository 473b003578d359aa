package step

import (
	"testing"

	"github.com/optool/optool/capture"
)

// TestSumOfRecorded: a gradient that is the sum of recorded ones which replay judged is linked without another run of
// the reference; of one that is not, the reference says what it should be.
func TestSumOfRecorded(t *testing.T) {
	tr := analyse(t, unpack(t, "accumulate"))
	p := tr.Processes[0]
	opt := options(t)
	sums, asked := 0, 0
	for _, u := range p.updaters() {
		for _, c := range u.step.Tail {
			for _, v := range c.Inputs {
				readings := u.parameters[u.gradientOf(v)]
				if v.From.Role != "gradient" || v.From.How != ByContent || len(readings) < 2 {
					continue
				}
				sums++
				b := weightBridge{u: newUnlike(map[argument]*count{})}
				if err := b.settle(v, readings, opt); err != nil || b.pulled || v.From.How != ByContent {
					t.Errorf("%s of %s: %v, the reference was asked: %t", v.Target, c, v.From, b.pulled)
				}
				first := readings[0].Call
				checks := first.Checks
				first.Checks = nil // as if it had not been judged
				b = weightBridge{u: newUnlike(map[argument]*count{})}
				if err := b.settle(v, readings, opt); err != nil || v.From.How != ByContent {
					t.Errorf("%s of %s: %v, %v", v.Target, c, v.From, err)
				}
				if first.Checks = checks; b.pulled {
					asked++
				}
			}
		}
	}
	if sums == 0 || asked == 0 {
		t.Errorf("%d gradients are sums, the reference was asked for %d", sums, asked)
	}
}

// TestNumbersAllocate: numbers of samples cost one allocation, since an analysis asks for those of each value often.
func TestNumbersAllocate(t *testing.T) {
	tr := open(t, "clean")
	for _, c := range tr.Calls() {
		for _, v := range c.Inputs {
			if v.Kind != capture.Input || !v.DType.IsFloat() || v.Numel() < 2 {
				continue
			}
			if n := testing.AllocsPerRun(10, func() { v.content.numbers(v.DType) }); n > 1 {
				t.Fatalf("%s of %s: %v allocations for %d samples", v.Target, c, n, len(v.content.samples))
			}
		}
	}
}
