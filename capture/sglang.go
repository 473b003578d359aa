package capture

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor/value"
)

// sglang is the dumper of SGLang and Miles: a file for each value at a point of a
// model, whose name is made of tags, step=0___rank=0___dump_index=3___name=x.pt.
// The file is a dict of value and meta.
//
// Source: sgl-project/sglang, python/sglang/srt/debug_utils/dumper.py.
var sglang = producer{
	begins: func(name string) bool {
		return strings.HasSuffix(name, ".pt") && strings.Contains(name, "___name=")
	},
	open: openSGLang,
}

// A sglangValue is the file of a value.
type sglangValue struct{ path, name string }

func openSGLang(dir, base string) (iter.Seq2[*Entry, error], bool) {
	e := newForeign(SGLang, base, nil)
	e.notRun = verdict.ValueOnly
	e.nameDumped(base)
	e.rec = sglangValue{filepath.Join(dir, base), e.Op}
	e.Files.add(Output)
	return single(e), true
}

// Dumped is what the name of a file says of the value of SGLang's dumper in it: step,
// rank, place, name, and as Call the name with the tags that tell it from others; nil if
// the file is none.
func Dumped(name string) *Entry {
	base := filepath.Base(name)
	if !sglang.begins(base) {
		return nil
	}
	e := newForeign(SGLang, base, nil)
	e.nameDumped(base)
	return e
}

// nameDumped reads the tags of a name.
func (e *Entry) nameDumped(base string) {
	var call []string
	for tag := range strings.SplitSeq(strings.TrimSuffix(base, ".pt"), "___") {
		key, v, _ := strings.Cut(tag, "=")
		switch key {
		case "step":
			e.Step = numberOr(v)
		case "rank":
			e.Rank = numberOr(v)
		case "dump_index":
			e.Order = numberOr(v) - 1
		case "name":
			e.Op = v
			call = append(call, v)
		case "recompute_status":
			if v != "disabled" {
				call = append(call, tag)
			}
		case "pp_rank", "tp_rank", "cp_rank", "ep_rank", "dp_rank", "moe_ep_rank", "moe_tp_rank", "attn_tp_rank",
			"attn_dp_rank": // what the rank already says
		default:
			call = append(call, tag)
		}
	}
	e.Call = strings.Join(call, " ")
}

func single(e *Entry) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) { yield(e, nil) }
}

// parts implements recording.
func (s sglangValue) parts() []files.Part { return files.Wholes(s.path) }

// describe implements recording.
func (s sglangValue) describe() (description, error) { return s, nil }

// record implements description.
func (s sglangValue) record(_ Kind, mode pthformat.ReadMode) (*Record, []io.Closer, error) {
	f, err := pthformat.Open(s.path, pthformat.Options{Read: mode})
	if err != nil {
		return nil, nil, err
	}
	d, ok := f.Root.(*value.Dict)
	if ok {
		if v, ok := d.Get("value"); ok {
			return &Record{Name: s.name, Args: []value.Value{v}, Kwargs: &value.Dict{}}, []io.Closer{f}, nil
		}
	}
	f.Close()
	return nil, nil, fmt.Errorf("%w: not a dict with the key value", ErrNotCapture)
}

// passes are the files that vLLM and SGLang write for each forward pass of a model,
// TP<r>_PP<r>_Rank<r>_pid<p>/Pass<N>.pt: a dict of module names and results.
//
// Source: sgl-project/sglang, tensor_dump_forward_hook.py; vllm-project/vllm#52558.
var passes = producer{
	begins: func(name string) bool { return passName().MatchString(name) },
	open:   openPass,
}

var (
	passName    = lazyregexp.New(`^Pass(\d{1,9})\.pt$`)
	passProcess = lazyregexp.New(`^TP\d+_PP\d+_Rank(\d{1,9})_pid(\d{1,9})$`)
)

// A passValue is a module's result in the file of a pass.
type passValue struct{ path, key string }

func openPass(dir, base string) (iter.Seq2[*Entry, error], bool) {
	path := filepath.Join(dir, base)
	return func(yield func(*Entry, error) bool) {
		f, err := pthformat.Open(path, pthformat.Options{Read: pthformat.Plain})
		if err != nil {
			yield(nil, &FileError{Path: path, Err: err})
			return
		}
		defer f.Close()
		d, ok := f.Root.(*value.Dict)
		if !ok {
			yield(nil, &FileError{Path: path, Err: errors.New("not a dict of module names and results")})
			return
		}
		abs, _ := files.Abs(dir)
		process := passProcess().FindStringSubmatch(filepath.Base(abs))
		for i, it := range d.Items {
			key, ok := it.Key.(string)
			if !ok {
				continue
			}
			e := newForeign(Pass, base+"/"+key, passValue{path, key})
			e.Op, e.Call, e.Order, e.notRun, e.Module = key, key, i, verdict.ValueOnly, key
			e.Step = numberOr(passName().FindStringSubmatch(base)[1])
			if process != nil {
				e.Rank, e.PID = numberOr(process[1]), numberOr(process[2])
			}
			e.Files.add(Output)
			if !yield(e, nil) {
				return
			}
		}
	}, true
}

// parts implements recording.
func (p passValue) parts() []files.Part { return files.Wholes(p.path) }

// describe implements recording.
func (p passValue) describe() (description, error) { return p, nil }

// record implements description.
func (p passValue) record(_ Kind, mode pthformat.ReadMode) (*Record, []io.Closer, error) {
	f, err := pthformat.Open(p.path, pthformat.Options{Read: mode})
	if err != nil {
		return nil, nil, err
	}
	if d, ok := f.Root.(*value.Dict); ok {
		if v, ok := d.Get(p.key); ok {
			return &Record{Name: p.key, Args: []value.Value{v}, Kwargs: &value.Dict{}}, []io.Closer{f}, nil
		}
	}
	f.Close()
	return nil, nil, fmt.Errorf("key %q is missing", p.key)
}
