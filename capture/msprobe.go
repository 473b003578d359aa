package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// msprobe writes a dump.json of calls in order, with statistics of each tensor and
// the names of files that hold their elements; see FORMAT.md.
//
// Source: mindstudio-probe 26.2, its dumps.
var msprobe = producer{
	begins: func(name string) bool { return name == "dump.json" },
	open:   openMSProbe,
	hidden: []string{"dump_tensor_data"},
}

// A msprobeDump is a dump.json with the files beside it.
type msprobeDump struct {
	dir, file string
	framework string
	calls     []*msprobeCall // in order of appearance
	locations map[string]string
	parents   map[string]string
}

// A msprobeCall says where a call's parts are in the dump.
type msprobeCall struct {
	dump           *msprobeDump
	prefix         string // "Functional.silu", "Module.blocks.0.mlp.MLP"
	count          string // of calls of that name, from 0
	order          int    // of the first of its parts
	backwardOrder  int
	forward, grads span // of its values in dump.json
	parameterGrads span
}

// msprobeLimit bounds a dump.json, in bytes; it is read whole to find its calls.
const msprobeLimit = 4 << 30

func openMSProbe(dir, name string) (iter.Seq2[*Entry, error], bool) {
	path := filepath.Join(dir, name)
	if !looksLikeMSProbe(path) {
		return nil, false
	}
	return func(yield func(*Entry, error) bool) {
		d := &msprobeDump{dir: dir, file: path}
		err := d.read()
		for _, c := range d.calls {
			if !yield(d.entry(c), nil) {
				return
			}
		}
		if err != nil {
			yield(nil, &FileError{Path: path, Err: err})
		}
	}, true
}

// looksLikeMSProbe reports whether the first keys of a file are those of a dump.
func looksLikeMSProbe(path string) bool {
	b := head(path)
	return bytes.Contains(b, []byte(`"task"`)) && bytes.Contains(b, []byte(`"level"`)) &&
		bytes.HasPrefix(bytes.TrimLeft(b, " \r\n\t"), []byte("{"))
}

// read finds the calls of the dump; after an error those before it.
func (d *msprobeDump) read() error {
	b, err := readSmall(d.file, msprobeLimit)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(plainJSON(b)))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	hasData := false
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return jsonError(err)
		}
		switch key {
		case "data":
			hasData = true
			err = d.readCalls(dec)
		case "framework":
			err = jsonError(dec.Decode(&d.framework))
		default:
			var skipped json.RawMessage
			err = jsonError(dec.Decode(&skipped))
		}
		if err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return jsonError(err)
	}
	if !hasData {
		return errors.New("key data missing")
	}
	d.locations, d.parents = readStack(filepath.Join(d.dir, "stack.json")), readConstruct(filepath.Join(d.dir,
		"construct.json"))
	return nil
}

func (d *msprobeDump) readCalls(dec *json.Decoder) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("data is not a JSON object")
	}
	byName := map[string]*msprobeCall{}
	for order := 0; dec.More(); order++ {
		t, err := dec.Token()
		if err != nil {
			return jsonError(err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return fmt.Errorf("data: %q: %w", t, jsonError(err))
		}
		key, _ := t.(string)
		prefix, count, part, ok := msprobeKey(key)
		if !ok {
			continue // of another kind of dump
		}
		c := byName[prefix+"."+count]
		if c == nil {
			c = &msprobeCall{dump: d, prefix: prefix, count: count, order: order, backwardOrder: -1}
			byName[c.name()] = c
			d.calls = append(d.calls, c)
		}
		end := dec.InputOffset()
		s := span{end - int64(len(raw)), end}
		switch part {
		case "forward":
			c.forward = s
		case "backward":
			c.grads, c.backwardOrder = s, order
		default:
			c.parameterGrads = s
		}
	}
	_, err := dec.Token()
	return jsonError(err)
}

