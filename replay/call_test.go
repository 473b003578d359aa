package replay_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// recordCall writes a capture of a call and finds it again.
func recordCall(t *testing.T, op string, args []value.Value, gradOutputs []value.Value) *capture.Entry {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, args []value.Value) {
		root := &value.Dict{Items: []value.Item{
			{Key: "name", Value: op}, {Key: "args", Value: value.NewTuple(args...)},
			{Key: "kwargs", Value: &value.Dict{}}, {Key: "identifier", Value: "1/x"},
		}}
		if err := pthformat.WriteFile(filepath.Join(dir, name), root); err != nil {
			t.Fatal(err)
		}
	}
	write("input.pth", args)
	if gradOutputs != nil {
		write("grad_outputs.pth", gradOutputs)
	}
	for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	t.Fatal("no capture found")
	return nil
}

func gradTensor(shape ...int) *tensor.Tensor {
	x := tensor.New(tensor.Float32, shape, make([]float64, tensor.Numel(shape))).Rounded()
	x.RequiresGrad = true
	return x
}

// A lookup reads no more of its table than it returns, and its backward pass
// writes all of the table's gradient.
func TestLookupWork(t *testing.T) {
	index, table := tensor.New(tensor.Int64, []int{3}, []int64{7, 0, 7}), gradTensor(100, 4)
	e := recordCall(t, "torch.nn.functional.embedding", []value.Value{index, table},
		[]value.Value{tensor.New(tensor.Float32, []int{3, 4}, make([]float64, 12)).Rounded()})
	p := replay.Open(e, replay.Options{Registry: ops.Default()})
	defer p.Close()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if got, want := p.ForwardWork(), (replay.Work{Bytes: 3*8 + 4*(12+12)}); got != want {
		t.Errorf("forward work %+v, want %+v", got, want)
	}
	if got, want := p.BackwardWork(), (replay.Work{Bytes: 3*8 + 4*(12+400)}); got != want {
		t.Errorf("backward work %+v, want %+v", got, want)
	}
}

func TestCall(t *testing.T) {
	x, w := gradTensor(2, 3), gradTensor(3, 5)
	e := recordCall(t, "torch.matmul", []value.Value{x, w},
		[]value.Value{tensor.New(tensor.Float32, []int{2, 5}, make([]float64, 10)).Rounded()})
	p := replay.Open(e, replay.Options{Registry: ops.Default()})
	defer p.Close()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Forward(), p.Backward()); err != nil || p.NoBackward() != "" {
		t.Errorf("%v, backward: %q", err, p.NoBackward())
	}
	if got, want := p.ForwardWork(), (replay.Work{Bytes: 4 * (6 + 15 + 10), Flops: 2 * 2 * 3 * 5}); got != want {
		t.Errorf("forward work %+v, want %+v", got, want)
	}
	if got, want := p.BackwardWork(), (replay.Work{Bytes: 4 * (2*6 + 2*15 + 10), Flops: 4 * 2 * 3 * 5}); got != want {
		t.Errorf("backward work %+v, want %+v", got, want)
	}
	if p.Shapes() != "float32[2, 3], float32[3, 5]" || p.DType() != "float32" {
		t.Errorf("shapes %q, dtype %q", p.Shapes(), p.DType())
	}
}

