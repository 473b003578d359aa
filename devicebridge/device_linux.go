//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package devicebridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/tensor"
)

// A Device is a loaded library and the processes that run it.
type Device struct {
	config   Config
	launcher *launcher
	info     Info
	free     chan *slot // those that run no plan
	slots    []*slot
	once     sync.Once
}

// A slot is for one worker at a time; its shared memory outlives the worker.
type slot struct {
	arena  *arena
	worker *worker // nil: none runs
}

// Open loads a library in a worker and describes it; further workers start when
// they are needed. An error says why the library cannot be used, or that this
// build has no devices ([ErrNoDevices]).
func Open(ctx context.Context, c Config) (*Device, error) {
	c.Workers = max(1, c.Workers)
	if c.Timeout <= 0 {
		c.Timeout = time.Minute
	}
	d := &Device{config: c, free: make(chan *slot, c.Workers)}
	if err := d.open(ctx); err != nil {
		d.Close()
		return nil, fmt.Errorf("device %s: %w", c.Library, err)
	}
	return d, nil
}

func (d *Device) open(ctx context.Context) error {
	l := &launcher{env: d.config.Env, timeout: d.config.Timeout}
	var err error
	if l.program, err = newExecutable("worker"); err != nil {
		return err
	}
	d.launcher = l
	if err := sameSources(); err != nil {
		return err
	}
	if d.config.Library == Host {
		if l.library, err = newExecutable(hostLibrary); err != nil {
			return err
		}
	} else if l.path, err = libraryPath(d.config.Library); err != nil {
		return err
	}
	if d.config.Adaptor != "" {
		if l.adaptor, err = libraryPath(d.config.Adaptor); err != nil {
			return fmt.Errorf("adaptor: %w", err)
		}
	}
	for range d.config.Workers {
		a, err := newArena()
		if err != nil {
			return err
		}
		s := &slot{arena: a}
		d.slots = append(d.slots, s)
		d.free <- s
	}
	first := d.slots[0]
	if first.worker, err = l.first(ctx, first.arena); err != nil {
		return err
	}
	d.info = first.worker.hello
	return nil
}

// Info describes the library.
func (d *Device) Info() Info { return d.info }

// Renew ends the workers once they run nothing; new ones start when they are
// needed, with a library that lies elsewhere in memory. Where code and data lie
// differs from process to process, and with it how fast they are.
func (d *Device) Renew() {
	for range d.slots {
		s := <-d.free
		defer func() { d.free <- s }()
		if s.worker != nil {
			s.worker.close()
			s.worker = nil
		}
	}
	d.launcher.move()
}

// Place binds the running workers to one processor: number turn of the processors that this process may use, modulo
// their count. Threads that the library made before stay where they are.
func (d *Device) Place(turn int) {
	var all, one unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || all.Count() == 0 {
		return
	}
	cpu := -1
	for range turn%all.Count() + 1 {
		for cpu++; !all.IsSet(cpu); cpu++ {
		}
	}
	one.Set(cpu)
	for range d.slots {
		s := <-d.free
		defer func() { d.free <- s }()
		if s.worker != nil {
			unix.SchedSetaffinity(s.worker.pid(), &one) // of the main thread only
		}
	}
}

// Close ends the workers. Runs must have returned.
func (d *Device) Close() error {
	d.once.Do(func() {
		for _, s := range d.slots {
			if s.worker != nil {
				s.worker.close()
			}
			s.arena.close()
		}
		if d.launcher != nil {
			d.launcher.close()
		}
	})
	return nil
}

// Run carries out a plan. The Result holds the faults of the library. An error
// concerns the plan (an argument that the interface does not accept), the machine or
// ctx.
func (d *Device) Run(ctx context.Context, p *diopi.Plan) (*Result, error) {
	return d.RunWith(ctx, p, Options{})
}

