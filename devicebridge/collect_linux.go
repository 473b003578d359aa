//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package devicebridge

import (
	"errors"
	"fmt"
	"time"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/tensor"
)

// A collector turns a worker's answers into a Result.
type collector struct {
	r        *request
	arena    *arena
	timeout  time.Duration
	res      *Result
	answered int // calls that have been answered
	findings []found
	done     *decoder // the rest of the last answer; nil until it came
	fitness  fitness  // of the worker for other plans
}

type found struct {
	Finding
	subject subject
	index   int
}

func newResult(r *request) *Result {
	res := &Result{Calls: make([]CallResult, len(r.plan.Calls)), tensors: map[any]*tensor.Tensor{},
		outs: map[*diopi.Out]any{}}
	for i, c := range r.plan.Calls {
		res.Calls[i] = CallResult{Function: c.Function, Status: NotRun}
	}
	return res
}

// exchange sends the request and reads answers until the last.
func (c *collector) exchange(w *worker, message []byte, o Options) error {
	if err := w.send(message); err != nil {
		return err
	}
	calls := len(c.r.plan.Calls)
	for {
		wait := c.timeout
		if c.answered == calls { // repetitions report after all calls
			wait *= time.Duration(max(1, calls))
		}
		d, err := w.receive(wait)
		if err != nil {
			return err
		}
		switch answer(d.u8()) {
		case answerCall:
			i := d.index(calls, "call")
			if d.err != nil {
				return &brokenError{d.err}
			}
			cr := &c.res.Calls[i]
			cr.Status, cr.Code, cr.Reason, cr.Elapsed = Status(d.u8()), int32(d.u32()), d.text(), time.Duration(d.i64())
			cr.Memory = Memory{Requests: int(d.i64()), Bytes: d.i64(), Kept: d.i64()}
			cr.explain()
			c.readFindings(d)
			c.answered = i + 1
			if cr.Status == OK {
				for _, k := range c.r.writes[i] {
					c.r.blocks[k].written = true
				}
			}
		case answerAlive:
		case answerDone:
			c.readFindings(d)
			c.fitness = fitness(d.u8())
			if d.err == nil && c.answered < calls {
				d.err = errors.New("the last answer before the answer of each call")
			}
			if d.err != nil {
				return &brokenError{d.err}
			}
			c.done = d
			return nil
		case answerProblem:
			return errors.New(d.text())
		default:
			return &brokenError{errors.New("an answer that is none")}
		}
		if d.err != nil {
			return &brokenError{d.err}
		}
	}
}

func (c *collector) readFindings(d *decoder) {
	c.findings = c.findings[:0]
	for range d.count(26) {
		f := found{Finding: Finding{Kind: FindingKind(d.u8()), Call: d.u32()}, subject: subject(d.u8()), index: d.u32()}
		f.Count, f.At = d.i64(), d.i64()
		c.findings = append(c.findings, f)
	}
}

// finish reads the results after the last answer.
func (c *collector) finish() error {
	d := c.done
	for _, o := range c.r.outs {
		c.res.outs[o] = c.r.readers[o](d.u64())
	}
	for _, a := range c.r.allocs {
		if d.u8() == 0 {
			continue
		}
		t, err := c.allocTensor(d)
		if err != nil {
			return fmt.Errorf("%s: %w", a.Role, err)
		}
		c.res.tensors[a] = t
	}
	for range d.count(8 * (len(c.res.Calls) + 1)) {
		for i := range c.res.Calls {
			c.res.Calls[i].Runs = append(c.res.Calls[i].Runs, time.Duration(d.i64()))
		}
		c.res.Waited = append(c.res.Waited, time.Duration(d.i64()))
	}
	if d.err != nil {
		return &brokenError{d.err}
	}
	return c.common()
}

// died makes the result of a plan whose worker died: what the calls before had
// written is still there, unless the library took it away.
func (c *collector) died(f *Fate) (*Result, error) {
	c.res.Fate = f
	if f.Broke != "" { // what it says about its calls is not believed
		c.findings = nil
	}
	f.Call = min(c.answered, len(c.res.Calls)-1)
	if f.Call >= 0 {
		cr := &c.res.Calls[f.Call]
		f.Function = cr.Function
		cr.Status, cr.Reason = f.Status, f.reason()
	}
	err := c.arena.guarded(c.common)
	if errors.Is(err, errGone) {
		err = nil
	}
	return c.res, err
}

// common reads the tensors that calls wrote and the findings.
func (c *collector) common() error {
	for i := range c.r.blocks {
		b := &c.r.blocks[i]
		if !b.written || b.t.CSR != nil {
			continue
		}
		memory, err := c.arena.bytes(b.offset, b.nbytes)
		if err != nil {
			return fmt.Errorf("%s: %w", b.t.Role, err)
		}
		t, err := get(memory, b.t.DType, b.t.Shape, b.stride)
		if err != nil {
			return fmt.Errorf("%s: %w", b.t.Role, err)
		}
		c.res.tensors[b.t] = t
		b.written = false // a second run begins anew
	}
	for _, f := range c.findings {
		if err := c.resolve(&f); err != nil {
			return err
		}
		if f.Kind == Unwritten && f.Count == 0 { // it need not be written
			continue
		}
		c.res.Findings = append(c.res.Findings, f.Finding)
	}
	return nil
}

// resolve names what a finding is about.
func (c *collector) resolve(f *found) error {
	ok := f.Call < len(c.res.Calls) || len(c.res.Calls) == 0
	switch f.subject {
	case subjectTensor:
		if ok = ok && f.index < len(c.r.blocks); ok {
			b := &c.r.blocks[f.index]
			f.Arg = b.t
			if f.Kind == Unwritten && b.t.Optional {
				f.Count = 0
				return nil
			}
			if f.Kind == InputChanged && b.t.Value != nil {
				memory, err := c.arena.bytes(b.offset, b.nbytes)
				if err != nil {
					return fmt.Errorf("%s: %w", b.t.Role, err)
				}
				f.Count, f.At = changed(memory, b)
				t, err := get(memory, b.t.DType, b.t.Shape, b.stride)
				if err != nil {
					return fmt.Errorf("%s: %w", b.t.Role, err)
				}
				c.res.tensors[b.t] = t
			}
		}
	case subjectAlloc:
		if ok = ok && f.index < len(c.r.allocs); ok {
			f.Arg = c.r.allocs[f.index]
		}
	case subjectOut:
		if ok = ok && f.index < len(c.r.outs); ok {
			f.Arg = c.r.outs[f.index]
		}
	}
	if !ok || int(f.Kind) >= len(findingNames) {
		return &brokenError{errors.New("a finding about nothing in the plan")}
	}
	f.Role = role(f.Arg)
	return nil
}

// allocTensor reads a tensor the callee made.
func (c *collector) allocTensor(d *decoder) (*tensor.Tensor, error) {
	number, offset, nbytes, shape, stride := d.u8(), d.i64(), d.i64(), d.ints(), d.ints()
	if d.err != nil {
		return nil, &brokenError{d.err}
	}
	name := dtypeNames()[number]
	if name == "tfloat32" { // stored as float32
		name = "float32"
	}
	dt, ok := tensor.ParseDType(name)
	if !ok {
		return nil, fmt.Errorf("the callee made a tensor of dtype %d, which cannot be read", number)
	}
	memory, err := c.arena.bytes(offset, nbytes)
	if err != nil {
		return nil, &brokenError{fmt.Errorf("a tensor of %d bytes that is not in shared memory", nbytes)}
	}
	return get(memory, dt, shape, stride)
}
