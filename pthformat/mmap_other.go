//go:build !unix

package pthformat

import (
	"errors"
	"os"
)

// canMap is false where the unix calls are missing: Mmap then reads like Plain.
const canMap = false

func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }
