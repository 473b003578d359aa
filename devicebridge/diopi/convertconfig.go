package diopi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/tensor"
)

// A ConvertConfig says which tensors a library wants in another dtype or layout:
// the convert_config.yaml that a vendor keeps beside its functions and from which
// DIOPI generates its adaptor. It is a list of maps of one key, common_config for
// all functions or the name of one:
//
//   - common_config:
//     dtype: (int64)->int32, (float64)->float32   # arguments before the call, results back after it
//     layout: NCHW                                # what the functions take
//   - diopiRMSNorm:
//     tensor_dtype: {inv_rms: (float16)->float32} # of one parameter
//   - diopiConvolution2d:
//     layout: NHWC, weight(NCHW)                  # the first where a tensor has none of them
//   - diopiIndex:
//     contiguous: input                           # or true, in common_config
//   - diopiLinear:
//     supportComposite: true                      # other functions may stand in for it
//
// What is said of a parameter comes before what is said of its function, that
// before common_config, each for itself: dtype, layout. Of two entries for a
// function the later counts alone. A nil ConvertConfig converts nothing.
type ConvertConfig struct {
	common    conversions
	functions map[string]*functionConversions
}

// conversions are what one level of the file sets; nil is not set.
type conversions struct {
	dtype      map[tensor.DType]tensor.DType
	layouts    []layout
	contiguous bool
}

type functionConversions struct {
	conversions
	params    map[string]*conversions
	composite bool
}

// LoadConvertConfig reads a convert_config.yaml. Errors name the file and the line.
func LoadConvertConfig(path string) (*ConvertConfig, error) {
	data, err := smallfile.Read(path, smallfile.Most)
	if err != nil {
		return nil, err
	}
	return ParseConvertConfig(path, data)
}

// ParseConvertConfig parses the contents of a convert_config.yaml; name is used
// in errors.
func ParseConvertConfig(name string, data []byte) (*ConvertConfig, error) {
	c := &ConvertConfig{functions: map[string]*functionConversions{}}
	p := &configParser{name: name}
	var doc yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	list := doc.Content[0]
	if list.Tag == "!!null" {
		return nil, nil
	}
	if list.Kind != yaml.SequenceNode {
		return nil, p.errorf(list, "want a list of functions")
	}
	for _, entry := range list.Content {
		if entry.Kind != yaml.MappingNode || len(entry.Content) != 2 {
			return nil, p.errorf(entry, "want a map of one key, common_config or the name of a function")
		}
		function, n := entry.Content[0].Value, entry.Content[1]
		fc, err := p.entry(function, entry.Content[0], n)
		if err != nil {
			return nil, err
		}
		if function == commonConfig {
			c.common = fc.conversions
		} else {
			c.functions[function] = fc
		}
	}
	return c, nil
}

const commonConfig = "common_config"

// A configParser knows what file its errors are about.
type configParser struct{ name string }

func (p *configParser) errorf(n *yaml.Node, format string, a ...any) error {
	return fmt.Errorf("%s:%d: %s", p.name, n.Line, fmt.Sprintf(format, a...))
}

// entry reads what is said of a function, or of all.
func (p *configParser) entry(function string, key, n *yaml.Node) (*functionConversions, error) {
	fc := &functionConversions{params: map[string]*conversions{}}
	var f *Function
	if function != commonConfig {
		var ok bool
		if f, ok = Lookup(function); !ok {
			return nil, p.errorf(key, "DIOPI has no function %q", function)
		}
	}
	if n.Tag == "!!null" {
		return fc, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, p.errorf(n, "%s: want a map", function)
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, v := n.Content[i], n.Content[i+1]
		var err error
		switch {
		case key.Value == "dtype":
			fc.dtype, err = p.dtypes(v)
		case key.Value == "layout":
			err = p.layout(f, fc, v)
		case key.Value == "contiguous" && f == nil:
			fc.contiguous, err = p.flag(v)
		case key.Value == "contiguous":
			for _, name := range items(v) {
				if err := p.param(f, name, v); err != nil {
					return nil, err
				}
				fc.param(name).contiguous = true
			}
		case key.Value == "tensor_dtype" && f != nil:
			err = p.tensorDTypes(f, fc, v)
		case key.Value == "supportComposite" && f != nil:
			fc.composite, err = p.flag(v)
		default:
			err = p.errorf(key, "%s: unknown key %q", function, key.Value)
		}
		if err != nil {
			return nil, err
		}
	}
	return fc, nil
}

