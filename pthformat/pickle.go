package pthformat

import (
	"github.com/optool/optool/tensor/value"
)

// ReadPickle reads one pickle that stands by itself (protocols 0 to 5, what
// pickle.dump writes) with the checks of Open: it is walked before anything
// runs and no class outside the closed list is made. Bytes after the pickle
// are an error. Numpy arrays become tensors whose Device is "numpy".
//
// The error is a *FormatError if the content is at fault.
func ReadPickle(b []byte, lim Limits) (value.Value, error) {
	f := &File{Size: int64(len(b)), lim: lim.withDefaults(int64(len(b)))}
	p, v, err := f.decode(b, &unpickler{})
	if err != nil {
		return nil, err
	}
	if p.length != len(b) {
		return nil, malformed("%d bytes follow the pickle", len(b)-p.length).at(int64(p.length))
	}
	return v, nil
}
