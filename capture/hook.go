package capture

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unique"

	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// hookProducer reads what `optool hook` records: calls.jsonl, one line an event, and
// tensors-*.safetensors, each content once; see FORMAT.md.
var hookProducer = producer{
	begins: func(name string) bool { return name == "calls.jsonl" },
	open:   openHook,
	hidden: []string{"tensors-*.safetensors"},
}

// hookFormat is what the first line of calls.jsonl says of its format.
const hookFormat = "optool-capture"

// Bounds of calls.jsonl, in bytes.
const (
	hookLine   = 64 << 20 // any line
	hookHeader = 1 << 20  // the first
)

// A hookRun is what one process recorded.
type hookRun struct {
	exchanging []int // calls of collectives that have not returned
	dir, file  string
	torch      string // its version
	python     string // the program that ran it
	rank, pid  int
	end        hookEnd
	blobs      map[int]hookBlob // by the number of the tensor
	calls      []*hookCall
	counted    *int // the number of the step that began last, nil if none did
	sets       []GeneratorSet
	updates    []OptimizerStep

	mu    sync.Mutex
	files map[int]*hookFile
}

// A hookBlob is where the bytes of a tensor are.
type hookBlob struct {
	file         int
	begin, bytes int64
}

// A hookFile is an opened file of tensors, closed after its last reader.
type hookFile struct {
	files.File
	name    string
	size    int64
	readers int
}

// A hookCall says where the events of a call are in calls.jsonl.
type hookCall struct {
	run                    *hookRun
	id                     int
	op                     string
	order, backward        int
	step                   int
	module, location, fail string
	params                 []string
	replaced, replacedAt   string
	wrapped                []Wrapper
	group                  []int
	groupName              string
	within                 int
	drawnFrom              int
	autocast               map[string]string
	begun, returned        span
	gradInputs             []span
	gradOutputs            []span
	changed                bool
	pass                   *int64 // of the first gradient, nil if none has a number
	parted                 []backwardPart
	arrived                *int64           // the pass of the last gradient that arrived
	nested                 []nestedGradient // since then
	gradient               int              // what was recorded next when its first gradient of an argument was there
	passes                 []int64          // later ones that gave gradients of arguments
	later                  []int            // where they began
	held                   atomic.Int64     // how many bytes its values have, 1 more, once that is known
}

// A hookEvent holds the fields of an event by which calls are found.
type hookEvent struct {
	Event   string `json:"event"`
	Format  string `json:"format"`
	Version int    `json:"version"`
	Torch   string `json:"torch"`
	Python  string `json:"executable"`
	// Generators says that there is an event for each setting of torch's own generators.
	Generators bool   `json:"generators"`
	Rank       *int   `json:"rank"`
	PID        int    `json:"pid"`
	N          int    `json:"n"`
	File       int    `json:"file"`
	Begin      int64  `json:"begin"`
	Bytes      int64  `json:"bytes"`
	ID         int    `json:"id"`
	Name       string `json:"name"`
	Step       *int   `json:"step"`
	Steps      []int  `json:"steps"`
	Complete   *bool  `json:"complete"`
	Module     string `json:"module"`
	Location   string `json:"location"`
	Group      []int  `json:"group"`
	GroupOf    string `json:"group_name"`
	Within     *int   `json:"within"`
	By         string `json:"by"`
	Drawn      *int   `json:"drawn_from"`
	Error      string `json:"error"`
	Pass       *int64 `json:"pass"`
	I          int    `json:"i"`
	// Dtypes by type of device; nil: autocast was off.
	Autocast   map[string]string `json:"autocast"`
	Params     []string          `json:"params"`
	Replaced   string            `json:"replaced"`
	ReplacedAt string            `json:"replaced_at"`
	Wrapped    []Wrapper         `json:"wrapped"`
	After      json.RawMessage   `json:"after"`
	Groups     []struct {
		Params []string `json:"params"`
	} `json:"groups"`
}

