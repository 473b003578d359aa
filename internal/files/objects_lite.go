//go:build lite

package files

import (
	"fmt"
	"io/fs"
)

// Cancel ends all requests to object stores: there are none.
func Cancel() {}

func (p place) absent() error {
	return fmt.Errorf("%s: this optool reads no object stores: it was built with -tags lite", p)
}

func listObjects(dir place) ([]fs.FileInfo, error) { return nil, dir.absent() }

func statObject(p place) (fs.FileInfo, error) { return nil, p.absent() }

func openObject(p place) (File, int64, error) { return nil, 0, p.absent() }