func TestCallKey(t *testing.T) {
	key := func(op string, grad bool, args ...value.Value) string {
		var out []value.Value
		if grad {
			out = []value.Value{args[0]}
		}
		p := replay.Open(recordCall(t, op, args, out), replay.Options{Registry: ops.Default()})
		defer p.Close()
		if err := p.Err(); err != nil {
			t.Fatal(err)
		}
		return p.Key()
	}
	x := gradTensor(2, 3)
	plain := gradTensor(2, 3)
	plain.RequiresGrad = false
	base := key("torch.add", true, x, int64(1))
	if again := key("torch.add", true, gradTensor(2, 3), int64(1)); again != base {
		t.Errorf("same work, other key: %q and %q", base, again)
	}
	for name, other := range map[string]string{
		"op": key("torch.sub", true, x, int64(1)), "number": key("torch.add", true, x, int64(2)),
		"shape":         key("torch.add", true, gradTensor(3, 2), int64(1)),
		"stride":        key("torch.add", true, gradTensor(3, 2).Transpose(0, 1), int64(1)),
		"gradient":      key("torch.add", false, x, int64(1)),
		"requires_grad": key("torch.add", true, plain, int64(1)),
	} {
		if other == base {
			t.Errorf("other %s, same key %q", name, base)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	open := func(op string, args ...value.Value) *replay.Call {
		p := replay.Open(recordCall(t, op, args, nil), replay.Options{Registry: ops.Default()})
		t.Cleanup(func() { p.Close() })
		return p
	}
	p := open("torch.no_such_op", gradTensor(2))
	if err := p.Err(); !errors.Is(err, opdef.ErrUnknownOp) || !errors.Is(p.Start(), opdef.ErrUnknownOp) {
		t.Errorf("unknown op: %v, start: %v", err, p.Start())
	}
	p = open("torch.matmul", gradTensor(2, 3), gradTensor(2, 3))
	if err := errors.Join(p.Err(), p.Start()); err == nil || !strings.Contains(err.Error(), "matmul") {
		t.Errorf("shapes that do not fit: %v", err)
	}
	p = open("torch.add", gradTensor(2), int64(1))
	if err := errors.Join(p.Err(), p.Start()); err != nil || p.NoBackward() == "" {
		t.Errorf("no gradients recorded: %v, %q", err, p.NoBackward())
	}
}

// TestValues looks at the tensors behind an outcome, which owns none of them.
func TestValues(t *testing.T) {
	x := stored(tensor.Float32, []int{2}, -1, 2)
	c := replay.Open(entries(t, record(t, "torch.relu", []value.Value{x}, stored(tensor.Float32, []int{2}, 0, 3)))[0],
		options(t))
	o := c.Compare()
	if !o.FailedForward() || o.FailedBackward() {
		t.Errorf("got %+v, want a result that fails", o.Results)
	}
	err := replay.Guard(func() error {
		v := c.Values()
		got, want := v.RecordedOutput[0].(*tensor.Tensor), v.Output[0].(*tensor.Tensor)
		if g, w := tensor.Data[float64](got)[1], tensor.Data[float64](want)[1]; g != 3 || w != 2 {
			t.Errorf("recorded %v, reference %v, want 3 and 2", g, w)
		}
		return nil
	})
	if err := errors.Join(err, c.Close()); err != nil {
		t.Error(err)
	}
	if r := o.Results[0].Compared; r.Actual != 3.0 || r.Expected != 2.0 {
		t.Errorf("after Close: actual %v, expected %v", r.Actual, r.Expected)
	}
}

func TestGuard(t *testing.T) {
	if err := replay.Guard(func() error { return errors.New("one") }); err == nil || err.Error() != "one" {
		t.Errorf("an error became %v", err)
	}
	err := replay.Guard(func() error { panic(&quota.MemoryError{}) })
	if memory := (*quota.MemoryError)(nil); !errors.As(err, &memory) {
		t.Errorf("too little memory became %v", err)
	}
	if err := replay.Guard(func() error { panic("broken") }); err == nil ||
		err.Error() != "internal error of the reference: broken" {
		t.Errorf("a panic became %v", err)
	}
}

// TestGiantRow: a result whose rows are computed whole, and which repeats one stored
// element 2^33 times, is refused before its memory is taken.
func TestGiantRow(t *testing.T) {
	quota.SetMemory(1 << 30)
	defer quota.SetMemory(0)
	one := tensor.New(tensor.Float32, []int{1}, []float64{1}).Rounded()
	x, err := tensor.NewView(one.Storage(), tensor.View{DType: tensor.Float32, Shape: []int{1 << 33}, Stride: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	dir := record(t, "torch.cumsum", []value.Value{x, int64(0)}, x)
	for e, err := range capture.Scan(t.Context(), []string{dir}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		o := replay.Run(e, replay.Options{Registry: ops.Default()})
		if o.Verdict() != verdict.Error || !strings.Contains(o.Results[0].Reason, "needs 32.0 GiB of memory") {
			t.Errorf("%s: %+v", o.Verdict(), o.Results)
		}
	}
}

// TestWhatTheHookSaw: the hook looks at what it knows to have been written, which may be only a part of a
// list; nothing is known about the others, unless they should not have changed. Of a DTensor it has the
// part of this process, which need not follow from the parts of the arguments. A call that raised an error is not
// wrong, whether the reference refuses it too or not.
func TestWhatTheHookSaw(t *testing.T) {
	dir := t.TempDir()
	calls := `{"event":"run","format":"optool-capture","version":1,"pid":1,"rank":null}
{"event":"blob","n":0,"key":"a","file":0,"begin":0,"bytes":8}
{"event":"blob","n":1,"key":"b","file":0,"begin":8,"bytes":8}
{"event":"call","id":0,"name":"torch._foreach_mul_","args":[[A,A,{"object":"torch.Tensor","text":"sparse","tensors":1}],2],"kwargs":{}}
{"event":"return","id":0,"result":null,"after":{"0":B}}
{"event":"call","id":1,"name":"torch._foreach_mul_","args":[[A,A],2],"kwargs":{}}
{"event":"return","id":1,"result":null,"after":{"0":B}}
{"event":"call","id":2,"name":"torch._foreach_mul_","args":[[A,A],2],"kwargs":{}}
{"event":"return","id":2,"result":null,"after":{"0":B,"1":A}}
{"event":"call","id":3,"name":"torch._foreach_mul_","args":[[A],[B]],"kwargs":{}}
{"event":"return","id":3,"result":null,"after":{"0":B}}
{"event":"call","id":4,"name":"torch.mul","args":[S,2],"kwargs":{}}
{"event":"return","id":4,"result":B}
{"event":"call","id":5,"name":"torch.mul","args":[S,2],"kwargs":{}}
{"event":"return","id":5,"result":A}
{"event":"call","id":6,"name":"torch.mul","args":[R,2],"kwargs":{}}
{"event":"return","id":6,"result":A}
{"event":"call","id":7,"name":"torch.mm","args":[A,A],"kwargs":{}}
{"event":"raise","id":7,"error":"RuntimeError: self must be a matrix"}
{"event":"call","id":8,"name":"torch.mul","args":[A,2],"kwargs":{}}
{"event":"raise","id":8,"error":"KeyboardInterrupt: "}
{"event":"end"}
`
	for name, what := range map[string]string{"A": "0", "B": "1", "S": `0,"placements":["S(0)"]`,
		"R": `0,"placements":["Replicate()"]`} {
		for _, before := range "[,:" {
			calls = strings.ReplaceAll(calls, string(before)+name, string(before)+`{"tensor":`+what+
				`,"dtype":"float32","shape":[2]}`)
		}
	}
	var data []byte
	for _, x := range []float32{1, 2, 2, 4} {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	for name, b := range map[string][]byte{"calls.jsonl": []byte(calls), "tensors-00000.safetensors": data} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	wants := []string{"unsupported", "pass skipped", "pass fail", "fail pass", "pass", "skipped", "fail",
		"skipped", "skipped"}
	for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		p := replay.Open(e, replay.Options{Registry: ops.Default()})
		var got []string
		for _, r := range p.Compare().Results {
			got = append(got, string(r.Verdict))
			if e.Raised != "" && !strings.Contains(r.Reason, e.Raised) {
				t.Errorf("call %d: %q does not say %q", e.ID, r.Reason, e.Raised)
			}
		}
		p.Close()
		if want := wants[e.ID]; strings.Join(got, " ") != want {
			t.Errorf("call %d: %q, want %q", e.ID, got, want)
		}
	}
}
