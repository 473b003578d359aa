package reports

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/timing"
)

func timings() []*Timing {
	id := 7
	us := time.Microsecond
	return []*Timing{
		{Capture: "t/add/1", Op: "torch.add", ForwardID: &id, Phase: "forward", Shapes: "float32[2]", Calls: 3,
			Bytes: 3e3, Flops: 1e3,
			Memory: &timing.Memory{Peak: 3 << 10, Kept: 1 << 10, Requests: 2},
			Series: &timing.Series{Cache: timing.Hot, Clock: timing.HostClock, Samples: timing.Samples(10*us, 30*us,
				20*us), Warmup: 2, Stop: timing.StopRuns}},
		{Capture: "t/add/1", Op: "torch.add", Phase: "forward", Calls: 3, Shapes: "float32[2]",
			Series: &timing.Series{Cache: timing.Cold, Clock: timing.HostClock, Samples: timing.Samples(50 * us)}},
		{Capture: "t/mul 2", Op: "torch.mul", Phase: "backward", Calls: 1, Shapes: "float32[4]",
			Series: &timing.Series{Cache: timing.Hot, Clock: timing.HostClock, Samples: timing.Samples(140 * us)}},
		{Capture: "t/add/3", Op: "torch.add", Phase: "forward", Calls: 1, Shapes: "float32[9]",
			Series: &timing.Series{Cache: timing.Hot, Clock: timing.HostClock, Samples: timing.Samples(0, 0)}},
	}
}