// msprobeKey splits a key of data: calls of ops are called NAME.NUMBER.PART, those
// of modules Module.PATH.CLASS.PART.NUMBER.
func msprobeKey(key string) (prefix, count, part string, ok bool) {
	p := strings.Split(key, ".")
	n := len(p)
	if n < 4 {
		return "", "", "", false
	}
	count, part = p[n-2], p[n-1]
	if strings.HasPrefix(key, "Module.") || strings.HasPrefix(key, "Cell.") {
		count, part = part, count
	}
	if _, isNumber := number(count); !isNumber {
		return "", "", "", false
	}
	switch part {
	case "forward", "backward", "parameters_grad":
		return strings.Join(p[:n-2], "."), count, part, true
	}
	return "", "", "", false
}

func (c *msprobeCall) name() string { return c.prefix + "." + c.count }

// isModule reports whether the call is one of a module, not of an operator.
func (c *msprobeCall) isModule() bool {
	return strings.HasPrefix(c.prefix, "Module.") || strings.HasPrefix(c.prefix, "Cell.")
}

// msprobePackages are the packages of the ops that a name begins with.
var msprobePackages = map[string]string{
	"Functional": "torch.nn.functional", "Torch": "torch", "Tensor": "torch.Tensor", "NPU": "torch_npu",
	"Aten": "torch.ops.aten", "VF": "torch._VF", "Distributed": "torch.distributed", "MindSpeed": "mindspeed.ops",
	"Mint": "mindspore.mint", "MintFunctional": "mindspore.mint.nn.functional", "Primitive": "mindspore.ops",
	"Jit": "mindspore.jit", "MintDistributed": "mindspore.mint.distributed",
}

// op is the name of the operator. That of a module is its class.
func (c *msprobeCall) op() string {
	if c.isModule() {
		return "Module." + c.prefix[strings.LastIndexByte(c.prefix, '.')+1:]
	}
	first, rest, _ := strings.Cut(c.prefix, ".")
	if c.dump.framework == "mindspore" {
		switch first {
		case "Functional":
			return "mindspore.ops." + rest
		case "Tensor":
			return "mindspore.Tensor." + rest
		}
	}
	if pkg, ok := msprobePackages[first]; ok {
		return pkg + "." + rest
	}
	return c.prefix
}

// modulePath is the path of the module in a key: "blocks.0.mlp" of
// "Module.blocks.0.mlp.MLP.forward.0".
func modulePath(key string) string {
	prefix, _, _, ok := msprobeKey(key)
	if !ok {
		return ""
	}
	p := strings.Split(prefix, ".")
	return strings.Join(p[1:max(len(p)-1, 1)], ".")
}

func (d *msprobeDump) entry(c *msprobeCall) *Entry {
	e := newForeign(MSProbe, c.name(), c)
	e.Op, e.ID, e.Order, e.BackwardOrder = c.op(), c.order, c.order, c.backwardOrder
	e.Step, e.Rank, e.PID = msprobeProcess(d.dir)
	forward := c.name() + ".forward"
	if c.isModule() {
		forward = c.prefix + ".forward." + c.count
		e.Module, e.notRun = modulePath(forward), verdict.ModuleCall
	} else {
		e.Module = modulePath(d.parents[forward])
	}
	e.Location = d.locations[forward]
	if c.forward != (span{}) {
		e.Files.add(Input)
		e.Files.add(Output)
	}
	if c.grads != (span{}) || c.parameterGrads != (span{}) {
		e.Files.add(GradInputs)
		e.Files.add(GradOutputs)
	}
	return e
}

// msprobeProcess reads step and process from the path of a dump:
// .../step3/rank0, .../step3/proc4711. Numbers are -1 where it does not say.
func msprobeProcess(dir string) (step, rank, pid int) {
	step, rank, pid = -1, -1, -1
	if abs, err := files.Abs(dir); err == nil {
		dir = abs
	}
	p := strings.Split(filepath.ToSlash(dir), "/")
	for _, part := range p[max(0, len(p)-3):] {
		for prefix, to := range map[string]*int{"step": &step, "rank": &rank, "proc": &pid} {
			if n, ok := number(strings.TrimPrefix(part, prefix)); ok && strings.HasPrefix(part, prefix) {
				*to = n
			}
		}
	}
	return step, rank, pid
}

