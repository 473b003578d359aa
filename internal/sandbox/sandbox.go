// Package sandbox runs files of Starlark, a small dialect of Python, that are
// data: no input and output, and bounds on steps, time and memory. See
// https://github.com/bazelbuild/starlark/blob/master/spec.md.
package sandbox

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"runtime/metrics"
	"time"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// dialect is Starlark as close to Python as it gets. Functions do not recurse,
// which could take more stack than there is.
var dialect = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true}

// Limits of a run. No step of it makes a list, a text or a number of more than about a
// million parts, so that Steps bound the memory too. Without Time nothing else is bounded.
type Limits struct {
	Steps uint64
	Time  time.Duration
	Heap  uint64 // bytes of memory in use beyond those at the beginning
}

// Parse reads the file at path, whose text is src. A NUL byte, at which Starlark's own parser ends without a word, is
// a mistake there.
func Parse(path string, src []byte) (*syntax.File, error) {
	if at := bytes.IndexByte(src, 0); at >= 0 {
		line := 1 + bytes.Count(src[:at], []byte("\n"))
		col := 1 + utf8.RuneCount(src[bytes.LastIndexByte(src[:at], '\n')+1:at])
		return nil, syntax.Error{Pos: syntax.MakePosition(&path, int32(line), int32(col)), Msg: "unexpected NUL byte"}
	}
	return dialect.Parse(path, src, 0)
}

// Exec runs the file f read from path, which it changes, and returns the globals it
// assigns.
func (l Limits) Exec(path string, f *syntax.File, predeclared starlark.StringDict) (starlark.StringDict, error) {
	if err := boundedSteps(f); err != nil {
		return nil, err
	}
	predeclared = maps.Clone(predeclared)
	maps.Copy(predeclared, boundedFunctions())
	program, err := starlark.FileProgram(f, predeclared.Has)
	if err != nil {
		return nil, err
	}
	if l.Time == 0 {
		return program.Init(Thread(path, l.Steps), predeclared)
	}
	return l.watched(Thread(path, l.Steps), program, predeclared)
}

// Thread is one that runs functions of the file at path and takes so many steps at most.
func Thread(path string, steps uint64) *starlark.Thread {
	th := &starlark.Thread{Name: path, Print: func(*starlark.Thread, string) {}}
	th.SetMaxExecutionSteps(steps)
	return th
}

// watched runs a program and gives up on it at the limits of time and memory.
func (l Limits) watched(
	thread *starlark.Thread, program *starlark.Program, predeclared starlark.StringDict,
) (starlark.StringDict, error) {
	type result struct {
		globals starlark.StringDict
		err     error
	}
	done := make(chan result, 1)
	go func() {
		globals, err := program.Init(thread, predeclared)
		done <- result{globals, err}
	}()
	late, tick := time.After(l.Time), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for before := heap(); ; {
		select {
		case r := <-done:
			return r.globals, r.err
		case <-late:
			thread.Cancel("too long")
			return nil, fmt.Errorf("evaluation takes more than %v", l.Time)
		case <-tick.C:
			if heap() <= before+l.Heap {
				continue
			}
			if runtime.GC(); live() <= before+l.Heap { // the rest was garbage, perhaps of others
				continue
			}
			thread.Cancel("too much memory")
			select { // its last step still takes memory, which is not to be the next program's
			case <-done:
			case <-late:
			}
			return nil, fmt.Errorf("evaluation takes more than %d MiB of memory", l.Heap>>20)
		}
	}
}

// live is the number of bytes that the last collection found in use.
func live() uint64 {
	m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(m)
	return m[0].Value.Uint64()
}

// heap is the number of bytes in use, with garbage that is not collected yet.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