// RunWith is Run with repetitions or measurements.
func (d *Device) RunWith(ctx context.Context, p *diopi.Plan, o Options) (res *Result, err error) {
	r, err := newRequest(p)
	if err != nil {
		return nil, err
	}
	var s *slot
	select {
	case s = <-d.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { d.free <- s }()
	defer func() { // the values of a plan may be read from files
		if e, ok := recover().(*tensor.ReadError); ok {
			res, err = nil, e
		} else if e != nil {
			panic(e)
		}
	}()
	res, err = d.attempt(ctx, s, r, o, poison)
	if err != nil || !suspects(res) {
		return res, err
	}
	// Elements that look unwritten: a run with another pattern tells.
	second, err := d.attempt(ctx, s, r, Options{}, otherPoison)
	if err != nil {
		return nil, err
	}
	confirm(res, second)
	return res, nil
}

// suspects reports whether elements hold what they held before the run.
func suspects(r *Result) bool {
	for _, f := range r.Findings {
		if f.Kind == Unwritten {
			return true
		}
	}
	return false
}

// confirm keeps of the Unwritten findings those that a second run, with another
// pattern in the outputs, proves.
func confirm(first, second *Result) {
	var kept []Finding
	for _, f := range first.Findings {
		if f.Kind == Unwritten {
			a, _ := first.Tensor(f.Arg)
			b, _ := second.Tensor(f.Arg)
			if a == nil || b == nil {
				continue
			}
			if f.Count, f.At = unwritten(a, b, poison, otherPoison); f.Count == 0 {
				continue
			}
		}
		kept = append(kept, f)
	}
	first.Findings = kept
}

// put writes what the tensors of a request hold before its calls.
func (a *arena) put(r *request, fill byte) error {
	for i := range r.blocks {
		b := &r.blocks[i]
		b.written = false
		if b.t.Value == nil || b.t.CSR != nil {
			continue
		}
		memory, err := a.bytes(b.offset, b.nbytes)
		if err != nil {
			return err
		}
		put(memory, b, fill)
	}
	return nil
}

// attempt runs a plan once in the slot's worker, and starts the worker if there is none. If a worker ends that has run
// other plans, one of these may have left the cause behind (a thread, a timer, a descriptor). attempt then runs the
// plan again in a new worker, which has run nothing else, and judges it there.
func (d *Device) attempt(ctx context.Context, s *slot, r *request, o Options, fill byte) (*Result, error) {
	if s.worker != nil && (s.worker.hasEnded() || !s.arena.room(r.top, s.worker.addresses)) {
		s.worker.close()
		s.worker = nil
	}
	if s.worker == nil {
		if err := s.arena.rewind(); err != nil {
			return nil, err
		}
		w, err := d.launcher.start(ctx, s.arena)
		if err == nil && w.problem != "" {
			err = errors.New(w.problem)
			w.close()
		}
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", d.config.Library, err)
		}
		s.worker = w
	}
	w := s.worker
	if err := s.arena.begin(r.top, w.fitness == crowded); err != nil {
		return nil, err
	}
	w.stderr.Reset()
	stop := context.AfterFunc(ctx, w.kill)
	c := &collector{r: r, arena: s.arena, res: newResult(r), timeout: d.config.Timeout}
	w.request++
	err := s.arena.guarded(func() error {
		if err := s.arena.put(r, fill); err != nil {
			return err
		}
		if err := c.exchange(w, r.message(w.request, s.arena.plan, o, fill), o); err != nil {
			return err
		}
		return c.finish()
	})
	if stop() && c.done != nil && !errors.As(err, new(*brokenError)) {
		if w.fitness = c.fitness; w.fitness == worn {
			w.close()
			s.worker = nil
		}
		return c.res, err
	}
	s.worker = nil
	f := w.fate(err)
	w.close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if w.request > 1 {
		return d.attempt(ctx, s, r, o, fill)
	}
	if f == nil {
		return nil, fmt.Errorf("device %s: %w", d.config.Library, err)
	}
	return c.died(f)
}
