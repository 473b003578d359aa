package reports

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/timing"
)

// A Timing is what was measured of one phase of one call with the caches in one
// state.
type Timing struct {
	Capture   string
	Op        string
	ForwardID *int
	Phase     string // forward, backward
	Shapes    string // dtypes and shapes of the inputs
	Calls     int    // recorded calls it stands for
	Series    *timing.Series
	Bytes     float64 // read and written at least
	Flops     float64 // floating-point operations
	Peak      Peak
	Memory    *timing.Memory // nil: not known
}

// Peak is what the device can do at most; zeros are not known.
type Peak struct {
	Bandwidth float64 // bytes per second
	Flops     float64 // per second
	Busy      bool    // measured beside other processes: it may be more
}

// Rates are bytes and operations per second at the median time.
func (t *Timing) Rates() (bandwidth, flops float64) {
	m := t.Series.Summary().Median.Seconds()
	if m == 0 {
		return 0, 0
	}
	return t.Bytes / m, t.Flops / m
}

// Share is the larger share of the two peaks that the median time reaches; 0 if
// no peak is known.
func (t *Timing) Share() float64 {
	b, f := t.Rates()
	share := 0.0
	if t.Peak.Bandwidth > 0 {
		share = b / t.Peak.Bandwidth
	}
	if t.Peak.Flops > 0 {
		share = max(share, f/t.Peak.Flops)
	}
	return share
}

// fewRuns are too few for quartiles to mean something below that.
const fewRuns = 5

// Doubt says why the numbers should not be trusted; "" if nothing speaks
// against them. A hot run may be faster than memory, so only cold runs are held
// against the bandwidth; a peak that other processes kept low proves nothing.
func (t *Timing) Doubt() string {
	b, f := t.Rates()
	switch s := t.Series.Summary(); {
	case t.Peak.Flops > 0 && f > t.Peak.Flops && !t.Peak.Busy:
		return "invalid: faster than the peak of arithmetic"
	case t.Peak.Bandwidth > 0 && b > t.Peak.Bandwidth && t.Series.Cache == timing.Cold && !t.Peak.Busy:
		return "invalid: faster than the peak of memory"
	case s.Disturbed():
		return fmt.Sprintf("disturbed: threads waited %.0f %% of the time for a processor",
			100*float64(s.Waited)/float64(s.Total))
	case s.N < fewRuns:
		return fmt.Sprintf("few: %d runs say little of how the time varies", s.N)
	case !s.Steady():
		return "noisy: the middle half spans more than a tenth of the median"
	}
	return ""
}

// What JSON lines say of a series.
type timingHead struct {
	Kind      string `json:"kind"`
	Capture   string `json:"capture"`
	Op        string `json:"op"`
	ForwardID *int   `json:"forward_id"`
	Phase     string `json:"phase"`
	Cache     string `json:"cache"`
	Clock     string `json:"clock"`
}

type timingSample struct {
	timingHead
	Run     int   `json:"run"` // from 1
	Elapsed int64 `json:"elapsed_ns"`
	Waited  int64 `json:"waited_ns"` // for a processor, all threads together
	Round   int   `json:"round"`
}

// check refuses what no run can have taken.
func (s *timingSample) check() error {
	const most = 365 * 24 * time.Hour
	for _, n := range []struct {
		name  string
		value int64
	}{{"elapsed_ns", s.Elapsed}, {"waited_ns", s.Waited}, {"round", int64(s.Round)}} {
		if n.value < 0 || n.value > int64(most) {
			return fmt.Errorf("%s: want a number from 0 to %d, found %d", n.name, int64(most), n.value)
		}
	}
	return nil
}

func (s *timingSample) sample() timing.Sample {
	return timing.Sample{Elapsed: time.Duration(s.Elapsed), Waited: time.Duration(s.Waited), Round: s.Round}
}

