package devicebridge

import (
	"bytes"
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

// Of what the worker is built. It holds the digest of its sources: one that was built of
// others may have other messages, take its times otherwise, or number the operators
// otherwise.
//
//go:embed native/worker native/runtime native/include
var sources embed.FS

// Header is the text of DIOPI's C interface, diopi.h, for programs that call a library.
func Header() []byte {
	b, err := fs.ReadFile(sources, "native/include/diopi.h")
	if err != nil {
		panic("devicebridge: diopi.h: " + err.Error()) // embedded
	}
	return b
}

// digestOf is the SHA-256, in hexadecimal, of all the files in order of their paths, as
// native/Makefile computes it.
func digestOf(sources fs.FS) (string, error) {
	h := sha256.New()
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(sources, path)
		h.Write(b)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// sameSources says that the worker was built of other sources than those beside this package.
func sameSources() error {
	digest, err := digestOf(sources)
	if err != nil {
		return err
	}
	worker, err := built("worker")
	if err == nil && !bytes.Contains(worker, []byte("optool worker of "+digest)) {
		err = errors.New("the worker was built of other sources than this optool: run make")
	}
	return err
}

// ErrNoDevices is returned by Open in a build without the C++ side.
var ErrNoDevices = errors.New("this optool was built without devices: optool device --build-worker builds " +
	"what they need, on Linux with g++")

// hostLibrary is the file of the built-in device.
const hostLibrary = "libdiopi_host.so"

// Digest is the SHA-256, in hexadecimal, of a device library's file, or of the
// built-in device for [Host].
func Digest(library string) (string, error) {
	h := sha256.New()
	if library == Host {
		b, err := built(hostLibrary)
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

// built returns a file of native/dist or, where that has none, what Build left.
func built(name string) ([]byte, error) {
	b, err := fs.ReadFile(programs, "native/dist/"+name)
	if errors.Is(err, fs.ErrNotExist) {
		if b, err := fromCache(name); err == nil {
			return b, nil
		}
		return nil, fmt.Errorf("%w (%s is missing)", ErrNoDevices, name)
	}
	return b, err
}

// Built reports whether this build has the C++ side.
func Built() bool {
	_, err := built("worker")
	return err == nil
}

// programs is dist; tests put another build of the same files in its place.
var programs fs.FS = dist