// besideLimit bounds stack.json and construct.json, which only name places.
const besideLimit = 1 << 30

// readConstruct maps the calls of construct.json to the modules they are made in.
func readConstruct(path string) map[string]string {
	parents := map[string]string{}
	b, err := readSmall(path, besideLimit)
	if err != nil {
		return parents
	}
	var doc map[string]*string
	if json.Unmarshal(b, &doc) != nil {
		return parents
	}
	for key, parent := range doc {
		if parent != nil {
			parents[key] = *parent
		}
	}
	return parents
}

// readStack maps the calls of stack.json to the first line outside of torch that
// led to them.
func readStack(path string) map[string]string {
	locations := map[string]string{}
	b, err := readSmall(path, besideLimit)
	if err != nil {
		return locations
	}
	var doc map[string][][]string
	if json.Unmarshal(b, &doc) != nil {
		return locations
	}
	for _, group := range doc {
		if len(group) != 2 {
			continue
		}
		where := ""
		for _, frame := range group[1] {
			file, line, ok := parseFrame(frame)
			if ok && !strings.Contains(file, "/torch/") && !strings.Contains(file, "/msprobe/") {
				where = file + ":" + line
				break
			}
		}
		for _, key := range group[0] {
			locations[key] = where
		}
	}
	return locations
}

// parseFrame reads "File F, line N, in fn, ...".
func parseFrame(s string) (file, line string, ok bool) {
	rest, ok := strings.CutPrefix(s, "File ")
	if !ok {
		return "", "", false
	}
	file, rest, ok = strings.Cut(rest, ", line ")
	line, _, _ = strings.Cut(rest, ",")
	_, isNumber := number(line)
	return strings.Trim(file, `"`), line, ok && isNumber
}

// parts implements recording.
func (c *msprobeCall) parts() []files.Part {
	var paths []string
	var find func(v any)
	find = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				find(item)
			}
		case *object:
			if name := v.text("data_name"); name != "" && name == filepath.Base(name) {
				paths = append(paths, filepath.Join(c.dump.dir, "dump_tensor_data", name))
			}
			for _, item := range v.values {
				find(item)
			}
		}
	}
	said, err := c.read()
	if err != nil {
		return nil
	}
	for s := range said.text {
		if o, err := said.at(s); err == nil {
			find(o)
		}
	}
	slices.Sort(paths)
	return files.Wholes(slices.Compact(paths)...)
}

// read reads the parts of the dump that are about the call.
func (c *msprobeCall) read() (*objects, error) {
	return readObjects(c.dump.file, c.forward, c.grads, c.parameterGrads)
}

// describe implements recording.
func (c *msprobeCall) describe() (description, error) {
	said, err := c.read()
	return msprobeDescription{c, said}, err
}

// A msprobeDescription is what a dump says about a call.
type msprobeDescription struct {
	*msprobeCall
	said *objects
}

// record implements description.
func (c msprobeDescription) record(k Kind, mode pthformat.ReadMode) (*Record, []io.Closer, error) {
	l := msprobeLoader{dump: c.dump, mode: mode}
	r := &Record{Name: c.op(), Kwargs: &value.Dict{}, Identifier: ""}
	err := c.fill(&l, r, k)
	if err != nil {
		for _, f := range l.open {
			f.Close()
		}
		return nil, nil, err
	}
	r.Unknown = l.unknown
	return r, l.open, nil
}