// param is what is said of a parameter.
func (fc *functionConversions) param(name string) *conversions {
	if fc.params[name] == nil {
		fc.params[name] = &conversions{}
	}
	return fc.params[name]
}

// param checks that f has a parameter that is a tensor.
func (p *configParser) param(f *Function, name string, n *yaml.Node) error {
	if f != nil {
		if q, ok := f.Param(name); ok && strings.HasPrefix(string(q.Kind), "tensor_") {
			return nil
		}
		return p.errorf(n, "%s has no tensor %q", f.Name, name)
	}
	return p.errorf(n, "%s is about all functions and cannot name the parameter %q", commonConfig, name)
}

func (p *configParser) flag(n *yaml.Node) (bool, error) {
	var b bool
	if err := n.Decode(&b); err != nil {
		return false, p.errorf(n, "want true or false, got %q", n.Value)
	}
	return b, nil
}

// items are the words of a list, or of a text with commas.
func items(n *yaml.Node) []string {
	if n.Kind == yaml.SequenceNode {
		var words []string
		for _, it := range n.Content {
			words = append(words, items(it)...)
		}
		return words
	}
	return fields(n.Value)
}

func (p *configParser) tensorDTypes(f *Function, fc *functionConversions, n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return p.errorf(n, "tensor_dtype: want a map of parameters")
	}
	for i := 0; i < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if err := p.param(f, name, n.Content[i]); err != nil {
			return err
		}
		m, err := p.dtypes(n.Content[i+1])
		if err != nil {
			return err
		}
		fc.param(name).dtype = m
	}
	return nil
}

// A rule of dtypes: "(float64, int64)->float32".
var dtypeRulePattern = lazyregexp.New(`^\(([^()]*)\)->(\w+)(,|$)`)

func (p *configParser) dtypes(n *yaml.Node) (map[tensor.DType]tensor.DType, error) {
	m := map[tensor.DType]tensor.DType{}
	rest := strings.ToLower(strings.Join(strings.Fields(n.Value), ""))
	for rest != "" {
		found := dtypeRulePattern().FindStringSubmatch(rest)
		if found == nil {
			return nil, p.errorf(n, "dtype %q: want (DTYPE, ...)->DTYPE, separated by commas", n.Value)
		}
		rest = rest[len(found[0]):]
		to, ok := tensor.ParseDType(found[2])
		if !ok {
			return nil, p.errorf(n, "unknown dtype %q", found[2])
		}
		for _, name := range fields(found[1]) {
			from, ok := tensor.ParseDType(name)
			if !ok {
				return nil, p.errorf(n, "unknown dtype %q", name)
			}
			m[from] = to
		}
	}
	return m, nil
}

// A layout in the file: a name, or a name for one parameter.
var layoutPattern = lazyregexp.New(`^(?:(\w+)\()?(\w+)(\))?$`)

func (p *configParser) layout(f *Function, fc *functionConversions, n *yaml.Node) error {
	for _, word := range items(n) {
		found := layoutPattern().FindStringSubmatch(word)
		if found == nil || (found[1] == "") != (found[3] == "") {
			return p.errorf(n, "layout %q: want NAME or PARAMETER(NAME), separated by commas", word)
		}
		l, ok := layouts[found[2]]
		if !ok {
			return p.errorf(n, "unknown layout %q", found[2])
		}
		to := &fc.conversions
		if name := found[1]; name != "" {
			if err := p.param(f, name, n); err != nil {
				return err
			}
			to = fc.param(name)
		}
		to.layouts = append(to.layouts, l)
	}
	return nil
}

// of is what applies to a parameter of a function.
func (c *ConvertConfig) of(function, param string) conversions {
	r := c.common
	levels := []*conversions{}
	if fc := c.functions[function]; fc != nil {
		levels = append(levels, &fc.conversions)
		if pc := fc.params[param]; pc != nil {
			levels = append(levels, pc)
		}
	}
	for _, l := range levels {
		if l.dtype != nil {
			r.dtype = l.dtype
		}
		if l.layouts != nil {
			r.layouts = l.layouts
		}
		r.contiguous = r.contiguous || l.contiguous
	}
	if r.contiguous {
		r.layouts = contiguous(r.layouts)
	}
	return r
}
