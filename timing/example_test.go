package timing_test

import (
	"fmt"
	"time"

	"github.com/optool/optool/timing"
)

// Ten runs before a change and ten after it, which are a tenth slower.
func ExampleCompare() {
	var before, after []timing.Sample
	for i := range 10 {
		d := 100*time.Microsecond + time.Duration(i)*100*time.Nanosecond
		before = append(before, timing.Sample{Elapsed: d, Round: i})
		after = append(after, timing.Sample{Elapsed: d * 11 / 10, Round: i})
	}
	c := timing.Compare(before, after, timing.Resolution)
	fmt.Printf("%s: %.2f times as long\n", c.Verdict, c.Ratio)
	// Output:
	// SLOWER: 1.10 times as long
}