func openHook(dir, name string) (iter.Seq2[*Entry, error], bool) {
	path := filepath.Join(dir, name)
	if !looksLikeHook(path) {
		return nil, false
	}
	return func(yield func(*Entry, error) bool) {
		r := &hookRun{dir: dir, file: path, rank: -1, pid: -1, blobs: map[int]hookBlob{}, files: map[int]*hookFile{}}
		err := r.read()
		var unended string
		if errors.As(err, new(cutError)) {
			unended = err.Error()
		}
		within := withinBackward(r.calls)
		for _, c := range r.calls {
			e := r.entry(c)
			if id, ok := within[c]; ok {
				e.WithinBackward = id
			}
			if e.Unended = unended; !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, &FileError{Path: path, Err: err, Cut: unended != ""})
		}
	}, true
}

// A backwardPart is a part of a backward pass through a call: from the last gradient that arrived up to the first that
// the call gave, as places in the order of the recording.
type backwardPart struct {
	call       *hookCall
	from, upTo int // upTo is 0 until it gave one
}

// A nestedGradient is that of an argument in a pass that goes on within another one.
type nestedGradient struct {
	pass     int64
	argument int
}

// withinBackward gives, of each call that was made in the backward pass of another one, the ID of that: between the
// last gradient that arrived there and the first that it gave. Of several it is the one whose part began last.
func withinBackward(calls []*hookCall) map[*hookCall]int {
	var parts []backwardPart
	for _, c := range calls {
		for _, p := range c.parted {
			if p.upTo > p.from {
				parts = append(parts, p)
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b backwardPart) int {
		return cmp.Or(a.from-b.from, a.call.backward-b.call.backward)
	})
	inOrder := slices.SortedFunc(slices.Values(calls), func(a, b *hookCall) int { return a.order - b.order })
	out := map[*hookCall]int{}
	var open []backwardPart
	for _, c := range inOrder {
		for len(parts) > 0 && parts[0].from <= c.order {
			open, parts = append(open, parts[0]), parts[1:]
		}
		open = slices.DeleteFunc(open, func(p backwardPart) bool { return p.upTo <= c.order })
		if len(open) > 0 {
			out[c] = open[len(open)-1].call.id
		}
	}
	return out
}

// looksLikeHook reports whether a file begins with the event of a run, its keys in any
// order, or is empty. What is wrong with a line that is not JSON is left to read to say.
func looksLikeHook(path string) bool {
	f, size, err := files.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := readLine(bufio.NewReader(io.LimitReader(f, hookHeader)))
	if size == 0 {
		return true
	}
	if err != nil && err != io.EOF {
		return false
	}
	var e hookEvent
	if json.Unmarshal(line, &e) == nil {
		return e.Event == "run" && e.Format == hookFormat
	}
	return bytes.Contains(line, []byte(`"`+hookFormat+`"`))
}

// read finds the calls of the file; after an error those before it. A recording that is not whole is a cutError.
func (r *hookRun) read() error {
	f, _, err := files.Open(r.file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 1<<20)
	byID := map[int]*hookCall{}
	var at int64
	for number, position := 1, 0; ; number++ {
		line, err := readLine(lines)
		if err == io.EOF {
			return r.cut(len(line) > 0, byID)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		s := span{at, at + int64(len(line))}
		at = s.end
		var e hookEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("line %d: %w", number, jsonError(err))
		}
		if err := r.event(&e, s, byID, &position); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
}

// readLine reads one line with its end; io.EOF says that no whole line is left.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == nil {
		return line, nil
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(long) > hookLine {
			return nil, fmt.Errorf("longer than %d bytes", hookLine)
		}
		line, err = r.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

func (r *hookRun) event(e *hookEvent, s span, byID map[int]*hookCall, position *int) error {
	c := byID[e.ID]
	r.end.event(e)
	switch e.Event {
	case "run":
		if e.Version != 1 {
			return fmt.Errorf("version %d of the format is not known", e.Version)
		}
		r.pid, r.torch, r.python, r.end.asked = e.PID, e.Torch, e.Python, e.Steps
		if e.Generators {
			r.sets = []GeneratorSet{}
		}
		if e.Rank != nil {
			r.rank = *e.Rank
		}
	case "blob":
		return r.blob(e)
	case "call":
		if c != nil {
			return fmt.Errorf("call %d appears twice", e.ID)
		}
		if !isOpName(e.Name) {
			return fmt.Errorf("%q is not the name of an operator", e.Name)
		}
		c = &hookCall{run: r, id: e.ID, op: once(e.Name), order: *position, backward: -1, step: -1, within: -1,
			module: once(e.Module), location: once(e.Location), group: e.Group, groupName: e.GroupOf,
			autocast: e.Autocast, params: e.Params, replaced: once(e.Replaced), replacedAt: once(e.ReplacedAt),
			wrapped: e.Wrapped, begun: s}
		if e.Step != nil {
			c.step = *e.Step
		}
		if e.Within != nil {
			c.within = *e.Within
		}
		if e.Drawn != nil {
			c.drawnFrom = *e.Drawn
		}
		*position++
		if byID[e.ID] = c; !r.insideCollective(e) {
			r.calls = append(r.calls, c)
		}
		if strings.HasPrefix(e.Name, distributed) {
			r.exchanging = append(r.exchanging, e.ID)
		}
	case "return", "raise", "grad_input", "grad_output":
		if c == nil {
			return fmt.Errorf("%s of call %d, whose own line is missing in the recording", e.Event, e.ID)
		}
		if e.Event == "return" || e.Event == "raise" {
			r.exchanging = slices.DeleteFunc(r.exchanging, func(id int) bool { return id == e.ID })
		}
		c.add(e, s, position)
	case "step":
		r.countStep(e.Step)
	case "generator":
		r.sets = append(r.sets, GeneratorSet{Name: e.Name, Location: e.Location, By: e.By, Order: *position})
	case "optimizer":
		u := OptimizerStep{Order: *position}
		for _, g := range e.Groups {
			u.Params = append(u.Params, g.Params...)
		}
		r.updates = append(r.updates, u)
	}
	return nil // other events are for people
}

// once is a text that many calls have, which is kept once.
func once(text string) string { return unique.Make(text).Value() }

// countStep notes the number of a step that begins. If it is not higher than the last one, the program began to count
// by itself: what an optimizer had counted before is one step.
func (r *hookRun) countStep(n *int) {
	if n == nil {
		return
	}
	if r.counted != nil && *n <= *r.counted {
		for _, c := range r.calls {
			c.step = min(c.step, *n-1)
		}
	}
	r.counted = n
}

// distributed is the module of collectives.
const distributed = "torch.distributed."

// insideCollective reports whether a call is what a collective calls itself by: earlier hooks recorded both, the inner
// one without its group.
func (r *hookRun) insideCollective(e *hookEvent) bool {
	return len(r.exchanging) > 0 && e.Group == nil && strings.HasPrefix(e.Name, distributed+"distributed_c10d.")
}

// tensors is the path of the n-th file of tensors.
func (r *hookRun) tensors(n int) string {
	return filepath.Join(r.dir, fmt.Sprintf("tensors-%05d.safetensors", n))
}

func (r *hookRun) blob(e *hookEvent) error {
	if e.File < 0 || e.Begin < 0 || e.Bytes < 0 || e.Bytes > math.MaxInt64-e.Begin {
		return fmt.Errorf("blob %d in file %d, %d bytes from %d, is impossible", e.N, e.File, e.Bytes, e.Begin)
	}
	r.blobs[e.N] = hookBlob{file: e.File, begin: e.Begin, bytes: e.Bytes}
	return nil
}

func (c *hookCall) add(e *hookEvent, s span, position *int) {
	switch e.Event {
	case "return":
		c.returned, c.changed = s, len(e.After) > 2
	case "raise":
		c.fail = e.Error
	default:
		if c.backward < 0 {
			c.backward = *position
			*position++
		}
		if c.pass == nil {
			c.pass = e.Pass
		}
		if c.pass != nil && e.Pass != nil && *c.pass != *e.Pass && e.Event == "grad_input" &&
			!slices.Contains(c.passes, *e.Pass) {
			c.passes, c.later = append(c.passes, *e.Pass), append(c.later, *position)
		}
		if e.Event == "grad_input" && len(c.gradInputs) == 0 {
			c.gradient = *position
		}
		c.part(e, *position)
		if e.Event == "grad_input" {
			c.gradInputs = append(c.gradInputs, s)
		} else {
			c.gradOutputs = append(c.gradOutputs, s)
		}
	}
}

// part notes that a gradient arrived, or that the call gave one. A pass in which none arrived goes on within the call's
// own: the backward pass of a function of the program asks for gradients of what it saved (autograd.grad). If the
// function then gives a gradient of the same argument, that of the inner pass went into it and no further.
func (c *hookCall) part(e *hookEvent, position int) {
	last := len(c.parted) - 1
	begun := last >= 0 && c.parted[last].upTo == 0
	if e.Event == "grad_output" {
		if !begun {
			c.parted = append(c.parted, backwardPart{call: c})
			last++
		}
		c.parted[last].from, c.arrived, c.nested = position, e.Pass, nil
		return
	}
	if e.Pass != nil && c.arrived != nil && *e.Pass != *c.arrived {
		if begun {
			c.nested = append(c.nested, nestedGradient{*e.Pass, e.I})
		}
		return
	}
	if begun {
		c.parted[last].upTo = position
	}
	for _, g := range c.nested {
		if i := slices.Index(c.passes, g.pass); i >= 0 && g.argument == e.I {
			c.passes, c.later = slices.Delete(c.passes, i, i+1), slices.Delete(c.later, i, i+1)
		}
	}
}

// noAutocast is Entry.Autocast of the calls that the hook recorded outside of it.
var noAutocast = map[string]string{}

func (r *hookRun) entry(c *hookCall) *Entry {
	e := newForeign(Hook, c.op+"."+strconv.Itoa(c.id), c)
	e.Op, e.ID, e.PID, e.Rank = c.op, c.id, r.pid, r.rank
	e.Step, e.Order, e.BackwardOrder, e.Module, e.Location = c.step, c.order, c.backward, c.module, c.location
	e.Params, e.Replaced, e.ReplacedAt, e.Wrapped = c.params, c.replaced, c.replacedAt, c.wrapped
	e.Group, e.GroupName, e.Within, e.Raised = c.group, c.groupName, c.within, c.fail
	e.LaterOrder, e.GradientOrder, e.Torch, e.Python = c.later, c.gradient, r.torch, r.python
	e.DrawnFrom, e.GeneratorSets, e.OptimizerSteps = c.drawnFrom, r.sets, r.updates
	if e.Autocast = c.autocast; e.Autocast == nil {
		e.Autocast = noAutocast
	}
	e.Files.add(Input)
	if c.returned != (span{}) {
		e.Files.add(Output)
	}
	if c.changed {
		e.Files.add(After)
	}
	if len(c.gradInputs) > 0 {
		e.Files.add(GradInputs)
	}
	if len(c.gradOutputs) > 0 {
		e.Files.add(GradOutputs)
	}
	return e
}

// parts implements recording: of files that all calls share, each tensor once.
func (c *hookCall) parts() []files.Part {
	d, err := c.said()
	if err != nil {
		return nil
	}
	used := map[hookBlob]bool{}
	for _, k := range Kinds() {
		l := &hookLoader{run: c.run, count: true, used: used}
		_ = d.fill(l, &Record{Kwargs: &value.Dict{}}, k) // as far as it can be read
	}
	var parts []files.Part
	for b := range used {
		parts = append(parts, files.Part{Path: c.run.tensors(b.file), Begin: b.begin, Bytes: b.bytes})
	}
	slices.SortFunc(parts, func(a, b files.Part) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Begin, b.Begin))
	})
	c.held.Store(files.Bytes(parts) + 1)
	return parts
}

