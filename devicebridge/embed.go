package devicebridge

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

// What make built: the worker and the built-in device; only the README without a
// C++ compiler.
//
//go:embed all:native/dist
var dist embed.FS

// ErrNoDevices is returned by Open in a build without the C++ side.
var ErrNoDevices = errors.New("this optool was built without devices: build it with make on a machine with g++")

// built returns a file of native/dist.
func built(name string) ([]byte, error) {
	b, err := fs.ReadFile(programs, "native/dist/"+name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (%s is missing)", ErrNoDevices, name)
	}
	return b, err
}

// programs is dist; tests put another build of the same files in its place.
var programs fs.FS = dist