type timingSummary struct {
	timingHead
	N             int     `json:"n"`
	Median        int64   `json:"median_ns"`
	Q1            int64   `json:"q1_ns"`
	Q3            int64   `json:"q3_ns"`
	Min           int64   `json:"min_ns"`
	Max           int64   `json:"max_ns"`
	Bytes         float64 `json:"bytes"`
	Flops         float64 `json:"flops"`
	Stop          string  `json:"stop_reason"`
	Noise         Number  `json:"noise"` // standard deviation over mean
	Waited        int64   `json:"waited_ns"`
	Warmup        int     `json:"warmup_runs"`
	Share         float64 `json:"share_of_peak"`    // 0 if no peak is known
	PeakBandwidth float64 `json:"peak_bytes_per_s"` // 0 if not known
	PeakFlops     float64 `json:"peak_flops_per_s"`
	PeakBusy      bool    `json:"peak_busy"` // measured beside other processes: it may be more
	Calls         int     `json:"calls"`     // recorded calls it stands for
	Inputs        string  `json:"inputs"`
	Doubt         string  `json:"doubt"`
	// Of a run, left out where it is not known; memory_requests also where it is not counted.
	MemoryPeak     *int64 `json:"memory_peak_bytes,omitempty"`
	MemoryKept     *int64 `json:"memory_kept_bytes,omitempty"`
	MemoryRequests int    `json:"memory_requests,omitempty"`
}

// check refuses what cannot be: rates of what is left are numbers.
func (s *timingSummary) check() error {
	const most = 1e30
	for _, n := range []struct {
		name  string
		value float64
	}{
		{"bytes", s.Bytes}, {"flops", s.Flops}, {"peak_bytes_per_s", s.PeakBandwidth},
		{"peak_flops_per_s", s.PeakFlops}, {"calls", float64(s.Calls)}, {"warmup_runs", float64(s.Warmup)},
		{"memory_peak_bytes", float64(zero(s.MemoryPeak))}, {"memory_kept_bytes", float64(zero(s.MemoryKept))},
		{"memory_requests", float64(s.MemoryRequests)},
	} {
		if n.value != 0 && !(n.value >= 1 && n.value <= most) {
			return fmt.Errorf("%s: want 0 or a number from 1 to %g, found %g", n.name, most, n.value)
		}
	}
	return nil
}

// zero is what p points to, if anything.
func zero(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// Timing writes every sample and then the summary of the series.
func (j *JSONLines) Timing(t *Timing) error {
	s := t.Series
	head := timingHead{
		Kind: "timing", Capture: t.Capture, Op: t.Op, ForwardID: t.ForwardID, Phase: t.Phase,
		Cache: string(s.Cache), Clock: string(s.Clock),
	}
	for i, x := range s.Samples {
		if err := j.Write(timingSample{head, i + 1, x.Elapsed.Nanoseconds(), x.Waited.Nanoseconds(),
			x.Round}); err != nil {
			return err
		}
	}
	m := s.Summary()
	head.Kind = "timing_summary"
	sum := timingSummary{
		timingHead: head, N: m.N, Median: int64(m.Median), Q1: int64(m.Q1), Q3: int64(m.Q3), Min: int64(m.Min),
		Max:   int64(m.Max),
		Bytes: t.Bytes, Flops: t.Flops, Stop: string(s.Stop), Noise: Number(m.Noise), Waited: int64(m.Waited),
		Warmup: s.Warmup, Share: t.Share(), PeakBandwidth: t.Peak.Bandwidth, PeakFlops: t.Peak.Flops,
		PeakBusy: t.Peak.Busy,
		Calls:    t.Calls, Inputs: t.Shapes, Doubt: t.Doubt(),
	}
	if m := t.Memory; m != nil {
		sum.MemoryPeak, sum.MemoryKept, sum.MemoryRequests = &m.Peak, &m.Kept, m.Requests
	}
	return j.Write(sum)
}

// A TimingKey names a series across runs.
type TimingKey struct{ Capture, Op, Phase, Cache string }

// Key of the series.
func (t *Timing) Key() TimingKey { return TimingKey{t.Capture, t.Op, t.Phase, string(t.Series.Cache)} }

// GoBenchmark writes series in the format of go test -bench, one line a sample,
// which benchstat reads: the op is the name, phase, cache and capture its
// configuration.
func GoBenchmark(w io.Writer, device string, ts []*Timing) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "tool: optool\ndevice: %s\n", OneLine(device))
	for _, t := range ts {
		op := benchName(t.Op)
		name := "Benchmark" + strings.ToUpper(op[:1]) + op[1:] + "/phase=" + t.Phase + "/cache=" +
			string(t.Series.Cache) + "/capture=" + benchName(t.Capture)
		for _, x := range t.Series.Samples {
			fmt.Fprintf(b, "%s 1 %d ns/op", name, x.Elapsed.Nanoseconds())
			if s := x.Elapsed.Seconds(); s > 0 {
				fmt.Fprintf(b, " %.6g MB/s", t.Bytes/s/1e6)
			}
			b.WriteByte('\n')
		}
	}
	return b.Flush()
}

