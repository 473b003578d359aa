// Package timed measures recorded calls: each kind of work once, forward and
// backward, with cold and with hot caches, in rounds that can be compared with those
// of another run.
package timed

import (
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// A Task is a call to measure, and what was measured of it.
type Task struct {
	Entry             *capture.Entry
	Op, DType, Shapes string
	Calls             int     // recorded calls that do the same work
	Bytes             float64 // of their inputs, all together
	Peak              reports.Peak

	Series []*reports.Timing
	// Against are the series of Timer.Against, each measured in turn with that of Series; none
	// without one.
	Against []*timing.Series
	// Err is why the call could not be measured, or not to the end; NoBackward why the
	// device has no backward pass for it.
	Err, NoBackward error

	enough []bool // of each series: it needs no more rounds
	spent  time.Duration
}

// Tasks collects the calls to measure, in order.
type Tasks struct {
	Each bool // also those that do the same work as another
	List []*Task

	byKey map[string]*Task
}

// Add takes a recorded call up, without reading payloads. The error is why it cannot be
// run.
func (ts *Tasks) Add(e *capture.Entry, opt replay.Options) error {
	p := replay.Open(e, opt)
	defer p.Close()
	if err := p.Err(); err != nil {
		return err
	}
	key := p.Key()
	if k := ts.byKey[key]; k != nil && !ts.Each {
		k.Calls++
		k.Bytes += p.InputBytes()
		return nil
	}
	k := &Task{Entry: e, Op: p.Op, DType: p.DType(), Shapes: p.Shapes(), Calls: 1, Bytes: p.InputBytes()}
	if ts.byKey == nil {
		ts.byKey = map[string]*Task{}
	}
	ts.byKey[key] = k
	ts.List = append(ts.List, k)
	return nil
}

// Covered sums tasks up.
func Covered(tasks []*Task) reports.Measured {
	c := reports.Measured{Distinct: len(tasks), Recorded: map[string]int{}}
	var bytes, measured float64
	for _, k := range tasks {
		c.Captures += k.Calls
		c.Recorded[k.Op] += k.Calls
		bytes += k.Bytes
		if len(k.Series) > 0 {
			c.Measured++
			c.MeasuredCalls += k.Calls
			measured += k.Bytes
		}
	}
	if c.Captures > 0 {
		c.ShareOfCalls = float64(c.MeasuredCalls) / float64(c.Captures)
	}
	if bytes > 0 {
		c.ShareOfBytes = measured / bytes
	}
	return c
}
