package cli

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/devicebridge/diopi/mapping"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/reports"
)

type opsOptions struct {
	json     bool
	markdown bool
	op       string
}

// An opInfo is one operator overload in `ops --json`.
type opInfo struct {
	Name             string   `json:"name"`
	Names            []string `json:"names"`
	Schema           string   `json:"schema"`
	DTypes           []string `json:"dtypes"`
	Forward          bool     `json:"forward"`
	Backward         bool     `json:"backward"`
	DIOPI            []string `json:"diopi"`
	Nondeterministic bool     `json:"nondeterministic"`
	ErrorClass       string   `json:"error_class"`
	Summary          string   `json:"summary"`
	Source           string   `json:"source"`
}

func newOpsCmd(a *app) *cobra.Command {
	var o opsOptions
	cmd := &cobra.Command{
		Use:   "ops",
		Short: "List the operators the reference knows",
		Example: `  optool ops
  optool ops --op softmax
  optool ops --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runOps(a, &o) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print a JSON array")
	cmd.Flags().BoolVar(&o.markdown, "markdown", false, "print the page docs/ops.md")
	cmd.Flags().StringVar(&o.op, "op", "", "only operators one of whose names contains this")
	return cmd
}

func runOps(a *app, o *opsOptions) error {
	reg := ops.Default()
	infos := []opInfo{}
	for _, e := range reg.Entries() {
		if o.op == "" || strings.Contains(e.Op()+" "+strings.Join(e.Names, " "), o.op) {
			infos = append(infos, newOpInfo(e))
		}
	}
	if o.json {
		enc := json.NewEncoder(a.Out)
		enc.SetEscapeHTML(false)
		return failed(enc.Encode(infos))
	}
	if o.markdown {
		return failed(writeOpsPage(a.Out, reg))
	}
	l := reports.NewListing(a.Out, a.outputWidth(), "op", "backward", "error", "summary", "names")
	for _, i := range infos {
		backward := "-"
		switch {
		case i.Nondeterministic:
			backward = "random"
		case i.Backward:
			backward = "yes"
		}
		if err := l.Add(i.Name, backward, i.ErrorClass, i.Summary, strings.Join(i.Names, " ")); err != nil {
			return failed(err)
		}
	}
	return failed(l.Flush())
}

func newOpInfo(e *opdef.Entry) opInfo {
	return opInfo{
		Name: e.Op(), Names: e.Names, Schema: e.Schema.String(), DTypes: e.DTypes(), Forward: true, Backward: e.HasGrad,
		DIOPI: deviceFunctions(e), Nondeterministic: e.Random != "", ErrorClass: e.Error.Class.String(),
		Summary: e.Doc.Summary, Source: e.Doc.Source,
	}
}

// deviceFunctions are the C functions of DIOPI that may run an op on a device.
func deviceFunctions(e *opdef.Entry) []string {
	m, err := mapping.Of(e)
	if err != nil {
		return []string{}
	}
	return m.Recipe.Functions()
}