// bytes implements measured.
func (c *hookCall) bytes() int64 {
	if c.held.Load() == 0 {
		c.parts()
	}
	return max(0, c.held.Load()-1)
}

// describe implements recording.
func (c *hookCall) describe() (description, error) { return c.said() }

func (c *hookCall) said() (hookDescription, error) {
	said, err := readObjects(c.run.file, slices.Concat([]span{c.begun, c.returned}, c.gradInputs, c.gradOutputs)...)
	return hookDescription{c, said}, err
}

// A hookDescription is what the events of a call say.
type hookDescription struct {
	*hookCall
	events *objects
}

// record implements description.
func (c hookDescription) record(k Kind, _ pthformat.ReadMode) (*Record, []io.Closer, error) {
	l := c.loader()
	r := &Record{Name: c.op, Kwargs: &value.Dict{}, Identifier: c.op + "/" + strconv.Itoa(c.id)}
	if err := c.fill(l, r, k); err != nil {
		l.Close()
		return nil, nil, err
	}
	r.Placed, r.Names, r.Terms, r.Means, r.Copies = l.placed, l.names, l.terms, l.means, l.copies
	return r, []io.Closer{l}, nil
}

func (c hookDescription) loader() *hookLoader {
	return &hookLoader{run: c.run, open: map[int]*hookFile{}, memory: map[memoryOf]*tensor.Storage{},
		names: map[*tensor.Tensor]string{}, terms: map[*tensor.Tensor][]int{},
		means: map[*tensor.Tensor]bool{}, copies: map[*tensor.Tensor]int{}}
}