// benchName makes one word of s that holds no separator of configurations.
func benchName(s string) string {
	if s == "" {
		return "_"
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '/' || r == 0x7f {
			return '_'
		}
		return r
	}, s)
}

// An event of the trace event format, as chrome://tracing and Perfetto read it.
type event struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	TS    float64        `json:"ts"`
	Dur   *float64       `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// Trace writes the samples as a trace: a track for the device, runs one after
// the other with their times, and a counter of the memory they need; restoring
// inputs and evicting caches between them is not in it.
func Trace(w io.Writer, device string, ts []*Timing) error {
	b := bufio.NewWriter(w)
	b.WriteString(`{"displayTimeUnit":"ns","traceEvents":[`)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	put := func(e event) error { return enc.Encode(e) }
	if err := put(event{Name: "process_name", Phase: "M", PID: 1,
		Args: map[string]any{"name": "optool time"}}); err != nil {
		return err
	}
	b.WriteByte(',')
	if err := put(event{Name: "thread_name", Phase: "M", PID: 1, TID: 1,
		Args: map[string]any{"name": device}}); err != nil {
		return err
	}
	at := 0.0
	// memory counts what a series' runs need, at its first run and behind its last.
	memory := func(bytes int64) error {
		b.WriteByte(',')
		return put(event{Name: "memory", Phase: "C", TS: at, PID: 1, TID: 1, Args: map[string]any{"bytes": bytes}})
	}
	for _, t := range ts {
		if m := t.Memory; m != nil {
			if err := memory(m.Peak); err != nil {
				return err
			}
		}
		for i, x := range t.Series.Samples {
			us := float64(x.Elapsed) / 1e3
			b.WriteByte(',')
			err := put(event{
				Name: t.Op, Cat: t.Phase, Phase: "X", TS: at, Dur: &us, PID: 1, TID: 1,
				Args: map[string]any{"capture": t.Capture, "phase": t.Phase, "cache": t.Series.Cache,
					"clock": t.Series.Clock, "run": i + 1, "inputs": t.Shapes},
			})
			if err != nil {
				return err
			}
			at += us
		}
		if m := t.Memory; m != nil {
			if err := memory(m.Kept); err != nil {
				return err
			}
		}
	}
	b.WriteString("]}\n")
	return b.Flush()
}

// An Average is a row of the table of averages: all series of an op, or of an
// op with its input shapes, in one phase. Times are weighted by the calls each
// series stands for.
type Average struct {
	Op, Phase, Shapes string
	Calls             int           // recorded calls that do the work of a measured one
	Recorded          int           // all recorded calls of the op; 0: not known
	Self              time.Duration // median time of a call times the calls
	Share             float64       // of the sum of Self over all rows
	Memory            *int64        // the largest peak of its calls; nil: not known
}

// Mean is the average time of a call.
func (a *Average) Mean() time.Duration { return a.Self / time.Duration(max(a.Calls, 1)) }

// CallsText is the calls that were measured, of all that were recorded where these are more.
func (a *Average) CallsText() string {
	if a.Recorded > a.Calls {
		return fmt.Sprintf("%d of %d", a.Calls, a.Recorded)
	}
	return fmt.Sprint(a.Calls)
}

// memory is the largest peak, -1 where none is known.
func (a *Average) memory() int64 {
	if a.Memory == nil {
		return -1
	}
	return *a.Memory
}

// AverageColumns are those that the table of averages may be sorted by.
var AverageColumns = []string{"self", "avg", "calls", "memory", "name"}

// Averages sums series of one state of the caches by op and phase, and by input
// shapes too if byShape, in descending order of one of AverageColumns, by
// name in ascending order. Recorded are the recorded calls by op, if they are known.
func Averages(ts []*Timing, cache timing.Cache, byShape bool, column string, recorded map[string]int) []*Average {
	rows := map[[3]string]*Average{}
	total := time.Duration(0)
	for _, t := range ts {
		if t.Series.Cache != cache {
			continue
		}
		k := [3]string{t.Op, t.Phase}
		if byShape {
			k[2] = t.Shapes
		}
		if rows[k] == nil {
			rows[k] = &Average{Op: t.Op, Phase: t.Phase, Shapes: k[2]}
			if !byShape {
				rows[k].Recorded = recorded[t.Op]
			}
		}
		self := t.Series.Summary().Median * time.Duration(t.Calls)
		rows[k].Calls += t.Calls
		rows[k].Self += self
		total += self
		if m := t.Memory; m != nil && m.Peak >= rows[k].memory() {
			rows[k].Memory = &m.Peak
		}
	}
	for _, a := range rows {
		if total > 0 {
			a.Share = float64(a.Self) / float64(total)
		}
	}
	return slices.SortedFunc(maps.Values(rows), func(a, b *Average) int {
		c := 0
		switch column {
		case "avg":
			c = cmp.Compare(b.Mean(), a.Mean())
		case "calls":
			c = cmp.Compare(b.Calls, a.Calls)
		case "memory":
			c = cmp.Compare(b.memory(), a.memory())
		case "name":
		default:
			c = cmp.Compare(b.Self, a.Self)
		}
		return cmp.Or(c, strings.Compare(a.Op, b.Op), strings.Compare(a.Phase, b.Phase),
			strings.Compare(a.Shapes, b.Shapes))
	})
}

// WriteAverages prints the table of averages, at most limit rows (0: all).
func WriteAverages(w io.Writer, width int, rows []*Average, byShape bool, limit int) error {
	head := []string{"name", "phase", "self", "self %", "avg", "calls"}
	memory := slices.ContainsFunc(rows, func(a *Average) bool { return a.Memory != nil })
	if memory {
		head = append(head, "memory")
	}
	right := len(head)
	if byShape {
		head = append(head, "inputs")
	}
	l := NewListing(w, width, head...)
	l.Names(0)
	for i := 2; i < right; i++ {
		l.Right(i)
	}
	left := 0
	if limit > 0 && len(rows) > limit {
		left = len(rows) - limit
		rows = rows[:limit]
	}
	for _, a := range rows {
		cells := []string{a.Op, a.Phase, timing.Format(a.Self), fmt.Sprintf("%.1f", 100*a.Share),
			timing.Format(a.Mean()), a.CallsText()}
		if memory {
			cells = append(cells, optionalBytes(a.Memory))
		}
		if byShape {
			cells = append(cells, a.Shapes)
		}
		if err := l.Add(cells...); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	if left > 0 {
		_, err := fmt.Fprintf(w, "(%s)\n", Count(left, "more row"))
		return err
	}
	return nil
}

// optionalBytes formats a size, "-" where none is known.
func optionalBytes(n *int64) string {
	if n == nil {
		return "-"
	}
	return Bytes(*n)
}

// MemoryText is the peak of what a run needs, "-" where it is not known.
func (t *Timing) MemoryText() string {
	if t.Memory == nil {
		return "-"
	}
	return Bytes(t.Memory.Peak)
}

// Histogram draws the samples of a series as lines of at most width columns.
func Histogram(w io.Writer, width int, s *timing.Series) error {
	const rows = 12
	if width <= 0 {
		width = 80
	}
	m := s.Summary()
	counts := make([]int, rows)
	span := m.Max - m.Min
	for _, x := range s.Samples {
		i := 0
		if span > 0 {
			i = min(rows-1, int(float64(x.Elapsed-m.Min)/float64(span)*rows))
		}
		counts[i]++
	}
	most := slices.Max(counts)
	room := max(10, width-30)
	for i, n := range counts {
		if span == 0 && i > 0 {
			break
		}
		from := m.Min + time.Duration(float64(span)*float64(i)/rows)
		bar := strings.Repeat("█", n*room/most)
		if n > 0 && bar == "" {
			bar = "▏"
		}
		if _, err := fmt.Fprintf(w, "%10s %s %d\n", timing.Format(from), bar, n); err != nil {
			return err
		}
	}
	return nil
}