func TestTimingLines(t *testing.T) {
	var b strings.Builder
	j := NewJSONLines(&b)
	for _, x := range timings() {
		if err := j.Timing(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Result(&Result{Capture: "t/add/1", Verdict: verdict.Pass}); err != nil {
		t.Fatal(err)
	}
	if err := j.Result(&Result{Capture: "t/add/1", Verdict: "fail"}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := []string{
		`{"kind":"timing","capture":"t/add/1","op":"torch.add","forward_id":7,"phase":"forward","cache":"hot","clock":"host","run":1,"elapsed_ns":10000,"waited_ns":0,"round":0}`,
		`{"kind":"timing_summary","capture":"t/add/1","op":"torch.add","forward_id":7,"phase":"forward","cache":"hot","clock":"host","n":3,"median_ns":20000,"q1_ns":15000,"q3_ns":25000,"min_ns":10000,"max_ns":30000,"bytes":3000,"flops":1000,"stop_reason":"run_times","noise":0.5,"waited_ns":0,"warmup_runs":2,"share_of_peak":0,"peak_bytes_per_s":0,"peak_flops_per_s":0,"peak_busy":false,"calls":3,"inputs":"float32[2]","doubt":"few: 3 runs say little of how the time varies","memory_peak_bytes":3072,"memory_kept_bytes":1024,"memory_requests":2}`,
	}
	if got := []string{lines[0], lines[3]}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if last := lines[len(lines)-3]; !strings.Contains(last, `"median_ns":0,"q1_ns":0`) ||
		!strings.Contains(last, `"noise":"nan"`) {
		t.Errorf("series too short for the clock: %s", last)
	}
	rec, err := ReadRecording(strings.NewReader(`{"kind":"run","schema":1}` + "\n" + b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Timings) != 4 || rec.Timings[0].Key() != (TimingKey{"t/add/1", "torch.add", "forward", "hot"}) ||
		rec.Timings[0].Series.Samples[1].Elapsed != 30*time.Microsecond ||
		!cmp.Equal(rec.Timings[0].Memory, timings()[0].Memory) || rec.Timings[1].Memory != nil || rec.Verdicts()["t/add/1"] != "fail" {
		t.Errorf("read back: %+v", rec)
	}
}

func TestUnlike(t *testing.T) {
	a := Run{Version: "v1", Host: "a", TimingMethod: 1, Machine: Machine{Processors: 2, Model: "x", Load: []float64{1}}}
	b := a
	b.Machine.Load, b.Start, b.Device = nil, time.Now(), "other"
	if d := a.Unlike(&b); len(d) != 0 {
		t.Errorf("alike but for what is measured: %q", d)
	}
	b.Version, b.TimingMethod, b.Machine.Processors = "v2", 2, 4
	want := []string{`timing method "1" and "2"`, `optool "v1" and "v2"`, `processors "2 x" and "4 x"`}
	if d := a.Unlike(&b); !cmp.Equal(d, want) {
		t.Error(cmp.Diff(want, d))
	}
}

func TestJudgedOther(t *testing.T) {
	a, b := Run{Device: "none", Shard: "1/2"}, Run{Device: "none", Shard: "1/2", Host: "other"}
	if d := a.JudgedOther(&b); len(d) != 0 {
		t.Errorf("the same was judged: %q", d)
	}
	b.Device, b.Shard = "host", ""
	want := []string{`shard "1/2" and "all calls"`, `device "recorded results" and "host"`}
	if d := a.JudgedOther(&b); !cmp.Equal(d, want) {
		t.Error(cmp.Diff(want, d))
	}
}

func TestDoubt(t *testing.T) {
	us := time.Microsecond
	one := func(cache timing.Cache, peak Peak) *Timing {
		return &Timing{Bytes: 1e6, Flops: 1e6, Peak: peak, Series: &timing.Series{Cache: cache,
			Samples: timing.Samples(1000*us, 1000*us, 1000*us, 1000*us, 1000*us)}}
	}
	for _, tc := range []struct {
		name  string
		t     *Timing
		want  string
		share float64
	}{
		{"no peak", one(timing.Cold, Peak{}), "", 0},
		{"below", one(timing.Cold, Peak{Bandwidth: 2e9, Flops: 4e9}), "", 0.5},
		{"memory", one(timing.Cold, Peak{Bandwidth: 5e8}), "invalid: faster than the peak of memory", 2},
		{"memory, hot", one(timing.Hot, Peak{Bandwidth: 5e8}), "", 2},
		{"arithmetic, busy", one(timing.Hot, Peak{Flops: 5e8, Busy: true}), "", 2},
		{"four runs", &Timing{Series: &timing.Series{Samples: timing.Samples(1, 1, 1, 1)}},
			"few: 4 runs say little of how the time varies", 0},
		{"spread", &Timing{Series: &timing.Series{Samples: timing.Samples(100, 100, 100, 120, 120)}},
			"noisy: the middle half spans more than a tenth of the median", 0},
		{"arithmetic", one(timing.Hot, Peak{Flops: 5e8}), "invalid: faster than the peak of arithmetic", 2},
	} {
		if got := tc.t.Doubt(); got != tc.want || tc.t.Share() != tc.share {
			t.Errorf("%s: %q, share %v, want %q, %v", tc.name, got, tc.t.Share(), tc.want, tc.share)
		}
	}
}

func TestGoBenchmark(t *testing.T) {
	var b strings.Builder
	if err := GoBenchmark(&b, "host", timings()[:3]); err != nil {
		t.Fatal(err)
	}
	want := `tool: optool
device: host
BenchmarkTorch.add/phase=forward/cache=hot/capture=t_add_1 1 10000 ns/op 300 MB/s
BenchmarkTorch.add/phase=forward/cache=hot/capture=t_add_1 1 30000 ns/op 100 MB/s
BenchmarkTorch.add/phase=forward/cache=hot/capture=t_add_1 1 20000 ns/op 150 MB/s
BenchmarkTorch.add/phase=forward/cache=cold/capture=t_add_1 1 50000 ns/op 0 MB/s
BenchmarkTorch.mul/phase=backward/cache=hot/capture=t_mul_2 1 140000 ns/op 0 MB/s
`
	if b.String() != want {
		t.Error(cmp.Diff(want, b.String()))
	}
}

func TestTrace(t *testing.T) {
	var b strings.Builder
	if err := Trace(&b, `my "device"`, timings()); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  float64
			Pid, Tid int
			Args     map[string]any
		}
	}
	if err := json.Unmarshal([]byte(b.String()), &doc); err != nil {
		t.Fatal(err)
	}
	end, spans := 0.0, 0
	var memory []any
	for _, e := range doc.TraceEvents {
		switch e.Ph {
		case "M":
			continue
		case "X":
			spans++
		case "C":
			memory = append(memory, e.Args["bytes"])
		default:
			t.Errorf("event of phase %q", e.Ph)
		}
		if e.Ts < end || e.Dur < 0 || e.Pid != 1 || e.Tid != 1 {
			t.Errorf("%+v begins before %v, when the one before it ends", e, end)
		}
		end = e.Ts + e.Dur
	}
	if spans != 7 || end != 250 || doc.TraceEvents[1].Args["name"] != `my "device"` {
		t.Errorf("%d spans until %v us on %v, want 7 until 250", spans, end, doc.TraceEvents[1].Args)
	}
	if want := []any{3072.0, 1024.0}; !cmp.Equal(memory, want) {
		t.Errorf("memory %v, want %v", memory, want)
	}
}

func TestAverages(t *testing.T) {
	rows := Averages(timings(), timing.Hot, false, "self", nil)
	if len(rows) != 2 || rows[0].Op != "torch.mul" || rows[1].Calls != 4 || rows[1].Self != 60*time.Microsecond ||
		rows[1].Mean() != 15*time.Microsecond || rows[0].Share != 0.7 {
		t.Errorf("%+v %+v", *rows[0], *rows[1])
	}
	for column, want := range map[string]string{"calls": "torch.add", "name": "torch.add", "avg": "torch.mul",
		"memory": "torch.add"} {
		if got := Averages(timings(), timing.Hot, false, column, nil)[0].Op; got != want {
			t.Errorf("by %s: %s first, want %s", column, got, want)
		}
	}
	var b strings.Builder
	if err := WriteAverages(&b, 0, Averages(timings(), timing.Hot, true, "self", nil), true, 2); err != nil {
		t.Fatal(err)
	}
	want := `name       phase         self  self %       avg  calls   memory  inputs
torch.mul  backward  140.0 us    70.0  140.0 us      1        -  float32[4]
torch.add  forward   60.00 us    30.0  20.00 us      3  3.0 KiB  float32[2]
(1 more row)
`
	if b.String() != want {
		t.Error(cmp.Diff(want, b.String()))
	}
}

func TestHistogram(t *testing.T) {
	var b strings.Builder
	s := &timing.Series{}
	for i := range 100 {
		s.Samples = append(s.Samples, timing.Sample{Elapsed: time.Duration(1000 + min(i, 90)*10)})
	}
	if err := Histogram(&b, 60, s); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if len(lines) != 12 || !strings.HasPrefix(lines[0], "  1.000 us █") || !strings.HasSuffix(lines[11], " 17") {
		t.Errorf("%s", b.String())
	}
	total := 0
	for _, l := range lines {
		var n int
		f := strings.Fields(l)
		if err := json.Unmarshal([]byte(f[len(f)-1]), &n); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != 100 {
		t.Errorf("%d samples drawn of 100", total)
	}
	b.Reset()
	if err := Histogram(&b, 0, &timing.Series{Samples: timing.Samples(5, 5)}); err != nil ||
		strings.Count(b.String(), "\n") != 1 {
		t.Errorf("equal samples: %q, %v", b.String(), err)
	}
}

func TestWriteTimes(t *testing.T) {
	var b strings.Builder
	if err := WriteTimes(&b, 0, []TimeRow{{Name: "torch.add", ForwardID: 1, Forward: 1500 * time.Nanosecond,
		Backward: -1}}); err != nil {
		t.Fatal(err)
	}
	want := `+-----------+------------+-----------------+------+
|    name   | forward_id | forward_elasped | unit |
+-----------+------------+-----------------+------+
| torch.add |     1      |    0.00150000   |  ms  |
+-----------+------------+-----------------+------+
`
	if b.String() != want {
		t.Error(cmp.Diff(want, b.String()))
	}
}