func (c hookDescription) fill(l *hookLoader, r *Record, k Kind) error {
	begun, err := c.events.at(c.begun)
	if err != nil {
		return err
	}
	if k == Input {
		return l.arguments(r, begun)
	}
	returned, err := c.events.at(c.returned)
	if err != nil {
		return err
	}
	result, _ := returned.get("result")
	switch k {
	case Output:
		v, err := l.value(result, "args[0]")
		r.Args = []value.Value{v}
		return err
	case After:
		after, _ := returned.get("after")
		if l.instead, _ = after.(*object); l.instead == nil {
			return fmt.Errorf("calls.jsonl: call %d: after is not an object", c.id)
		}
		r.Unseen = map[*tensor.Tensor]bool{}
		l.unseen = r.Unseen
		return l.arguments(r, begun)
	case GradInputs:
		n, err := c.arguments()
		if err != nil {
			return err
		}
		if r.Args, err = c.gradients(l, n, c.gradInputs); err != nil {
			return err
		}
		r.Unknown = slices.Contains(r.Args, nil) // a backward pass need not reach all arguments
	case GradOutputs:
		counting := &hookLoader{run: c.run, count: true}
		if _, err := counting.value(result, ""); err != nil {
			return err
		}
		r.Args, err = c.gradients(l, max(1, counting.tensors), c.gradOutputs)
	}
	return err
}

