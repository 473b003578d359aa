// Package torchdouble stands in for Python with torch in tests of what talks to it: it
// speaks the protocol of torchbridge's worker.py and computes with optool's reference.
// What an operator may do wrong is asked for by the environment.
package torchdouble

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Fault is the environment variable that says what goes wrong: crash, hang, exit, raise,
// unsupported, flood (100 MB on standard output), garbage (an answer that is none), late
// (an answer to another request first), value, dtype, shape, count, input (it changes an
// argument), start (the device cannot be used) or startless (it never says that it has
// started). "FAULT OP" restricts it to an operator.
const Fault = "OPTOOL_DOUBLE_FAULT"

type placed struct {
	Block      int
	Start, End int64
	DType      string
	Shape      []int
	Stride     []int
	Grad       bool
}

type request struct {
	Number  int
	Op      string
	Args    []any
	Kwargs  map[string]any
	Blocks  []struct{ At, Bytes, Start, End int64 }
	Tensors []placed
	Need    []int
	Grads   []*int `json:"grad_outputs"`
	After   []int
	Top     int64
	Time    *struct{ Runs int }
}

type stored struct {
	At    int64  `json:"at"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
}

type worker struct {
	memory  *os.File
	tensors []*tensor.Tensor
	top     int64
}

// Main is the program: the arguments are those of worker.py.
func Main() {
	signal.Ignore(syscall.SIGPIPE)
	w := &worker{memory: os.NewFile(5, "memory")}
	answers := os.NewFile(4, "answers")
	switch fault, _ := fault(""); fault {
	case "start":
		reply(answers, map[string]any{"number": 0, "status": "error", "reason": "RuntimeError: no such device"})
		return
	case "startless":
		time.Sleep(time.Minute)
	}
	reply(answers, map[string]any{"number": 0, "python": "3.0", "executable": "double", "torch": "double",
		"name": "reference", "plugins": map[string]string{}})
	lines := bufio.NewReader(os.NewFile(3, "requests"))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		r := &request{}
		if err := json.Unmarshal(line, r); err != nil {
			panic(err)
		}
		reply(answers, w.answer(r, answers))
	}
}

func reply(w io.Writer, a map[string]any) {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	w.Write(append(b, '\n'))
}

// fault is what goes wrong in a call of an operator; only is the operator it is about.
func fault(op string) (kind, only string) {
	kind, only, _ = strings.Cut(os.Getenv(Fault), " ")
	if only != "" && only != op {
		return "", only
	}
	return kind, only
}

func (w *worker) answer(r *request, answers io.Writer) (a map[string]any) {
	a = map[string]any{"number": r.Number, "faults": []string{}}
	kind, _ := fault(r.Op)
	switch kind {
	case "crash":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Minute)
	case "hang":
		time.Sleep(time.Minute)
	case "exit":
		fmt.Fprintln(os.Stderr, "the driver gave up")
		os.Exit(7)
	case "raise":
		return map[string]any{"number": r.Number, "status": "error", "reason": "ValueError: nonsense"}
	case "unsupported":
		return map[string]any{"number": r.Number, "status": "unsupported", "reason": `"f" not implemented for 'Half'`}
	case "garbage":
		fmt.Fprintln(answers, "{no answer")
	case "late":
		reply(answers, map[string]any{"number": r.Number - 1, "outputs": []any{nil, nil, nil}})
	case "flood":
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = 'x'
		}
		for range 100 {
			os.Stdout.Write(b)
		}
	}
	if r.Time != nil {
		runs := make([]int, r.Time.Runs)
		for i := range runs {
			runs[i] = 1000 + 10*i
		}
		return map[string]any{"number": r.Number, "runs": runs, "clock": "device",
			"memory": map[string]any{"peak": 4096, "kept": 1024, "requests": 3}}
	}
	if err := w.run(r, kind, a); err != nil {
		return map[string]any{"number": r.Number, "status": "error", "reason": err.Error()}
	}
	return a
}

// run computes a call with the reference.
func (w *worker) run(r *request, kind string, a map[string]any) error {
	w.top, w.tensors = r.Top, nil
	for _, p := range r.Tensors {
		b := make([]byte, p.End-p.Start)
		if _, err := w.memory.ReadAt(b, r.Blocks[p.Block].At+p.Start); err != nil && len(b) > 0 {
			return err
		}
		dt, _ := tensor.ParseDType(p.DType)
		t, err := tensor.NewView(tensor.NewStorage(b), tensor.View{DType: dt, Shape: p.Shape, Stride: p.Stride})
		if err != nil {
			return err
		}
		t.RequiresGrad = p.Grad
		w.tensors = append(w.tensors, t)
	}
	var args []value.Value
	for _, v := range r.Args {
		args = append(args, w.value(v))
	}
	kwargs := &value.Dict{}
	for k, v := range r.Kwargs {
		kwargs.Items = append(kwargs.Items, value.Item{Key: k, Value: w.value(v)})
	}
	call, err := ops.Default().Bind(r.Op, args, kwargs)
	if err != nil {
		return err
	}
	f, err := call.Forward()
	if err != nil {
		return err
	}
	outs := slices.Clone(f.Outs)
	if n, ok := tensor.FromNumber(f.Value); ok && len(outs) == 0 {
		outs = append(outs, n)
	}
	w.spoil(outs, kind)
	if kind == "count" {
		outs = append(outs, nil)
	}
	after := make([]*tensor.Tensor, len(r.After))
	for i, n := range r.After {
		after[i] = w.tensors[n]
		for _, arg := range call.Tensors() {
			if now := f.After[arg.Name]; arg.Tensor == w.tensors[n] && max(arg.Index, 0) < len(now) {
				after[i] = now[max(arg.Index, 0)]
			}
		}
	}
	if kind == "input" {
		a["faults"] = []string{"4 bytes of the input input changed, the first at byte 0"}
	}
	a["outputs"], a["after"] = w.store(outs), w.store(after)
	if len(r.Need) > 0 {
		a["backward"] = w.backward(r, call, f)
	}
	return nil
}

// spoil makes the first result wrong.
func (w *worker) spoil(outs []*tensor.Tensor, kind string) {
	if len(outs) == 0 || outs[0] == nil || !outs[0].DType.IsFloat() {
		return
	}
	t := outs[0]
	switch kind {
	case "value":
		data := slices.Clone(tensor.Data[float64](t))
		data[len(data)/2] = 1e6
		outs[0] = tensor.New(t.DType, t.Shape, data)
	case "dtype":
		outs[0] = tensor.New(tensor.Float64, t.Shape, tensor.Data[float64](t))
	case "shape":
		outs[0] = t.Reshape(append([]int{1}, t.Shape...)...)
	}
}

func (w *worker) backward(r *request, call *opdef.Call, f *opdef.Forward) map[string]any {
	out := make([]*tensor.Tensor, len(f.Outs))
	for i, g := range r.Grads {
		if g != nil && i < len(out) {
			out[i] = w.tensors[*g]
		}
	}
	need := map[string]bool{}
	for _, a := range call.Tensors() {
		need[a.Name] = need[a.Name] || a.Tensor.RequiresGrad
	}
	grads, err := call.Backward(f, out, need)
	if err != nil {
		return map[string]any{"status": "error", "reason": err.Error()}
	}
	list := make([]*tensor.Tensor, len(r.Need))
	for i, n := range r.Need {
		for _, a := range call.Tensors() {
			if g := grads[a.Name]; a.Tensor == w.tensors[n] && max(a.Index, 0) < len(g) {
				list[i] = g[max(a.Index, 0)]
			}
		}
	}
	return map[string]any{"grads": w.store(list), "faults": []string{}}
}

// store writes tensors into the shared memory.
func (w *worker) store(ts []*tensor.Tensor) []*stored {
	list := make([]*stored, len(ts))
	for i, t := range ts {
		if t == nil {
			continue
		}
		b := t.AppendBytes(nil)
		if _, err := w.memory.WriteAt(b, w.top); err != nil {
			panic(err)
		}
		list[i] = &stored{w.top, t.DType.String(), append([]int{}, t.Shape...)}
		w.top += int64(len(b)+63) / 64 * 64
	}
	return list
}

// value is the Python value that wire.go wrote as v.
func (w *worker) value(v any) value.Value {
	switch v := v.(type) {
	case []any:
		return value.NewList(w.values(v)...)
	case map[string]any:
		for kind, x := range v {
			return w.object(kind, x)
		}
	}
	return v
}

func (w *worker) values(list []any) []value.Value {
	var out []value.Value
	for _, v := range list {
		out = append(out, w.value(v))
	}
	return out
}

func (w *worker) object(kind string, x any) value.Value {
	text, _ := x.(string)
	items, _ := x.([]any)
	switch kind {
	case "tensor":
		return w.tensors[int(x.(float64))]
	case "int":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	case "float":
		return float(text)
	case "complex":
		return complex(float(items[0].(string)), float(items[1].(string)))
	case "tuple":
		return value.NewTuple(w.values(items)...)
	case "size":
		return &value.Sequence{Kind: value.Tuple, Class: "torch.Size", Items: w.values(items)}
	case "dtype":
		dt, _ := tensor.ParseDType(text)
		return dt
	case "device":
		return value.Device{Type: "cpu", Index: -1}
	case "slice":
		s := w.values(items)
		return value.Slice{Start: s[0], Stop: s[1], Step: s[2]}
	case "ellipsis":
		return value.Ellipsis{}
	case "memory_format":
		return value.MemoryFormat("torch." + text)
	}
	panic("a value of kind " + kind)
}

func float(text string) float64 {
	switch text {
	case "nan":
		return math.NaN()
	case "inf":
		return math.Inf(1)
	case "-inf":
		return math.Inf(-1)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return f
}
