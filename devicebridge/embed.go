package devicebridge

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// What make built: the worker and the built-in device; only the README without a
// C++ compiler.
//
//go:embed all:native/dist
var dist embed.FS

// ErrNoDevices is returned by Open in a build without the C++ side.
var ErrNoDevices = errors.New("this optool was built without devices: build it with make on a machine with g++")

// Digest is the SHA-256, in hexadecimal, of a device library's file, or of the
// built-in device for [Host].
func Digest(library string) (string, error) {
	h := sha256.New()
	if library == Host {
		b, err := built("libdiopi_host.so")
		if err != nil {
			return "", err
		}
		h.Write(b)
		return hex.EncodeToString(h.Sum(nil)), nil
	}
	f, err := os.Open(library)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

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
