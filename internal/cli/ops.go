package cli

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/devicebridge/diopi/mapping"
	"github.com/optool/optool/ops/custom"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/reports"
)

type opsOptions struct {
	json     bool
	markdown bool
	op       string
	check    string
	language bool
	source   bool
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
		Use:   "ops [NAME]",
		Short: "List the operators that the reference knows, or describe one",
		Long: `ops lists the operators that the reference knows. With a NAME it describes each
operator of that name: arguments, formula, error bound, gradients, and the functions
of a device that compute it. With --source it prints how an operator is defined, if a
file declares it: one of yours, or one that is part of optool, as for those of torch_npu,
vLLM and other libraries. Copy it to a file of your own to change it.

Declare your own operators in files of Starlark, a small dialect of Python
(docs/custom-ops.md), and name the files by --ops or OPTOOL_OPS. --functions lists
what the files can use. --check tests the operators in a file: gradients against
difference quotients, layouts, dtypes and edge values.`,
		Example: `  optool ops
  optool ops torch.nn.functional.softmax
  optool ops --op softmax --json
  optool ops torch_npu.npu_swiglu --source
  optool ops --check fixtures/custom-ops/mylib.star`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return runOps(a, &o, args) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print a JSON array")
	cmd.Flags().BoolVar(&o.markdown, "markdown", false, "print a page in Markdown")
	cmd.Flags().StringVar(&o.op, "op", "", "only operators with a name that contains this")
	cmd.Flags().StringVar(&o.check, "check", "", "check the operators in this `FILE` or folder")
	cmd.Flags().BoolVar(&o.language, "functions", false, "list the functions that --ops files can use")
	cmd.Flags().BoolVar(&o.source, "source", false, "print the definition of the operator NAME")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown", "check", "functions", "source")
	return cmd
}

func runOps(a *app, o *opsOptions, names []string) error {
	reg := a.known()
	switch {
	case o.check != "":
		return a.checkOperators(o.check)
	case o.language:
		return failed(a.listFunctions())
	}
	if o.source && len(names) == 0 {
		return usageError("--source: want the NAME of an operator")
	}
	entries := reg.Entries()
	if len(names) == 1 {
		if entries = operatorsNamed(reg, names[0]); len(entries) == 0 {
			return unknownOperator(reg, names[0])
		}
		if o.source {
			return a.writeSources(names[0], entries)
		}
		if !o.json && !o.markdown {
			return failed(writeOperators(a.Out, a.outputWidth(), entries))
		}
	}
	infos, chosen := []opInfo{}, []*opdef.Entry{}
	for _, e := range entries {
		if o.op == "" || strings.Contains(e.Op()+" "+strings.Join(e.Names, " "), o.op) {
			infos, chosen = append(infos, newOpInfo(e)), append(chosen, e)
		}
	}
	switch {
	case o.json:
		enc := json.NewEncoder(a.Out)
		enc.SetEscapeHTML(false)
		return failed(enc.Encode(infos))
	case o.markdown:
		return failed(writeOpsPage(a.Out, chosen))
	}
	return failed(a.listOperators(infos))
}

// listFunctions lists the functions of the language of operators.
func (a *app) listFunctions() error {
	l := reports.NewListing(a.Out, a.outputWidth(), "function", "what it gives")
	for _, f := range custom.Functions() {
		if err := l.Add(f.Signature, f.Doc); err != nil {
			return err
		}
	}
	return l.Flush()
}

func (a *app) listOperators(infos []opInfo) error {
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
			return err
		}
	}
	return l.Flush()
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
