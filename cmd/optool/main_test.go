package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"optool": func() { os.Exit(cli.Main(os.Args[1:], cli.System())) },
	})
}

// TestScripts runs testdata/script/*.txtar. They find the fixtures in
// $CAPTURES; the condition device says that this build has a device.
func TestScripts(t *testing.T) {
	captures, err := filepath.Abs("../../fixtures/captures")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("CAPTURES", captures)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "device" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			d, err := devicebridge.Open(t.Context(), devicebridge.Config{Library: devicebridge.Host})
			if err != nil {
				return false, nil
			}
			return true, d.Close()
		},
	})
}
