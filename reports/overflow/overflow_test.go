package overflow

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// checkCall writes a capture with some arguments and a damaged output, and checks
// it.
func checkCall(t *testing.T, args ...value.Value) *Call {
	t.Helper()
	dir := t.TempDir()
	rec := &value.Dict{Items: []value.Item{{Key: "name", Value: "torch.add"}, {Key: "args",
		Value: value.NewTuple(args...)}, {Key: "kwargs", Value: &value.Dict{}}, {Key: "identifier", Value: "7"}}}
	if err := pthformat.WriteFile(filepath.Join(dir, "input.pth"), rec); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "output.pth"), []byte("no file of torch"), 0o666); err != nil {
		t.Fatal(err)
	}
	var call *Call
	for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		call = New(e)
		call.Check(e, pthformat.Plain)
	}
	if call == nil {
		t.Fatal("no capture found")
	}
	return call
}

func TestCheck(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	c := checkCall(t, tensor.New(tensor.Float32, []int{4}, []float64{1, nan, -inf, 3}), 2.0, complex(nan, inf),
		"text", tensor.New(tensor.Int64, []int{0}, []int64{}), -inf)
	type want struct {
		v        verdict.Verdict
		reason   string
		nan, inf int
	}
	wants := []want{{verdict.Fail, "1 nan, 1 inf", 1, 1}, {verdict.Pass, "", 0, 0}, {verdict.Fail, "1 nan", 1, 0},
		{verdict.Pass, "", 0, 0}, {verdict.Pass, "", 0, 0}, {verdict.Fail, "1 inf", 0, 1}}
	if c.Results.Len() != len(wants)+1 || len(c.Failures) != 1 {
		t.Fatalf("%d results, failures %v; want %d and one", c.Results.Len(), c.Failures, len(wants)+1)
	}
	for i, w := range wants {
		r := c.Results.Kept()[i]
		if got := (want{r.Verdict, r.Reason, r.NaN, r.Inf}); got != w {
			t.Errorf("argument %d: got %v, want %v", i, got, w)
		}
	}
	if r := c.Results.Kept()[0]; r.Phase != "input" || r.Target != "input[0]" || r.Label != "input[0]" || *r.DType != "float32" ||
		*r.Min != 1 || *r.Max != 3 || *r.Mean != 2 || *r.Numel != 4 {
		t.Errorf("result of a tensor: %+v, %+v", r, r.Stats)
	}
	if r := c.Results.Kept()[4]; r.Min != nil || *r.Norm != 0 || r.Shape == nil {
		t.Errorf("result of an empty tensor: %+v, %+v", r, r.Stats)
	}
	if r := c.Results.Kept()[6]; r.Verdict != verdict.Invalid || r.Phase != "forward" || r.Stats != nil {
		t.Errorf("result of a file that is none: %+v", r)
	}
	if !c.Overflow() {
		t.Error("the call has no overflow")
	}
	var s Summary
	s.Add(c)
	s.Add(&Call{})
	if got := s.String(); got != "2 captures, 6 values: inf or nan in 1 capture" || s.Refused != 1 {
		t.Errorf("summary %q, %d refused", got, s.Refused)
	}
	var text strings.Builder
	if err := c.Write(&text, 0, c.Results.Kept()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "\n| "); n != len(wants)+1 {
		t.Errorf("the table has %d rows, want %d and the head:\n%s", n, len(wants), &text)
	}
	if first, _, _ := strings.Cut(text.String(), "\n"); first != "torch.add    forward_id: 7    ." {
		t.Errorf("title %q", first)
	}
}

func TestNoOverflow(t *testing.T) {
	if c := checkCall(t, 1.0, tensor.Scalar(tensor.Float16, 2.0)); c.Overflow() {
		t.Errorf("finite values: %+v", c.Results)
	}
}

// TestShared: a tensor that a list holds many times is read once, and each place has its statistics.
func TestShared(t *testing.T) {
	loads := 0
	elements := make([]float64, 1<<20)
	elements[0], elements[1], elements[2] = 3, 2, math.Inf(1)
	shared := tensor.New(tensor.Float32, []int{len(elements)}, elements)
	lazy := tensor.Lazy(shared.DType, shared.Shape, 1<<18, func(lo int, dst []float64) {
		if lo == 0 {
			loads++
		}
		tensor.Load(shared, lo, dst)
	})
	c := &Call{known: map[*tensor.Tensor]reports.Stats{}}
	for range 100 {
		c.add(&reports.Result{}, lazy, func(err error) { t.Error(err) })
	}
	if loads != 1 {
		t.Errorf("it is read %d times, want once", loads)
	}
	if r := c.Results.Kept()[99]; c.Results.Len() != 100 || r.Inf != 1 || *r.Max != 3 || *r.Numel != len(elements) ||
		*r.DType != "float32" || r.Verdict != verdict.Fail {
		t.Errorf("the last of %d results is %+v", c.Results.Len(), r)
	}
}

// TestGiveUp: what was checked before the time is over stays, and that it is over is no pass.
func TestGiveUp(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a.pt")
	if err := pthformat.WriteFile(path, value.NewList(1.0, math.Inf(1), 2.0)); err != nil {
		t.Fatal(err)
	}
	for e, err := range capture.Scan(context.Background(), []string{path}, capture.Options{Loose: true}) {
		if err != nil {
			t.Fatal(err)
		}
		quota.Stop()
		c := New(e)
		func() {
			defer quota.Resume()
			defer func() {
				if p := recover(); p != quota.ErrStopped {
					t.Errorf("the check ends with %v, want that it is stopped", p)
				}
			}()
			c.Check(e, pthformat.Plain)
		}()
		late := errors.New("not done after 1s")
		c.GiveUp(e, late)
		s := &Summary{}
		s.Add(c)
		r := c.Results.Kept()[c.Results.Len()-1]
		if r.Verdict != verdict.Error || r.Reason != late.Error() || s.Refused != 1 || s.NotJudged != 1 {
			t.Errorf("got %+v, refused %d, not judged %d", r, s.Refused, s.NotJudged)
		}
	}
}