// A hookPass tells the events of the first backward pass through a call from those of later ones. An
// argument's gradient of one pass does not belong to a result's of another.
type hookPass struct {
	number int64 // of the pass, -1: the recorder has no numbers
	end    int64 // where the gradient of some result comes again
}

func (p hookPass) has(s span, event *object) bool {
	return s.at < p.end && (p.number < 0 || passOf(event) == p.number)
}

// passOf is the number of the pass that the event of a gradient belongs to, -1 if it does not say.
func passOf(event *object) int64 {
	v, _ := event.get("pass")
	if n, ok := jsonInt(v); ok && n >= 0 {
		return n
	}
	return -1
}

func (c hookDescription) firstPass() (hookPass, error) {
	p, seen := hookPass{-1, math.MaxInt64}, map[int64]bool{}
	for _, s := range c.gradOutputs {
		e, err := c.events.at(s)
		if err != nil {
			return p, err
		}
		if len(seen) == 0 {
			p.number = passOf(e)
		}
		of, _ := e.get("i")
		if i, _ := jsonInt(of); seen[i] {
			p.end = s.at
			break
		} else {
			seen[i] = true
		}
	}
	return p, nil
}

// gradients are those of n tensors in the first backward pass through the call.
func (c hookDescription) gradients(l *hookLoader, n int, spans []span) ([]value.Value, error) {
	out := make([]value.Value, n)
	pass, err := c.firstPass()
	if err != nil {
		return nil, err
	}
	for _, s := range spans {
		e, err := c.events.at(s)
		if err != nil {
			return nil, err
		}
		at, _ := e.get("i")
		i, ok := jsonInt(at)
		if !ok || i < 0 || i >= int64(n) {
			return nil, fmt.Errorf("calls.jsonl: call %d: gradient of tensor %v of %d", c.id, at, n)
		}
		if out[i] != nil || !pass.has(s, e) {
			continue
		}
		v, _ := e.get("value")
		if out[i], err = l.value(v, fmt.Sprintf("args[%d]", i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// memories implements addressed.
func (c hookDescription) memories(k Kind) map[string]Memory {
	l := &hookLoader{run: c.run, count: true, at: map[string]Memory{}}
	if c.fill(l, &Record{Kwargs: &value.Dict{}}, k) != nil {
		return nil
	}
	return l.at
}

// A memoryOf is what lay at an address of the process: a tensor that is given twice, as in a.mul_(a), is one.
type memoryOf struct {
	ptr  string
	blob hookBlob
}

// A hookLoader makes values of what events say.
type hookLoader struct {
	run     *hookRun
	open    map[int]*hookFile
	instead *object           // by the number of a tensor: what it was after the call
	tensors int               // met so far
	placed  string            // how a DTensor lies on several processes, "" if none does
	count   bool              // tensors are only counted
	at      map[string]Memory // where they lay, by what Addresses calls them, unless nil
	memory  map[memoryOf]*tensor.Storage
	used    map[hookBlob]bool         // what holds them, unless nil
	unseen  map[*tensor.Tensor]bool   // those that are not in instead, unless nil
	names   map[*tensor.Tensor]string // in the model, unless nil
	terms   map[*tensor.Tensor][]int  // see Record.Terms, unless nil
	means   map[*tensor.Tensor]bool   // see Record.Means, unless nil
	copies  map[*tensor.Tensor]int    // see Record.Copies
}

// Close releases the files that tensors are read from.
func (l *hookLoader) Close() error {
	var errs []error
	l.run.mu.Lock()
	defer l.run.mu.Unlock()
	for n := range l.open {
		f := l.run.files[n]
		if f.readers--; f.readers == 0 {
			errs = append(errs, f.Close())
			delete(l.run.files, n)
		}
	}
	l.open = nil
	return errors.Join(errs...)
}

func (l *hookLoader) arguments(r *Record, call *object) error {
	for i, a := range call.list("args") {
		v, err := l.value(a, fmt.Sprintf("args[%d]", i))
		if err != nil {
			return err
		}
		r.Args = append(r.Args, v)
	}
	kwargs, _ := call.get("kwargs")
	o, ok := kwargs.(*object)
	if !ok {
		return errors.New("calls.jsonl: kwargs is not an object")
	}
	for i, key := range o.keys {
		v, err := l.value(o.values[i], "kwargs."+key)
		if err != nil {
			return err
		}
		r.Kwargs.Items = append(r.Kwargs.Items, value.Item{Key: key, Value: v})
	}
	return nil
}

// value makes a value of its JSON; see FORMAT.md. path is what Addresses calls it.
func (l *hookLoader) value(v any, path string) (value.Value, error) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number:
		if n, ok := jsonInt(v); ok {
			return n, nil
		}
		f, ok := jsonFloat(v)
		if !ok {
			return nil, fmt.Errorf("calls.jsonl: %s is not a number", v)
		}
		return f, nil
	case []any:
		items, err := l.values(v, path)
		return value.NewList(items...), err
	case *object:
		if len(v.keys) > 0 {
			return l.object(v, path)
		}
	}
	return nil, fmt.Errorf("calls.jsonl: %v is not a value", v)
}

func (l *hookLoader) values(vs []any, path string) ([]value.Value, error) {
	out := make([]value.Value, len(vs))
	for i, v := range vs {
		var err error
		if out[i], err = l.value(v, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// hookKinds are the keys that say what an object of several keys is.
var hookKinds = []string{"tensor", "array", "tuple", "object"}

// object makes a value of an object.
func (l *hookLoader) object(o *object, path string) (value.Value, error) {
	kind, x := o.keys[0], o.values[0]
	for _, k := range hookKinds {
		if v, ok := o.get(k); ok {
			kind, x = k, v
			break
		}
	}
	var v value.Value
	var err error
	switch x := x.(type) {
	case string:
		v = l.named(o, kind, x)
	case []any:
		v, err = l.listed(o, kind, x, path)
	}
	switch {
	case kind == "tensor":
		return l.tensor(o, path)
	case kind == "array" && l.count:
		return nil, nil
	case kind == "array":
		return l.elements(o, x)
	case kind == "ellipsis":
		return value.Ellipsis{}, nil
	case v == nil && err == nil:
		return nil, fmt.Errorf("calls.jsonl: %q is not a kind of value, or not this one", kind)
	}
	return v, err
}

// named makes the value that a text stands for; nil if none of that kind is a text.
func (l *hookLoader) named(o *object, kind, text string) value.Value {
	switch kind {
	case "float":
		if f, ok := pythonFloat(text); ok {
			return f
		}
	case "dtype":
		if dt, ok := tensor.ParseDType(text); ok {
			return dt
		}
		return &value.Opaque{Global: "torch." + text, Whole: true}
	case "device":
		return parseDevice(text)
	case "layout":
		return value.Layout("torch." + text)
	case "memory_format":
		return value.MemoryFormat("torch." + text)
	case "generator":
		return &value.Opaque{Global: "torch.Generator", Parts: []value.Part{{Name: "(0)", Value: text}}}
	case "object":
		return l.unread(o, text)
	}
	return nil
}

// unread is an object of a class whose elements the hook cannot read.
func (l *hookLoader) unread(o *object, class string) value.Value {
	if _, ok := o.get("tensors"); ok || strings.HasSuffix(class, "Tensor") {
		l.tensors++
	}
	what := o.text("text")
	if name, ok := strings.CutPrefix(what, "<class '"); ok && class == "builtins.type" { // of Python: dtype=int
		if name = strings.TrimSuffix(name, "'>"); !strings.Contains(name, ".") {
			return &value.Opaque{Global: "builtins." + name}
		}
	}
	return &value.Opaque{Global: class, Reason: what}
}

// listed makes the value that is made of items; nil if none of that kind is.
func (l *hookLoader) listed(o *object, kind string, items []any, path string) (value.Value, error) {
	switch {
	case kind == "dict":
		return l.dict(items, path)
	case kind == "complex" && len(items) == 2:
		re, okRe := pythonFloat(items[0])
		im, okIm := pythonFloat(items[1])
		if okRe && okIm {
			return complex(re, im), nil
		}
		return nil, nil
	case kind != "tuple" && kind != "size" && (kind != "slice" || len(items) != 3):
		return nil, nil
	}
	before := l.tensors
	vs, err := l.values(items, path)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "slice":
		l.tensors = before // the hook knows no gradients of them
		return value.Slice{Start: vs[0], Stop: vs[1], Step: vs[2]}, nil
	case "size":
		return &value.Sequence{Kind: value.Tuple, Class: "torch.Size", Items: vs}, nil
	}
	return &value.Sequence{Kind: value.Tuple, Class: o.text("type"), Items: vs}, nil
}

func (l *hookLoader) dict(items []any, path string) (value.Value, error) {
	d := &value.Dict{}
	for i, it := range items {
		pair, ok := it.([]any)
		if !ok || len(pair) != 2 {
			return nil, errors.New("calls.jsonl: an item of a dict is not a pair")
		}
		kv, err := l.values(pair, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return nil, err
		}
		d.Items = append(d.Items, value.Item{Key: kv[0], Value: kv[1]})
	}
	return d, nil
}

// pythonFloat is a float as Python's repr writes it.
func pythonFloat(v any) (float64, bool) {
	s, ok := v.(string)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

func parseDevice(s string) value.Device {
	kind, index, has := strings.Cut(s, ":")
	d := value.Device{Type: kind, Index: -1}
	if n, ok := number(index); has && ok {
		d.Index = n
	}
	return d
}

// tensor makes a tensor over bytes that are read on first use.
func (l *hookLoader) tensor(o *object, path string) (value.Value, error) {
	number := l.tensors
	l.tensors++
	seen := false
	if l.instead != nil {
		var v any
		if v, seen = l.instead.get(strconv.Itoa(number)); seen {
			changed, ok := v.(*object)
			if !ok {
				return nil, errors.New("calls.jsonl: after holds something else than tensors")
			}
			o = changed
		}
	}
	ptr, _ := o.get("ptr")
	address, addressed := ptr.(json.Number)
	if l.at != nil && addressed {
		version, _ := o.get("version")
		stride := ""
		if list, _ := o.get("stride"); list != nil {
			if n, ok := jsonShape(list); ok {
				stride = fmt.Sprint(n)
			}
		}
		l.at[path] = Memory{Address: address.String(), Version: countOf(version), Name: o.text("name"), Stride: stride}
	}
	at, _ := o.get("tensor")
	for _, p := range o.list("placements") {
		if text, ok := p.(string); ok && text != "Replicate()" {
			l.placed = text
		}
	}
	if l.count {
		if n, ok := jsonInt(at); ok && l.used != nil {
			if blob, saved := l.run.blobs[int(n)]; saved {
				l.used[blob] = true
			}
		}
		return nil, nil
	}
	v, err := l.elements(o, at)
	if t, ok := v.(*tensor.Tensor); ok && l.unseen != nil && !seen {
		l.unseen[t] = true
	}
	return v, err
}

// elements makes a tensor of the elements that were written as number at.
func (l *hookLoader) elements(o *object, at any) (value.Value, error) {
	ptr, _ := o.get("ptr")
	address, addressed := ptr.(json.Number)
	n, ok := jsonInt(at)
	blob, saved := l.run.blobs[int(n)]
	if l.used != nil && ok && saved {
		l.used[blob] = true
	}
	dt, known := tensor.ParseDType(o.text("dtype"))
	shapeOf, _ := o.get("shape")
	shape, hasShape := jsonShape(shapeOf)
	switch {
	case !ok || !hasShape:
		return nil, errors.New("calls.jsonl: a tensor without number or shape")
	case !known:
		return &value.Opaque{Global: "torch.Tensor", Reason: "tensor of " + o.text("dtype")}, nil
	}
	if !saved {
		return nil, fmt.Errorf("tensor %d was not saved: its values are missing in the recording", n)
	}
	stride := tensor.Contiguous(shape)
	if stored, ok := o.get("stored"); ok {
		if stride, ok = jsonShape(stored); !ok {
			return nil, errors.New("calls.jsonl: stored is not a list of strides")
		}
	}
	where := memoryOf{address.String(), blob}
	s := l.memory[where]
	if s == nil || !addressed {
		var err error
		if s, err = l.storage(blob); err != nil {
			return nil, err
		}
		l.memory[where] = s
	}
	t, err := tensor.NewView(s, tensor.View{DType: dt, Shape: shape, Stride: stride})
	if err != nil {
		return nil, fmt.Errorf("tensor %d: %w", n, err)
	}
	t.Device = o.text("device")
	grad, _ := o.get("requires_grad")
	t.RequiresGrad, _ = grad.(bool)
	_, named := o.get("name")
	t.Parameter = named && t.RequiresGrad
	if named && l.names != nil {
		l.names[t] = o.text("name")
	}
	if placed, _ := o.get("placements"); placed != nil && l.terms != nil {
		terms, _ := o.get("terms")
		l.terms[t], _ = jsonShape(terms)
		l.means[t] = len(l.terms[t]) > 0 && strings.Contains(fmt.Sprint(placed), "avg")
		for _, p := range o.list("placements") {
			if p == "Replicate()" {
				l.copies[t]++
			}
		}
	}
	return t, nil
}

// storage is the bytes of a blob. The file is checked now, read on first use.
func (l *hookLoader) storage(b hookBlob) (*tensor.Storage, error) {
	f, err := l.file(b.file)
	if err != nil {
		return nil, err
	}
	if b.begin > f.size || b.bytes > f.size-b.begin || b.bytes > math.MaxInt {
		return nil, &FileError{Path: f.name,
			Err: fmt.Errorf("%d bytes from %d reach past its end at %d", b.bytes, b.begin, f.size)}
	}
	s := tensor.OpenStorage(b.bytes, func() ([]byte, error) {
		data := make([]byte, b.bytes)
		if _, err := f.ReadAt(data, b.begin); err != nil {
			return nil, &FileError{Path: f.name, Err: err}
		}
		return data, nil
	})
	s.Key = fmt.Sprintf("%d/%d", b.file, b.begin)
	return s, nil
}

func (l *hookLoader) file(n int) (*hookFile, error) {
	if f, ok := l.open[n]; ok {
		return f, nil
	}
	l.run.mu.Lock()
	defer l.run.mu.Unlock()
	f := l.run.files[n]
	if f == nil {
		path := l.run.tensors(n)
		opened, size, err := files.Open(path)
		if err != nil {
			return nil, &FileError{Path: filepath.Base(path), Err: err}
		}
		f = &hookFile{File: opened, name: filepath.Base(path), size: size}
		l.run.files[n] = f
	}
	f.readers++
	l.open[n] = f
	return f, nil
}
