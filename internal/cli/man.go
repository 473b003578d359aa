package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// describeCompletion says how to use the command that cobra adds.
func describeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "Write a script that completes commands and flags in a shell"
			c.Long = `completion writes a script for a shell, which then completes optool's commands, flags and
values of flags, such as the operators of --op. The archives of a release have these
scripts already.`
			c.Example = `  source <(optool completion bash)
  optool completion bash >~/.local/share/bash-completion/completions/optool
  optool completion zsh >"${fpath[1]}/_optool"
  optool completion fish >~/.config/fish/completions/optool.fish
  optool completion powershell | Out-String | Invoke-Expression`
		}
	}
}

// newManCmd writes man pages, for make man and packagers.
func newManCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the man pages of all commands",
		Long: `man writes one man page for each command into DIR, which it makes. The archives of a
release have these pages already. man finds them if DIR is the folder man1 of a path in
MANPATH, such as ~/.local/share/man/man1.`,
		Example: `  optool man man1
  man -l man1/optool-replay.1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return failed(err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // the same pages from the same source
			_, committed, _ := stamp(buildInfo())
			date, err := time.Parse(time.RFC3339, committed)
			if err != nil { // the build does not know its commit
				date = time.Unix(0, 0).UTC()
			}
			page := &doc.GenManHeader{Section: "1", Source: "optool", Manual: "optool", Date: &date}
			if err := doc.GenManTree(root, page, args[0]); err != nil {
				return failed(err)
			}
			_, err = fmt.Fprintf(a.Out, "man pages are in %s\n", args[0])
			return failed(err)
		},
	}
}
