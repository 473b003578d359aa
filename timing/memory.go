package timing

import (
	"context"

	"github.com/optool/optool/internal/rss"
)

// A Memory is what a run needs beside its arguments, in bytes.
type Memory struct {
	Peak     int64 // at once
	Kept     int64 // of them, what is held by results when the run is done; 0 where nothing is stored
	Requests int   // how often memory was asked for; 0 where that is not counted
}

// A MemoryRunner is a Runner that can say what memory its runs need.
type MemoryRunner interface {
	Runner
	// Memory may run once, outside of what is timed. Nil: it is not known here.
	Memory(ctx context.Context) (*Memory, error)
}

// certain is how much a process must grow to be certain that a run made it grow.
const certain = 4 << 20

// Memory implements MemoryRunner: by how much the process grew at most during a run, not
// known below 4 MiB.
func (h *HostFunc) Memory(context.Context) (*Memory, error) {
	if h.Restore != nil {
		if err := h.Restore(); err != nil {
			return nil, err
		}
	}
	var err error
	grown, ok := rss.Growth(func() { err = h.Run() })
	if err != nil || !ok || grown < certain {
		return nil, err
	}
	return &Memory{Peak: grown}, nil
}
