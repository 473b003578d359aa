package capture

import (
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/optool/optool/internal/files"
)

// callFile is what the hook writes beside op_tools' files when it exports a call: what it knows of the call and what
// op_tools has no place for, such as the call inside of which it was made. It has the keys of the call's event.
const callFile = "call.json"

// readCallFile takes over what the hook exported beside the files. A file that cannot be used says nothing.
func (e *Entry) readCallFile() {
	f, _, err := files.Open(filepath.Join(e.Dir, callFile))
	if err != nil {
		return
	}
	defer f.Close()
	var said hookEvent
	if json.NewDecoder(io.LimitReader(f, sidecarLimit)).Decode(&said) != nil {
		return
	}
	e.Module, e.Location, e.Torch = once(said.Module), once(said.Location), once(said.Torch)
	e.Params, e.Wrapped, e.Group, e.GroupName = said.Params, said.Wrapped, said.Group, said.GroupOf
	e.Replaced, e.ReplacedAt = once(said.Replaced), once(said.ReplacedAt)
	if e.Autocast = said.Autocast; e.Autocast == nil {
		e.Autocast = noAutocast
	}
	if said.Step != nil {
		e.Step = *said.Step
	}
	if said.Within != nil {
		e.Within = *said.Within
	}
}