func (c msprobeDescription) fill(l *msprobeLoader, r *Record, k Kind) error {
	part := c.forward
	if k == GradInputs || k == GradOutputs {
		part = c.grads
	}
	o, err := c.said.at(part)
	if err != nil {
		return err
	}
	switch k {
	case Input:
		if r.Args, err = l.values(o.list("input_args")); err != nil {
			return err
		}
		for _, key := range []string{"input_kwargs", "parameters"} {
			v, _ := o.get(key)
			kwargs, ok := v.(*object)
			if !ok {
				continue
			}
			if err := l.items(r.Kwargs, kwargs); err != nil {
				return err
			}
		}
	case Output:
		var result []value.Value
		if result, err = l.values(o.list("output")); err != nil {
			return err
		}
		r.Args = []value.Value{value.NewTuple(result...)}
		if len(result) == 1 {
			r.Args = result
		}
	case GradOutputs:
		r.Args, err = l.values(o.list("input"))
	case GradInputs:
		if r.Args, err = l.values(o.list("output")); err != nil {
			return err
		}
		if o, err = c.said.at(c.parameterGrads); err != nil {
			return err
		}
		for _, v := range o.values { // a list for each parameter
			list, _ := v.([]any)
			grads, err := l.values(list)
			if err != nil {
				return err
			}
			r.Args = append(r.Args, grads...)
		}
	}
	return err
}

// A msprobeLoader makes values of what a dump says.
type msprobeLoader struct {
	dump    *msprobeDump
	mode    pthformat.ReadMode
	open    []io.Closer
	unknown bool // something was recorded as None that may be another value
}

