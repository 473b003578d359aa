//go:build unix

package torchbridge

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/optool/optool/tensor"
)

// A Device runs calls in workers.
type Device struct {
	config Config
	info   Info
	free   chan *slot
	slots  []*slot
	once   sync.Once

	stop    context.CancelFunc // of the first worker's start
	started chan struct{}      // closed when that is over
	err     error              // why it did not start, once started is closed
}

// A slot is for one worker at a time; its shared memory outlives the worker.
type slot struct {
	memory  *shared
	process *process // nil: none runs
}

// Open starts Python on a device and waits for it; further workers start when they are
// needed. The error says why there is no such device.
func Open(ctx context.Context, c Config) (*Device, error) {
	d, err := Start(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := d.Ready(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Start is Open that does not wait: Ready does, and the first call.
func Start(ctx context.Context, c Config) (*Device, error) {
	if c.Python == "" {
		c.Python = "python3"
	}
	c.Workers = max(1, c.Workers)
	if c.Timeout <= 0 {
		c.Timeout = time.Minute
	}
	if c.Import == nil {
		c.Import = Plugins(c.Device)
	}
	if c.Map == nil {
		c.Map = map[string]string{}
	}
	d := &Device{config: c, free: make(chan *slot, c.Workers), stop: func() {}, started: make(chan struct{})}
	for range c.Workers {
		m, err := newShared()
		if err != nil {
			close(d.started)
			d.Close()
			return nil, err
		}
		d.slots = append(d.slots, &slot{memory: m})
	}
	ctx, d.stop = context.WithCancel(ctx)
	go func() {
		defer close(d.started)
		first := d.slots[0]
		p, err := d.config.start(ctx, first.memory.file)
		if err != nil {
			d.err = d.failed(err)
			return
		}
		first.process, d.info = p, p.info
		for _, s := range d.slots {
			d.free <- s
		}
	}()
	return d, nil
}

// failed is an error of the device as such.
func (d *Device) failed(err error) error {
	return fmt.Errorf("device %s: %w", Prefix+d.config.Device, err)
}

// Ready waits until the device can run calls. The error says why there is none.
func (d *Device) Ready() error {
	<-d.started
	return d.err
}

// Info describes the device, once it is Ready.
func (d *Device) Info() Info { return d.info }

// Function is what the device runs for an operator: the user's "module:function", else the function of that name.
func (d *Device) Function(op string) string { return cmp.Or(d.config.Map[op], op) }

// Close ends the workers. Runs must have returned.
func (d *Device) Close() error {
	d.once.Do(func() {
		d.stop()
		<-d.started
		for _, s := range d.slots {
			if s.process != nil {
				s.process.close()
			}
			s.memory.close()
		}
	})
	return nil
}

// Run carries out a call. What the device does wrong is in the Result; an error is about
// the call (an argument that cannot be sent), the machine, or ctx.
func (d *Device) Run(ctx context.Context, c *Call) (res *Result, err error) {
	err = d.with(ctx, c, func(s *slot, r *request) error {
		a, pass, err := d.attempt(ctx, s, r)
		switch {
		case err != nil:
			return err
		case a == nil:
			res = &Result{Forward: pass}
			return nil
		}
		res, err = s.result(r, a)
		return err
	})
	return res, err
}

// Time measures a call. How a pass that cannot be measured ended is in the Pass.
func (d *Device) Time(ctx context.Context, c *Call, t Timing) (times *Times, pass Pass, err error) {
	err = d.with(ctx, c, func(s *slot, r *request) error {
		r.Time, r.Repeat = &t, max(t.Runs, 1)
		var a *answer
		if a, pass, err = d.attempt(ctx, s, r); err != nil || a == nil {
			return err
		}
		if pass = a.pass(); pass.Status != OK {
			return nil
		}
		if len(a.Runs) != t.Runs {
			return fmt.Errorf("the worker measured %d of %d runs", len(a.Runs), t.Runs)
		}
		times = &Times{OnDevice: a.Clock == "device", Memory: a.Memory}
		for _, ns := range a.Runs {
			times.Runs = append(times.Runs, time.Duration(max(ns, 0)))
		}
		return nil
	})
	return times, pass, err
}

// with calls f for a call with a worker's slot.
func (d *Device) with(ctx context.Context, c *Call, f func(*slot, *request) error) (err error) {
	defer func() { // the values of a call may be read from files
		if e, ok := recover().(*tensor.ReadError); ok {
			err = e
		} else if e != nil {
			panic(e)
		}
	}()
	r, err := newRequest(c)
	if err != nil {
		return err
	}
	if err := d.Ready(); err != nil {
		return err
	}
	var s *slot
	select {
	case s = <-d.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { d.free <- s }()
	return f(s, r)
}

// attempt sends a request to the slot's worker, which it starts if need be. Without an
// answer the Pass says how the worker ended.
func (d *Device) attempt(ctx context.Context, s *slot, r *request) (*answer, Pass, error) {
	if s.process != nil && s.process.hasEnded() {
		s.end()
	}
	if s.process == nil {
		var err error
		if s.process, err = d.config.start(ctx, s.memory.file); err != nil && ctx.Err() == nil { // once more
			s.process, err = d.config.start(ctx, s.memory.file)
		}
		if err != nil {
			return nil, Pass{}, d.failed(err)
		}
	}
	if err := s.memory.begin(r.Top); err != nil {
		return nil, Pass{}, err
	}
	if err := r.fill(s.memory.mem); err != nil {
		return nil, Pass{}, err
	}
	r.Limit = d.config.limit() - r.Top
	p := s.process
	p.stderr.Reset()
	stop := context.AfterFunc(ctx, p.kill)
	err := p.send(r)
	var a *answer
	if err == nil {
		a, err = p.receive(d.config.Timeout * time.Duration(r.Repeat))
	}
	if !stop() {
		s.end()
		return nil, Pass{}, ctx.Err()
	}
	if err != nil {
		pass := p.fate(err)
		s.end()
		return nil, pass, nil
	}
	if n := p.stderr.Size(); n >= printsTooMuch {
		a.Faults = append(a.Faults, fmt.Sprintf("it printed %d MiB", n>>20))
	}
	if a.Fatal || a.Worn { // what it left in the memory stays
		s.end()
	}
	return a, Pass{}, nil
}

// end gives the worker up.
func (s *slot) end() {
	s.process.close()
	s.process = nil
}

// result reads what the worker left in the shared memory.
func (s *slot) result(r *request, a *answer) (*Result, error) {
	res := &Result{Forward: a.pass()}
	var err error
	read := func(list []*stored) []*tensor.Tensor {
		out := make([]*tensor.Tensor, len(list))
		for i, x := range list {
			if x != nil && err == nil {
				out[i], err = s.tensor(x)
			}
		}
		return out
	}
	res.Outputs, res.After = read(a.Outputs), read(a.After)
	if b := a.Backward; b != nil {
		res.Backward = b.pass()
		res.Grads = read(b.Grads)
	}
	if err == nil && len(res.After) > 0 && len(res.After) != len(r.After) {
		err = fmt.Errorf("%d arguments after the call, want %d", len(res.After), len(r.After))
	}
	if err != nil {
		return nil, fmt.Errorf("the worker's answer: %w", err)
	}
	return res, nil
}

// tensor is a copy of a result.
func (s *slot) tensor(x *stored) (*tensor.Tensor, error) {
	dt, ok := tensor.ParseDType(x.DType)
	if !ok {
		return nil, fmt.Errorf("a tensor of dtype %s", x.DType)
	}
	if err := tensor.CheckSize(x.Shape); err != nil {
		return nil, err
	}
	n := int64(tensor.Numel(x.Shape)) * int64(dt.Size())
	if x.At < 0 || n < 0 {
		return nil, fmt.Errorf("a tensor of %d bytes at %d", n, x.At)
	}
	if err := s.memory.see(x.At + n); n > 0 && err != nil {
		return nil, fmt.Errorf("a tensor of %d bytes at %d of %d: %w", n, x.At, len(s.memory.mem), err)
	}
	var data []byte
	if n > 0 {
		data = bytes.Clone(s.memory.mem[x.At : x.At+n])
	}
	return tensor.NewView(tensor.NewStorage(data), tensor.View{DType: dt, Shape: x.Shape,
		Stride: tensor.Contiguous(x.Shape)})
}
