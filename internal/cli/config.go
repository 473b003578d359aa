package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/optool/optool/internal/smallfile"
)

// configFile is the file of flags that a command line need not repeat, in the working
// directory; OPTOOL_CONFIG names another.
const configFile = "optool.yaml"

// configure gives a command the flags of the file of flags that its command line does
// not have: those under the command's name, and those outside of any that it knows. Keys
// that are no command and no flag are refused. What was taken is said, whatever else is
// quiet: a team's file may loosen a check that a user thinks is strict.
func (a *app) configure(cmd *cobra.Command) error {
	path, named := os.LookupEnv("OPTOOL_CONFIG")
	path = cmp.Or(path, configFile)
	text, err := smallfile.Read(path, smallfile.Most)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return nil
	case err != nil:
		return usageError("OPTOOL_CONFIG: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return usageError("%s: %w", path, err)
	}
	if len(doc.Content) == 0 {
		return nil // empty
	}
	c := config{path: path, cmd: cmd, given: map[string]bool{}}
	cmd.Flags().Visit(func(f *pflag.Flag) { c.given[f.Name] = true })
	if err := c.read(doc.Content[0]); err != nil {
		return err
	}
	if len(c.taken) > 0 {
		a.config = path + ": " + strings.Join(c.taken, " ")
		a.warn("flags in force from %s", a.config)
	}
	return nil
}

// A config is a file of flags that is being read for a command.
type config struct {
	path  string
	cmd   *cobra.Command
	given map[string]bool // flags of the command line
	taken []string        // flags that the file set, as they would be typed
}

func (c *config) errorf(at *yaml.Node, format string, args ...any) error {
	return usageError("%s:%d: %w", c.path, at.Line, fmt.Errorf(format, args...))
}

func (c *config) read(top *yaml.Node) error {
	if top.Kind != yaml.MappingNode {
		return c.errorf(top, "want flags and commands with flags")
	}
	root := c.cmd.Root()
	// Those of the command come last: they win over what holds for all.
	var own []*yaml.Node
	for i := 0; i < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if value.Kind != yaml.MappingNode {
			known := false
			for _, cmd := range append(root.Commands(), root) {
				known = known || flagOf(cmd, key.Value) != nil
			}
			if !known {
				return c.errorf(key, "unknown flag %q", key.Value)
			}
			if err := c.set(key, value); err != nil {
				return err
			}
			continue
		}
		cmd, _, err := root.Find([]string{key.Value})
		if err != nil || cmd == root {
			return c.errorf(key, "unknown command %q", key.Value)
		}
		for j := 0; j < len(value.Content); j += 2 {
			if name := value.Content[j]; flagOf(cmd, name.Value) == nil {
				return c.errorf(name, "%s has no flag %q", key.Value, name.Value)
			}
		}
		if cmd == c.cmd {
			own = append(own, value.Content...)
		}
	}
	for i := 0; i < len(own); i += 2 {
		if err := c.set(own[i], own[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// flagOf is a flag of a command or of all, nil if there is none.
func flagOf(cmd *cobra.Command, name string) *pflag.Flag {
	return cmp.Or(cmd.Flags().Lookup(name), cmd.Root().PersistentFlags().Lookup(name))
}

// set sets a flag that the command has and its command line has not.
func (c *config) set(key, value *yaml.Node) error {
	f := flagOf(c.cmd, key.Value)
	if f == nil || c.given[f.Name] {
		return nil
	}
	nodes := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		nodes = value.Content
	}
	var values []string
	for _, v := range nodes {
		if v.Kind != yaml.ScalarNode {
			return c.errorf(v, "%s: want a value or a list of values", key.Value)
		}
		values = append(values, v.Value)
	}
	if f.Value.Type() == "string" {
		values = []string{strings.Join(values, ",")} // as it is typed
	}
	for _, v := range values {
		if err := c.cmd.Flags().Set(f.Name, v); err != nil {
			return c.errorf(value, "%s: %w", key.Value, err)
		}
		c.taken = append(c.taken, "--"+f.Name+"="+quote(v))
	}
	return nil
}