func (l *msprobeLoader) values(list []any) ([]value.Value, error) {
	out := make([]value.Value, len(list))
	for i, v := range list {
		var err error
		if out[i], err = l.value(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (l *msprobeLoader) items(to *value.Dict, o *object) error {
	for i, key := range o.keys {
		v, err := l.value(o.values[i])
		if err != nil {
			return err
		}
		to.Items = append(to.Items, value.Item{Key: key, Value: v})
	}
	return nil
}

func (l *msprobeLoader) value(v any) (value.Value, error) {
	switch v := v.(type) {
	case nil:
		l.unknown = true
		return nil, nil
	case []any:
		items, err := l.values(v)
		return value.NewList(items...), err
	case *object:
		return l.object(v)
	}
	return nil, fmt.Errorf("dump.json: a bare %T where a described value should be", v)
}

func (l *msprobeLoader) object(o *object) (value.Value, error) {
	if len(o.keys) == 0 {
		return &value.Opaque{Global: "object",
			Reason: "msprobe does not record this value (a dtype or device given by position, or an object)"}, nil
	}
	kind, ok := o.get("type")
	name, isText := kind.(string)
	if !ok || !isText {
		d := &value.Dict{}
		return d, l.items(d, o)
	}
	if _, isTensor := o.get("dtype"); isTensor {
		return l.tensor(name, o)
	}
	if v := plainValue(name[strings.LastIndexByte(name, '.')+1:], o); v != nil {
		return v, nil
	}
	return &value.Opaque{Global: name, Reason: "value of " + name}, nil
}

// plainValue is a value that is described by its type, without module, and its text; nil if it does not read.
func plainValue(kind string, o *object) value.Value {
	v, _ := o.get("value")
	text, _ := v.(string)
	switch kind {
	case "bool":
		if b, ok := v.(bool); ok {
			return b
		}
	case "str":
		if s, ok := v.(string); ok {
			return s
		}
	case "slice":
		return sliceOf(v)
	case "ellipsis":
		return value.Ellipsis{}
	case "Size":
		return sizeOf(v)
	case "dtype":
		if dt, ok := tensor.ParseDType(text); ok {
			return dt
		}
	case "device":
		return deviceOf(text)
	case "memory_format":
		return value.MemoryFormat("torch." + strings.TrimPrefix(o.text("format"), "torch."))
	case "complex":
	default: // int, float and numpy's types
		return numberAs(v, strings.Contains(kind, "float"))
	}
	return nil
}

func sliceOf(v any) value.Value {
	p, ok := v.([]any)
	if !ok || len(p) != 3 {
		return nil
	}
	part := func(x any) value.Value {
		if i, ok := jsonInt(x); ok {
			return i
		}
		return nil
	}
	return value.Slice{Start: part(p[0]), Stop: part(p[1]), Step: part(p[2])}
}

func sizeOf(v any) value.Value {
	shape, ok := jsonShape(v)
	if !ok {
		return nil
	}
	s := &value.Sequence{Kind: value.Tuple, Class: "torch.Size"}
	for _, d := range shape {
		s.Items = append(s.Items, int64(d))
	}
	return s
}

func deviceOf(text string) value.Value {
	kind, index, _ := strings.Cut(text, ":")
	i, err := strconv.Atoi(index)
	if err != nil {
		i = -1 // "cpu:None"
	}
	if kind == "" {
		return nil
	}
	return value.Device{Type: kind, Index: i}
}

// numberAs is a number of JSON, a whole one unless it is to be floating. Texts are nan and inf.
func numberAs(v any, floating bool) value.Value {
	switch number := v.(type) {
	case json.Number:
		if i, ok := jsonInt(number); ok && !floating {
			return i
		}
		f, _ := jsonFloat(number)
		return f
	case string:
		if f, ok := jsonFloat(number); ok && floating {
			return f
		}
	}
	return nil
}

// tensor reads a tensor's elements, or makes one of its statistics.
func (l *msprobeLoader) tensor(class string, o *object) (value.Value, error) {
	dt, ok := tensor.ParseDType(strings.ToLower(o.text("dtype")))
	if !ok {
		return &value.Opaque{Global: class, Reason: "dtype " + o.text("dtype")}, nil
	}
	s, _ := o.get("shape")
	shape, ok := jsonShape(s)
	if !ok {
		return nil, fmt.Errorf("dump.json: a tensor without shape")
	}
	grad, _ := o.get("requires_grad")
	requires, _ := grad.(bool)
	name := o.text("data_name")
	if name == "" {
		t, err := tensor.Summarised(dt, shape, summaryOf(o))
		if err != nil {
			return nil, fmt.Errorf("dump.json: %w", err)
		}
		t.RequiresGrad, t.Device = requires, "cpu"
		return t, nil
	}
	if name != filepath.Base(name) || name == ".." {
		return nil, fmt.Errorf("dump.json: data_name %q is not the name of a file beside it", name)
	}
	f, err := pthformat.Open(filepath.Join(l.dump.dir, "dump_tensor_data", name), pthformat.Options{Read: l.mode})
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, reason(err))
	}
	l.open = append(l.open, f)
	t, ok := f.Root.(*tensor.Tensor)
	if !ok {
		return f.Root, nil
	}
	if t.Meta() != (&tensor.Tensor{DType: dt, Shape: shape}).Meta() && l.dump.framework != "mindspore" {
		return nil, fmt.Errorf("%s holds %s, dump.json says %s%s", name, t.Meta(), dt, tensor.ShapeString(shape))
	}
	t.RequiresGrad = requires
	if class != "torch.Tensor" && class != "torch.nn.parameter.Parameter" && class != "mindspore.Tensor" &&
		class != "numpy.ndarray" {
		return &value.Opaque{Global: class, Parts: []value.Part{{Name: "(0)", Value: t}},
			Reason: class + ", recorded in part"}, nil
	}
	return t, nil
}

// summaryOf reads the statistics of a tensor.
func summaryOf(o *object) tensor.Summary {
	number := func(key string) *float64 {
		v, _ := o.get(key)
		if f, ok := jsonFloat(v); ok {
			return &f
		}
		return nil
	}
	return tensor.Summary{Max: number("Max"), Min: number("Min"), Mean: number("Mean"), Norm: number("Norm"),
		Checksum: o.text("md5")}
}
